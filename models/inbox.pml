/*
 * The inbox on a store with transactions: src/within-transaction.ts, src/attempt.ts and the claim in
 * src/stores/postgres/statements.ts.
 *
 * Workers receive messages, claim, handle, commit and ack. The server carries out what it was sent at a moment of its own,
 * also when the sender is dead by then; it may cut any connection, and the reply to a COMMIT may be lost. A worker may die
 * before and after each step. The broker may deliver any message to any worker at any time, while another copy is at work
 * and after the ack, too.
 *
 * `never(x)` marks what must not be reached and `sometimes(x)` what has to be: docs/models.md. Each switch makes the
 * protocol another one, mostly a wrong one; by hand: spin -a -DACK_FIRST=1 models/inbox.pml
 */
#ifndef ACK_FIRST
#define ACK_FIRST 0             /* acked when it arrives */
#endif
#ifndef NO_UNIQUE_KEY
#define NO_UNIQUE_KEY 0         /* the claim looks for the row, and inserts it where nothing refuses a second one */
#endif
#ifndef MARK_FIRST
#define MARK_FIRST 0            /* the row is committed by itself, before the effect */
#endif
#ifndef MARK_LAST
#define MARK_LAST 0             /* the row is committed by itself, after the effect */
#endif
#ifndef BUSY_IS_DONE
#define BUSY_IS_DONE 0          /* a row that is not committed yet counts as done: the claim does not wait */
#endif
#ifndef COMMIT_REPLY_IGNORED
#define COMMIT_REPLY_IGNORED 0  /* a COMMIT that was sent counts as committed */
#endif
#ifndef UNCLAIM_ON_ERROR
#define UNCLAIM_ON_ERROR 0      /* after a COMMIT without a reply the row is deleted, and all is done again */
#endif
#ifndef EFFECT_OUTSIDE
#define EFFECT_OUTSIDE 0        /* the handler's effect is not part of the transaction */
#endif
#ifndef SINK_HAS_KEYS
#define SINK_HAS_KEYS 0         /* where the effect goes, a second one with the same message id is refused */
#endif
#ifndef FORGETS
#define FORGETS 0               /* rows are deleted although copies may still come */
#endif
#ifndef SOMETIMES
#define SOMETIMES 0
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif

/* Names for the report: an assertion is printed by its text. */
bool twice = 1, lost = 1;
bool ack_arrived = 1, redelivered = 1, late_copy = 1, two_at_work = 1, claim_waited = 1, copy_found = 1, cut_off = 1,
     reply_lost = 1, landed_after_crash = 1, crashed = 1;
#define never(what) assert(!what)
#define sometimes(what) assert(!(SOMETIMES && what))

#define WORKERS 2
#define SESSIONS 3
#define NONE 255

/* The broker. */
bool acked[MESSAGES];

/* The database: the row of a message is not there (0), inserted by an open transaction (its session + 1), or DONE. */
#define DONE 254
byte row[MESSAGES];
bool effect[MESSAGES];          /* committed */

/* The database's sessions, those of dead workers among them. */
mtype = { free, claim_sent, fresh, copy, commit_sent, committed, broken };
mtype session[SESSIONS] = free;
byte about[SESSIONS];           /* the message */
bool changed[SESSIONS];         /* the effect is written and not committed */
bool orphan[SESSIONS];          /* nobody listens any more */

/* Only for the report. */
bool tried[MESSAGES];
byte hand[WORKERS] = NONE;

inline take_effect(n) {
  if
  :: effect[n] && SINK_HAS_KEYS
  :: effect[n] && !SINK_HAS_KEYS -> never(twice)
  :: else -> effect[n] = true
  fi
}

inline close(n) { session[n] = free; about[n] = 0; changed[n] = false; orphan[n] = false }

inline ends(n, how) { changed[n] = false; if :: orphan[n] -> close(n) :: else -> session[n] = how fi }

