/*
 * Leases: src/under-lease.ts, src/at-most-once.ts, src/leases.ts and the scripts in src/stores/redis/scripts/.
 *
 * Workers receive messages, claim them under a nonce, handle, complete by the nonce and ack. A lease may run out at any time,
 * which stands for slow handlers, for pauses and for clocks that differ: so renewing keeps nothing safe here, and only tells
 * an owner that it was replaced. A call to the store may be carried out or not, with its reply lost or not, or arrive when its
 * caller has long gone on or is dead. A worker may die before and after each step. The broker may deliver the message to any
 * worker at any time, after the ack too.
 *
 * See inbox.pml for `never`, `sometimes` and the switches.
 */
#ifndef INSIDE
#define INSIDE 0                /* the effect is written in the transaction that completes the lease */
#endif
#ifndef NO_FENCE
#define NO_FENCE 0              /* who completes is not asked whether he still owns the lease */
#endif
#ifndef SINK_HAS_KEYS
#define SINK_HAS_KEYS 0         /* where the effect goes, a second one with the same message id is refused */
#endif
#ifndef SINK_HAS_TOKENS
#define SINK_HAS_TOKENS 0       /* where the effect goes, a lower token than the highest so far is refused */
#endif
#ifndef ACK_FIRST
#define ACK_FIRST 0             /* acked when it arrives */
#endif
#ifndef AT_MOST_ONCE
#define AT_MOST_ONCE 0          /* completed first, handled after it */
#endif
#ifndef NEW_NONCE
#define NEW_NONCE 0             /* what the store did not answer is not asked again by the same nonce */
#endif
#ifndef BUSY_IS_DONE
#define BUSY_IS_DONE 0          /* a claim of somebody else counts as done */
#endif
#ifndef REPLY_IGNORED
#define REPLY_IGNORED 0         /* a completion that was sent counts as recorded */
#endif
#ifndef RELEASE_UNCHECKED
#define RELEASE_UNCHECKED 0     /* who gives a claim up is not asked whether it is his */
#endif
#ifndef FORGETS
#define FORGETS 0               /* the store loses what it knows of a message, as in a failover */
#endif
#ifndef TOKENS_RESTART
#define TOKENS_RESTART 0        /* and then begins again at the first token */
#endif
#ifndef NO_CRASH
#define NO_CRASH 0
#endif
#ifndef SOMETIMES
#define SOMETIMES 0
#endif
#ifndef CLAIMS
#define CLAIMS 3                /* granted at most; the first, and each that takes over */
#endif

/* Names for the report: an assertion is printed by its text. */
bool twice = 1;
bool lost = 1;                  /* acked, not done, and nobody is at work on it */
bool stale = 1;                 /* an effect of an earlier owner after one of a later owner */
bool ack_arrived = 1, redelivered = 1, taken_over = 1, found_busy = 1, copy_found = 1, completion_refused = 1, renewal_refused = 1,
     given_up = 1, reply_lost = 1, arrived_late = 1, completed_late = 1, crashed = 1;
#define never(what) assert(!what)
#define sometimes(what) assert(!(SOMETIMES && what))

/* The broker. */
bool acked;
bool at_work[2];                /* a worker has the message in its hand */
bool tried;                     /* only for the report */

/* What the store knows of the message. */
mtype = { absent, claimed, released, done };
mtype state = absent;
byte owner;                     /* its nonce */
byte turn;                      /* how many owners there have been */
byte forgotten;                 /* of them; the last owner's token is turn - forgotten */
byte nonces;                    /* handed out */

/* Where the effect goes. */
bool effect;
byte latest;                    /* the owner's turn */
byte highest;                   /* token */

/* One call of each worker that arrives when nobody waits for it any more. */
mtype = { nothing, claim, complete, release };
mtype late[2] = nothing;
byte late_nonce[2], late_turn[2], late_token[2];

mtype = { granted, duplicate, busy, yes, no };

inline take_effect(own_turn, own_token) {
  if
  :: effect && SINK_HAS_KEYS
  :: SINK_HAS_TOKENS && own_token < highest
  :: else ->
       if :: own_turn < latest -> never(stale) :: else latest = own_turn fi;
       if :: SINK_HAS_TOKENS -> highest = own_token :: else fi;
       if :: effect -> never(twice) :: else effect = true fi
  fi
}

/* The calls, each carried out as a whole. `answer` is what the caller would hear. */
inline do_claim(n) {
  if
  :: state == claimed && owner == n -> answer = granted            /* the same claim, sent again */
  :: state == done -> answer = duplicate; sometimes(copy_found)
  :: state == claimed && owner != n -> answer = busy; sometimes(found_busy)
  :: (state == absent || state == released || state == claimed && owner != n) && turn < CLAIMS ->
       if :: state == claimed -> sometimes(taken_over) :: else fi; /* the lease has run out */
       state = claimed;
       owner = n;
       turn++;
       answer = granted
  :: (state == absent || state == released) && turn >= CLAIMS -> answer = busy    /* the model ends here */
  fi
}

inline do_complete(n, own_turn, own_token) {
  if
  :: (NO_FENCE || owner == n && state == claimed) ->
       if :: INSIDE -> take_effect(own_turn, own_token) :: else fi;
       state = done;
       answer = yes
  :: !NO_FENCE && owner == n && state == done -> answer = yes      /* the same completion, sent again */
  :: else -> answer = no; sometimes(completion_refused)
  fi
}

