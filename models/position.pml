/*
 * Positions of a lane, an ordered log, in the store: src/positions/ and src/stores/postgres/lanes.ts; the batch's last
 * statement is `advance` in src/stores/postgres/statements.ts.
 *
 * Whoever takes the lane over raises its epoch and begins where the row says. A batch does its effects and, as its last
 * statement and sent together with COMMIT, moves the position where the row still has its epoch and its place. A commit
 * without a reply is settled by raising the epoch once more. Either process may take the lane at any time, so both may
 * believe to own it; a process may die before and after each step, and what it has sent may be carried out after that.
 * Batches run at READ COMMITTED; on a snapshot they are refused more often, which is no other than being cut off.
 *
 * See inbox.pml for `never`, `sometimes` and the switches.
 */
#ifndef NO_EPOCH
#define NO_EPOCH 0              /* the batch compares the place alone */
#endif
#ifndef NO_PLACE
#define NO_PLACE 0              /* the batch compares the epoch alone */
#endif
#ifndef UNLOCKED
#define UNLOCKED 0              /* the batch looks at the row at its beginning, and writes at its end whatever stands there */
#endif
#ifndef ROWS_IGNORED
#define ROWS_IGNORED 0          /* a move that changed no row is committed all the same */
#endif
#ifndef READ_BEFORE
#define READ_BEFORE 0           /* the place is read before the epoch is raised, and not returned by the same statement */
#endif
#ifndef DOUBT_READS
#define DOUBT_READS 0           /* a commit without a reply is settled by a plain read */
#endif
#ifndef DOUBT_IGNORED
#define DOUBT_IGNORED 0         /* a commit without a reply counts as committed */
#endif
#ifndef TELL_FIRST
#define TELL_FIRST 0            /* the source is told before the commit */
#endif
#ifndef SOMETIMES
#define SOMETIMES 0
#endif
#ifndef STEPS
#define STEPS 2                 /* batches to be done */
#endif
#ifndef EPOCHS
#define EPOCHS 4                /* raised so often, at most */
#endif

/* Names for the report: an assertion is printed by its text. */
bool twice = 1;
bool skipped = 1;               /* the position moved past what is not done */
bool overtaken = 1;             /* a batch was committed after a later owner had taken the lane */
bool told_too_much = 1;         /* the source was told more than the position says */
bool all_done = 1, taken_over = 1, two_owners = 1, waited = 1, refused = 1, cut_off = 1, landed_after_crash = 1,
     doubt_committed = 1, doubt_not_committed = 1, crashed = 1;
#define never(what) assert(!what)
#define sometimes(what) assert(!(SOMETIMES && what))

#define NONE 255

/* The lane's row. */
byte epoch, place;
byte lock = NONE;               /* the session that has changed the row and has not committed */

bool effect[STEPS];             /* committed */

/* Sessions of the database from the moment on in which COMMIT is sent; those of dead owners are among them. */
mtype = { free, commit_sent, moved, committed, broken };
mtype session[3] = free;
byte its_epoch[3], its_place[3];
bool orphan[3];                 /* nobody listens any more */

bool owning[2];                 /* only for the report */

inline close(n) { session[n] = free; its_epoch[n] = 0; its_place[n] = 0; orphan[n] = false }

inline ends(n, how) {
  if :: lock == n -> lock = NONE :: else fi;
  if :: orphan[n] -> close(n) :: else -> session[n] = how fi
}