/* One step of the server on session n. */
#define STEPS(n) \
  :: atomic { session[n] == claim_sent && row[about[n]] == 0 -> \
       session[n] = fresh; \
       if \
       :: MARK_FIRST -> row[about[n]] = DONE \
       :: NO_UNIQUE_KEY || MARK_LAST \
       :: else -> row[about[n]] = n + 1 \
       fi } \
  :: atomic { session[n] == claim_sent && row[about[n]] == DONE -> session[n] = copy; sometimes(copy_found) } \
  /* The unique index has a claim wait for the transaction that has inserted the row. */ \
  :: atomic { session[n] == claim_sent && row[about[n]] != 0 && row[about[n]] != DONE && (BUSY_IS_DONE || SOMETIMES) -> \
       sometimes(claim_waited); \
       if :: BUSY_IS_DONE -> session[n] = copy :: else fi } \
  :: atomic { session[n] == commit_sent -> \
       if :: orphan[n] -> sometimes(landed_after_crash) :: else fi; \
       if :: changed[n] -> take_effect(about[n]) :: else fi; \
       if :: NO_UNIQUE_KEY || row[about[n]] == n + 1 -> row[about[n]] = DONE :: else fi; \
       ends(n, committed) } \
  /* Cut off, timed out, refused, or the server dies: everything but what is committed is undone. */ \
  :: atomic { session[n] == claim_sent || session[n] == fresh || session[n] == copy || session[n] == commit_sent -> \
       sometimes(cut_off); \
       if :: row[about[n]] == n + 1 -> row[about[n]] = 0 :: else fi; \
       ends(n, broken) }

proctype server() {
  byte m;
end:
  do
  STEPS(0)
  STEPS(1)
  STEPS(2)
  :: atomic { FORGETS -> select(m : 0 .. MESSAGES - 1); if :: row[m] == DONE -> row[m] = 0 :: else fi; m = 0 }
  od
}

/* The worker has no use for its session any more; the server goes on with what it was sent. */
inline look_away() {
  if
  :: s == NONE
  :: s != NONE && (session[s] == committed || session[s] == broken) -> close(s)
  :: else -> orphan[s] = true
  fi;
  s = NONE
}

inline ack() {
  if :: !effect[m] -> never(lost) :: else fi;
  acked[m] = true;
  sometimes(ack_arrived)
}

proctype worker(byte w) {
  byte m, s = NONE;
end:
idle:
  atomic {
    select(m : 0 .. MESSAGES - 1);
    if
    :: SOMETIMES ->
         if :: tried[m] && !acked[m] -> sometimes(redelivered) :: acked[m] -> sometimes(late_copy) :: else fi;
         if :: hand[1 - w] == m -> sometimes(two_at_work) :: else fi;
         tried[m] = true;
         hand[w] = m
    :: else
    fi;
    if :: ACK_FIRST -> ack() :: else fi
  };

claim:
  atomic {
    if
    :: session[0] == free -> s = 0
    :: session[0] != free && session[1] == free -> s = 1
    :: session[0] != free && session[1] != free && session[2] == free -> s = 2
    fi;
    about[s] = m;
    session[s] = claim_sent
  };
  if
  :: atomic { session[s] == fresh || session[s] == broken -> skip }    /* that it is broken shows at the next step */
  :: atomic { session[s] == copy -> close(s); s = NONE; goto settle }
  :: goto crash
  fi;

  /* The handler. */
  atomic {
    if
    :: EFFECT_OUTSIDE -> take_effect(m)
    :: !EFFECT_OUTSIDE && session[s] == fresh -> changed[s] = true
    :: else
    fi
  };
  if
  :: atomic { session[s] == fresh -> session[s] = commit_sent }
  :: atomic { session[s] == broken -> close(s); s = NONE; goto failed }
  :: goto crash
  fi;
  if
  :: atomic { session[s] == committed -> close(s); s = NONE }
  :: atomic { session[s] == commit_sent || session[s] == committed || session[s] == broken ->   /* no reply */
       if :: session[s] == committed -> sometimes(reply_lost) :: else fi;
       look_away();
       if
       :: COMMIT_REPLY_IGNORED -> goto settle
       :: UNCLAIM_ON_ERROR -> if :: row[m] == DONE -> row[m] = 0 :: else fi; goto claim
       :: else -> goto claim    /* it waits for the old transaction, and then tells the truth */
       fi }
  :: goto crash
  fi;
  if :: MARK_LAST -> if :: row[m] = DONE :: goto crash fi :: else fi;

settle:
  if :: atomic { true -> ack(); goto done } :: goto crash fi;

failed:
  if :: goto claim :: goto done :: goto crash fi;             /* tried again, or handed back */

crash:
  atomic { true -> look_away(); sometimes(crashed) };

done:
  atomic { hand[w] = NONE; m = 0; goto idle }
}

init { atomic { run server(); run worker(0); run worker(1) } }