inline do_release(n) {
  if
  :: RELEASE_UNCHECKED || owner == n && state == claimed ->
       state = released;
       owner = 0;
       answer = yes;
       sometimes(given_up)
  :: else -> answer = no
  fi
}

inline ack() { acked = true; sometimes(ack_arrived) }

/* The worker has nothing in its hand any more. */
inline leave_off() {
  nonce = 0; mine = 0; shown = 0; answer = 0;
  at_work[w] = false;
  if :: acked && !effect && !at_work[1 - w] && late[0] == nothing && late[1] == nothing -> never(lost) :: else fi;
  goto idle
}

/* What a worker does not wait for any more is still on its way. */
inline leave(what) { if :: late[w] == nothing -> late[w] = what; late_nonce[w] = nonce; late_turn[w] = mine; late_token[w] = shown :: true fi }

/* A dead worker begins again as one that has nothing in its hand. */
#define MAY_CRASH :: atomic { !NO_CRASH -> sometimes(crashed); leave_off() }

proctype worker(byte w) {
  byte nonce;
  byte mine, shown;             /* of the claim that is held: the owner's turn and its token */
  mtype answer;
end:
idle:
  atomic {
    at_work[w] = true;
    if
    :: SOMETIMES -> if :: tried && !acked -> sometimes(redelivered) :: else fi; tried = true
    :: else
    fi;
    if :: ACK_FIRST -> ack() :: else fi
  };

end_again:
again:
  if
  /* Carried out; the answer comes, or is lost. */
  :: atomic { nonce != 0 || nonces < CLAIMS ->
       if :: nonce == 0 -> nonces++; nonce = nonces :: else fi;
       do_claim(nonce);
       if
       :: answer == granted -> mine = turn; shown = turn - forgotten; answer = 0
       :: answer == duplicate -> answer = 0; goto settle
       :: answer == busy -> answer = 0; if :: BUSY_IS_DONE -> goto settle :: goto again :: leave_off() fi
       :: true -> sometimes(reply_lost); answer = 0; goto unsure
       fi }
  /* Not carried out, or not yet. */
  :: atomic { nonce != 0 || nonces < CLAIMS ->
       if :: nonce == 0 -> nonces++; nonce = nonces :: else fi;
       leave(claim);
       goto unsure }
  fi;
  if :: AT_MOST_ONCE -> goto record :: else fi;

handle:
  if
  :: atomic { true -> if :: !INSIDE -> take_effect(mine, shown) :: else fi; if :: AT_MOST_ONCE -> goto settle :: else fi }
  /* The handler fails: the claim is given up. */
  :: atomic { !AT_MOST_ONCE ->
       if :: true -> do_release(nonce); answer = 0 :: true -> leave(release) fi;
       if :: nonce = 0; mine = 0; shown = 0; goto again :: leave_off() fi }
  /* A renewal says that another one owns it now; what the handler has done stays done. */
  :: atomic { !AT_MOST_ONCE && owner != nonce ->
       sometimes(renewal_refused);
       if :: !INSIDE -> take_effect(mine, shown) :: true fi;
       nonce = 0; mine = 0; shown = 0; goto again }
  MAY_CRASH
  fi;

record:
  if
  :: atomic { true -> do_complete(nonce, mine, shown);
       if
       :: answer == yes -> answer = 0; if :: AT_MOST_ONCE -> goto handle :: else -> goto settle fi
       :: answer == no -> answer = 0; nonce = 0; mine = 0; shown = 0; goto again    /* claiming again tells what became of it */
       :: true -> sometimes(reply_lost); answer = 0; goto unheard
       fi }
  :: atomic { true -> leave(complete); goto unheard }
  MAY_CRASH
  fi;

unheard:
  atomic {
    if
    :: REPLY_IGNORED -> goto settle
    :: NEW_NONCE -> nonce = 0; mine = 0; shown = 0; goto again
    :: else -> goto record
    fi
  };

unsure:
  atomic {
    if :: NEW_NONCE -> nonce = 0 :: else fi;
    if :: goto again :: leave_off() fi                                     /* asked again, handed back, or dead */
  };

settle:
  if
  :: atomic { true -> ack(); leave_off() }
  MAY_CRASH
  fi
}

inline over(n) { late[n] = nothing; late_nonce[n] = 0; late_turn[n] = 0; late_token[n] = 0 }

#define ARRIVES(w) \
  :: atomic { late[w] == claim -> do_claim(late_nonce[w]); sometimes(arrived_late); answer = 0; over(w) } \
  :: atomic { late[w] == release -> do_release(late_nonce[w]); answer = 0; over(w) } \
  :: atomic { late[w] == complete -> do_complete(late_nonce[w], late_turn[w], late_token[w]); \
       if :: answer == yes -> sometimes(completed_late) :: else fi; answer = 0; over(w) } \
  :: atomic { late[w] != nothing -> over(w) }

proctype network() {
  mtype answer;
end:
  do
  ARRIVES(0)
  ARRIVES(1)
  :: atomic { FORGETS -> state = absent; owner = 0; if :: TOKENS_RESTART -> forgotten = turn :: else fi }
  od
}

init { atomic { run network(); run worker(0); run worker(1) } }