#define STEP(n) \
  :: atomic { session[n] == commit_sent && (UNLOCKED || lock == NONE) -> \
       if \
       :: UNLOCKED -> session[n] = moved \
       :: !UNLOCKED && (ROWS_IGNORED || (NO_EPOCH || epoch == its_epoch[n]) && (NO_PLACE || place == its_place[n])) -> \
            lock = n; \
            session[n] = moved \
       :: else -> sometimes(refused); ends(n, broken) \
       fi } \
  :: atomic { session[n] == commit_sent && lock != NONE && SOMETIMES -> sometimes(waited) } \
  :: atomic { session[n] == moved -> \
       if :: orphan[n] -> sometimes(landed_after_crash) :: else fi; \
       if :: epoch != its_epoch[n] -> never(overtaken) :: else fi; \
       if :: effect[its_place[n]] -> never(twice) :: else effect[its_place[n]] = true fi; \
       place = its_place[n] + 1; \
       if :: place > 1 && !effect[0] -> never(skipped) :: else fi; \
       if :: place == STEPS -> sometimes(all_done) :: else fi; \
       ends(n, committed) } \
  :: atomic { session[n] == commit_sent || session[n] == moved -> sometimes(cut_off); ends(n, broken) }

proctype server() {
end:
  do
  STEP(0)
  STEP(1)
  STEP(2)
  od
}

inline look_away() {
  if
  :: s == NONE
  :: s != NONE && (session[s] == committed || session[s] == broken) -> close(s)
  :: else -> orphan[s] = true
  fi;
  s = NONE
}

inline tell(upto) { if :: upto > place -> never(told_too_much) :: else fi }

inline raise() { epoch++; e = epoch; p = place }

inline leave_off() { e = 0; p = 0; owning[w] = false; goto idle }
#define MAY_CRASH :: atomic { true -> sometimes(crashed); look_away(); leave_off() }

proctype owner(byte w) {
  byte e, p, before, s = NONE;
end_idle:
idle:
  if :: READ_BEFORE -> before = place :: else fi;
end_raise:
  /* One statement, which waits for a batch that has moved the position, and returns what it finds then. */
  atomic { lock == NONE && epoch < EPOCHS ->
    if :: epoch > 0 -> sometimes(taken_over) :: else fi;
    if :: SOMETIMES -> if :: owning[1 - w] -> sometimes(two_owners) :: else fi; owning[w] = true :: else fi;
    raise();
    if :: READ_BEFORE -> p = before; before = 0 :: else fi
  };

batch:
  if
  :: atomic { p == STEPS || UNLOCKED && (epoch != e || place != p) -> leave_off() }
  :: p < STEPS && (!UNLOCKED || epoch == e && place == p)
  MAY_CRASH
  fi;

  /* The handlers; where they fail, all is as it was. */
  atomic {
    if :: TELL_FIRST -> tell(p + 1) :: else fi;
    if
    :: session[0] == free -> s = 0
    :: session[0] != free && session[1] == free -> s = 1
    :: session[0] != free && session[1] != free && session[2] == free -> s = 2
    fi;
    session[s] = commit_sent;
    its_epoch[s] = e;
    its_place[s] = p
  };

  if
  :: atomic { session[s] == committed -> close(s); s = NONE; p++; tell(p); goto batch }
  /* Refused. */
  :: atomic { session[s] == broken && !(epoch == e && place == p) -> close(s); s = NONE; leave_off() }
  /* No reply: it was carried out, or was not, or will be. */
  :: atomic { true -> look_away() }
  MAY_CRASH
  fi;

  if
  :: atomic { DOUBT_IGNORED -> p++; tell(p); goto batch }
  :: atomic { DOUBT_READS && epoch == e -> p = place; goto batch }
  /* Raised once more: that waits for the old transaction, or makes it fail. */
  :: atomic { !DOUBT_IGNORED && !DOUBT_READS && lock == NONE && epoch == e && epoch < EPOCHS ->
       if :: place > p -> sometimes(doubt_committed) :: else -> sometimes(doubt_not_committed) fi;
       raise();
       tell(p);
       goto batch }
  :: atomic { !DOUBT_IGNORED && (DOUBT_READS || lock == NONE) && (epoch != e || epoch == EPOCHS) -> leave_off() }
  MAY_CRASH
  fi
}

init { atomic { run server(); run owner(0); run owner(1) } }
