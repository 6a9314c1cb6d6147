/* nursery.pml: the one word of a nursery {live, waiter, state}, the join that destroys it, and how
 * a cancellation finds everybody below.
 *
 * Two nurseries. The body of the outer one spawns OUT children, of which the first owns the inner
 * one, whose body spawns IN children. A child may end well, fail, spawn a sibling (the join is
 * open), or, with CANCEL, wait until it is cancelled. The first failure cancels the siblings. With
 * CANCEL the outer body cancels its own nursery after it has spawned.
 *
 * A nursery is destroyed as soon as its join returns: `alive` is checked at every touch.
 *
 * Each atomic block marked RMW is one read-modify-write of the shipped word. The owner counts its
 * own spawns in a plain field; until it folds them in, HOLD keeps the word's count above zero.
 * Parking is park.pml's affair: here a claim just wakes.
 *
 * @Name is the function of the product that a step stands for; docs/protocol.md lists them all.
 *
 * Faults, each a define, each expected by run.py to be found:
 *   CHECK_THEN_WAIT   the joiner looks at the count first and sets the waiter bit afterwards
 *   COUNT_THEN_LOOK   a child counts itself out first and looks at the waiter bit afterwards
 *   TOUCH_AFTER       the last child touches the nursery after it has woken the joiner
 *   UNSHIELDED        a cancelled joiner leaves without waiting for its children
 *   FLAG_FIRST        a fiber looks at the flags first and enrols in its scope afterwards
 *   SWEEP_FIRST       a canceller sweeps first and sets the flag afterwards
 *   TOP_ONLY          a canceller does not sweep the scopes below
 *   NO_DETACH         an inner scope dies while its parent still knows it
 */
#ifndef OUT
#define OUT 1
#endif
#ifndef IN
#define IN 1
#endif
#define OUTER 0
#define INNER 1
#define HOLD 50

mtype = { OPEN, CLOSING, CANCELLING, CLOSED, CANCELLED };     /* as in core/spec.hpp */

/* The word. */
mtype state[2] = OPEN;
bit waiter[2];
byte live[2] = HOLD;

/* Beside it. */
byte own[2];                   /* the owner's spawns, not yet folded in */
bit failure[2];                /* the first failure is kept */
bit woken[2];                  /* the joiner was claimed */

/* The scopes. */
bit flag[2];
bit scope_lock[2];             /* protects enrolled and, for the outer one, attached */
byte enrolled[2];              /* fibers that wait below, a set of bits */
bit attached = 0;              /* the outer scope knows the inner one */
byte nudged = 0;               /* fibers that a canceller woke, a set of bits */

/* Ghosts. */
bit alive[2];
byte running[2];               /* children that have not ended */
byte may_spawn[2] = 1;         /* siblings that children may still spawn */
byte names = 0;                /* bits given to leaves */

inline move(n, to) {           /* S3 §2.3 and nothing else. @Word::move_to */
  assert((state[n] == OPEN && (to == CLOSING || to == CANCELLING)) ||
         (state[n] == CLOSING && (to == CLOSED || to == CANCELLING)) ||
         (state[n] == CANCELLING && to == CANCELLED));
  state[n] = to
}

#define STOP(n) (flag[n] || (n == INNER && flag[OUTER]))      /* @CancelScope::cancelled */

inline lock(n) { atomic { scope_lock[n] == 0 -> scope_lock[n] = 1 } }
inline unlock(n) { scope_lock[n] = 0 }

inline sweep(n) { atomic { assert(alive[n]); nudged = nudged | enrolled[n] } }

inline cancel(n) {             /* @CancelScope::cancel: the flag, then everybody below, top down */
#ifndef SWEEP_FIRST
  atomic { assert(alive[n]); flag[n] = 1 };
#endif
  lock(n);
  sweep(n);                    /* @CancelScope::sweep */
#ifndef TOP_ONLY
  if
  :: n == OUTER && attached -> lock(INNER); sweep(INNER); unlock(INNER)
  :: else
  fi;
#endif
  unlock(n);
#ifdef SWEEP_FIRST
  atomic { assert(alive[n]); flag[n] = 1 };
#endif
}

/* A child waits for something that never comes: only a cancel ends it. */
inline wait_cancelled(n) {
#ifdef FLAG_FIRST
  stopped = STOP(n);
#endif
  if
  :: n == INNER && !attached ->                               /* @CancelScope::attach */
     lock(OUTER); attached = 1; unlock(OUTER)
  :: else
  fi;
  lock(n);                     /* @CancelScope::enrol */
  enrolled[n] = enrolled[n] | (1 << name);
  unlock(n);
#ifndef FLAG_FIRST
  stopped = STOP(n);
#endif
  if
  :: stopped
  :: else -> nudged & (1 << name)
  fi;
  lock(n);                     /* @CancelScope::withdraw */
  enrolled[n] = enrolled[n] & ~(1 << name);
  unlock(n)
}

inline fail(n) {               /* @Nursery::child_failed */
  atomic { assert(alive[n]); first = !failure[n]; failure[n] = 1 };
  if
  :: first ->
     atomic {                  /* RMW @Word::begin_cancelling */
       assert(alive[n]);
       first = (state[n] == OPEN || state[n] == CLOSING);
       if :: first -> move(n, CANCELLING) :: else fi
     };
     if :: first -> cancel(n) :: else fi
  :: else
  fi
}

inline child_ended(n) {        /* @Nursery::children_ended */
#ifdef COUNT_THEN_LOOK
  atomic { assert(alive[n]); running[n]--; live[n]-- };
  atomic { assert(alive[n]); last = (live[n] == 0 && waiter[n]) };
#else
  atomic {                     /* RMW @Word::children_ended */
    assert(alive[n]);
    running[n]--; live[n]--;
    last = (live[n] == 0 && waiter[n])
  };
#endif
  if
  :: last ->
     atomic { assert(alive[n]); assert(!woken[n]); woken[n] = 1 };   /* the claim */
#ifdef TOUCH_AFTER
     assert(alive[n])
#endif
  :: else
  fi
}

inline join(n) {               /* @Nursery::wait_for_children */
  atomic {                     /* RMW @Word::body_ended */
    live[n] = live[n] + own[n] - HOLD;
    nobody = (live[n] == 0)
  };
  do
  :: nobody -> break
  :: else ->
     nobody = (live[n] == 0);                                 /* @Word::nobody_left */
     if
     :: nobody -> break
     :: else
     fi;
#ifdef CHECK_THEN_WAIT
     nobody = (live[n] == 0);
     waiter[n] = 1;
#else
     atomic { waiter[n] = 1; nobody = (live[n] == 0) };       /* RMW @Word::owner_waits */
#endif
     if
     :: nobody                 /* the last child ended meanwhile, and did not see the bit */
#ifdef UNSHIELDED
     :: !nobody && STOP(n) -> break
#endif
     :: !nobody && woken[n] -> break
     fi
  od;
  assert(running[n] == 0);                                    /* the completion barrier */
  atomic {                     /* @Word::end */
    if
    :: state[n] == OPEN && !STOP(n) -> move(n, CLOSING)
    :: state[n] == OPEN && STOP(n) -> move(n, CANCELLING)
    :: else
    fi;
    if
    :: state[n] == CLOSING -> move(n, CLOSED)
    :: state[n] == CANCELLING -> move(n, CANCELLED)
    fi;
    assert(!failure[n] || state[n] == CANCELLED)
  };
#ifndef NO_DETACH
  if
  :: n == INNER && attached ->                                /* @CancelScope::detach */
     lock(OUTER); attached = 0; unlock(OUTER)
  :: else
  fi;
#endif
  atomic { assert(alive[n]); alive[n] = 0 }                   /* destroyed at once */
}

proctype leaf(byte n; byte name) {
  bit last, first, stopped;
  if
  :: STOP(n)                   /* cancelled before it started: no body @run_closure */
  :: else ->
     if
     :: skip                   /* ends well */
     :: fail(n)
     :: atomic { may_spawn[n] > 0 -> may_spawn[n]-- };
        atomic {               /* RMW @Word::child_added */
          assert(alive[n]);
          live[n]++; running[n]++; names++;
          run leaf(n, names)
        }
#ifdef CANCEL
     :: true -> wait_cancelled(n)
#endif
     fi
  fi;
  child_ended(n)
}

inline spawn_own(n) {          /* by the owner, in its plain field @Nursery::start */
  own[n]++; running[n]++; names++; spawned++;
  run leaf(n, names)
}

proctype owner() {             /* a child of the outer nursery, whose work is the inner one */
  bit last, first, nobody;
  byte spawned = 0;
  alive[INNER] = 1;
  do
  :: spawned == IN -> break
  :: else -> atomic { spawn_own(INNER) }
  od;
  join(INNER);
  assert(alive[OUTER]);                                       /* inner before outer */
  if
  :: failure[INNER] -> fail(OUTER)                            /* the exception leaves nursery() */
  :: else
  fi;
  child_ended(OUTER)
}

active proctype root() {
  bit first, nobody;
  byte spawned = 1;
  atomic { alive[OUTER] = 1; own[OUTER]++; running[OUTER]++; run owner() };
  do
  :: spawned == OUT -> break
  :: else -> atomic { spawn_own(OUTER) }
  od;
#ifdef CANCEL
  atomic { if :: state[OUTER] == OPEN -> move(OUTER, CANCELLING) :: else fi };
  cancel(OUTER);
#endif
  join(OUTER);
  assert(!alive[INNER])
}
