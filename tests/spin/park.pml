/* park.pml: the life of one fiber's control word, as weft does it.
 *
 * One fiber waits R times for one of NW arms. NW wakers together complete exactly R waits; workers
 * run the fiber and commit its parks on the far side of the switch. With CANCEL a canceller cancels
 * the fiber's scope once, and wakers may then give up. With LATE a timer that carries no data
 * claims with a ticket it read earlier, outside any lock.
 *
 * The word {ticket, verdict, state} is three variables that change together: each atomic block
 * marked RMW is one read-modify-write of the shipped word. The nudge is a bit of another one, the
 * fiber's attention. Memory is sequentially consistent here; the explorer in tests/model runs the
 * shipped code under the C++ memory model.
 *
 * @Name is the function of the product that a step stands for; docs/protocol.md lists them all.
 *
 * Faults, each a define, each expected by run.py to be found:
 *   OWN_STACK      the fiber commits PARKED before it has left its stack
 *   YIELD_NEAR     (with YIELD) a fiber that yields queues itself before it has left its stack
 *   TWO_WORDS      the latch is a word apart from the state, and the waker does not look again
 *   SELF_MUST      (with TWO_WORDS) the worker insists that its self-claim succeeds
 *   ENQ_PARKING    a claimer enqueues a fiber it found PARKING
 *   NO_NUDGE       commit_park does not look for the nudge
 *   NUDGE_LATE     the canceller looks at the word first and nudges afterwards
 *   CLEAR_LATE     checkpoint reads the scope first and clears the nudge afterwards
 *   NO_TICKET      the claim compares no ticket
 *   TICKET_APART   the claim compares the ticket first and swaps the state afterwards
 *   TICKET_RESTART a recycled frame starts again at ticket zero
 *   STEAL_VERDICT  a claim overwrites the verdict of an earlier winner
 *   LEAVE_ARM      the last arm is not unpublished when the wait returns
 *   MOVE_UNLOCKED  the resumed fiber reads its result without taking the arms' locks
 * Variants that must stay clean: LITERAL (a claim writes WAKING and RUNNABLE in two steps) and
 * YIELD (the fiber may yield before each wait).
 */
#ifndef NW
#define NW 1
#endif
#ifndef R
#define R 1
#endif
#ifndef WORKERS
#define WORKERS 2
#endif

#define NONE 0                 /* verdicts: none, arm i won, cancelled, timed out */
#define ARM(i) (1 + (i))
#define CANCELLED (1 + NW)
#define TIMED_OUT (2 + NW)
#define UNPUBLISHED 0          /* tickets start at 1 */

mtype = { RUNNABLE, RUNNING, PARKING, PARKED, WAKING, DONE };  /* the fiber */
mtype = { nothing, commit, requeue, release };                /* the after-switch hook */
mtype = { lost, latched, owned };                             /* the answer of a claim */

/* The control word, and the nudge beside it. */
byte ticket = 0;
byte verdict = NONE;
mtype state = RUNNABLE;
bit nudge = 0;
#ifdef TWO_WORDS
byte latch = NONE;
#endif

/* The arms: a lock, completions that nobody has taken yet, the ticket of the published waiter. */
bit locked[NW];
byte ready[NW];
byte node[NW];

bit scope_cancelled = 0;
byte to_give = R;              /* completions that the wakers still owe */
byte given = 0, taken = 0;     /* completions made by wakers, received by the fiber */

/* The switch: a worker lets the fiber run, the fiber hands back what the hook must do. */
bit go = 0;
mtype hook = nothing;

/* Ghosts: what the rules are about. */
bit queued = 1;                /* F2, F4: in a run queue */
byte on_stack = 0;             /* F1, F5: workers standing on the fiber's stack */
byte wait_number = 0;          /* like the ticket, but never wrong */
byte node_wait[NW];            /* the wait that published the node */
byte verdict_wait = 0;         /* the wait that the winning claim was meant for */
bit woken = 0;                 /* a claim won, and the fiber has not run since */
bit ended = 0;

inline lock_arm(a) { atomic { locked[a] == 0 -> locked[a] = 1 } }
inline unlock_arm(a) { locked[a] = 0 }

inline enqueue() {             /* @Io::resume */
  atomic {
    assert(state == RUNNABLE); /* F2 */
    assert(queued == 0);       /* F4 */
    queued = 1
  }
}

inline decide(v, w) { verdict = v; verdict_wait = w; woken = 1 }

inline take_parked(v, w) {     /* PARKED -> WAKING -> RUNNABLE, one RMW in the shipped word */
  decide(v, w);
#ifdef LITERAL
  state = WAKING;
#else
  state = RUNNABLE;
#endif
  answer = owned
}

inline enqueue_if_owned() {
  if
  :: answer == owned ->
#ifdef LITERAL
     atomic { if :: state == WAKING -> state = RUNNABLE :: else fi };
#endif
     enqueue()
  :: else
  fi
}

#ifdef NO_TICKET
#define FITS(t) (true)
#else
#define FITS(t) (ticket == (t))
#endif
#ifdef STEAL_VERDICT
#define UNDECIDED (true)
#else
#define UNDECIDED (verdict == NONE)
#endif

/* t is the ticket the waker knows, w the wait it means. @ControlWord::claim */
inline claim(t, w, v) {
#if defined(TWO_WORDS)
  seen = state;
  if
  :: seen == PARKING ->
     atomic { if :: FITS(t) && latch == NONE -> latch = v; verdict_wait = w; answer = latched
                 :: else -> answer = lost fi }
  :: seen == PARKED ->
     atomic { if :: state == PARKED && FITS(t) && latch == NONE -> take_parked(v, w)
                 :: else -> answer = lost fi }
  :: else -> answer = lost
  fi
#else
#ifdef TICKET_APART
  if
  :: ticket != t -> answer = lost
  :: else ->
#endif
  atomic {                     /* RMW */
    if
#ifdef TICKET_APART
    :: state == PARKED && UNDECIDED -> take_parked(v, w)
    :: state == PARKING && UNDECIDED -> decide(v, w); answer = latched
#else
    :: state == PARKED && FITS(t) && UNDECIDED -> take_parked(v, w)
    :: state == PARKING && FITS(t) && UNDECIDED -> decide(v, w);
#ifdef ENQ_PARKING
       state = RUNNABLE; answer = owned
#else
       answer = latched
#endif
#endif
    :: else -> answer = lost
    fi
  }
#ifdef TICKET_APART
  fi
#endif
#endif
}

/* Completes one arm: the claim under the arm's lock, the enqueue after it. @Event::set */
active [NW] proctype waker() {
  mtype seen, answer;
  byte arm = _pid;
  do
  :: atomic { to_give > 0 -> to_give-- };
     lock_arm(arm);
     answer = lost;
     if
     :: node[arm] != UNPUBLISHED ->
        claim(node[arm], node_wait[arm], ARM(arm)); node[arm] = UNPUBLISHED
     :: else
     fi;
     atomic { given++; if :: answer == lost -> ready[arm]++ :: else fi };
     unlock_arm(arm);
     enqueue_if_owned()
  :: to_give == 0 -> break
#ifdef CANCEL
  :: break                     /* nobody promised that the data ever comes */
#endif
  od
}

#ifdef CANCEL
active proctype canceller() {  /* @CancelScope::cancel */
  mtype answer = lost;
  scope_cancelled = 1;
#ifndef NUDGE_LATE
  nudge = 1;                   /* RMW, even if it is set already */
#endif
  atomic {                     /* RMW if there is a wait @ControlWord::cancel */
    if
    :: state == PARKED && verdict == NONE -> take_parked(CANCELLED, wait_number)
    :: state == PARKING && verdict == NONE -> decide(CANCELLED, wait_number)
    :: else
    fi
  };
#ifdef NUDGE_LATE
  nudge = 1;
#endif
  enqueue_if_owned()
}
#endif

#ifdef LATE
active proctype late_timer() { /* reads a ticket, is delayed as long as it likes, then claims */
  mtype seen, answer;
  byte t, w;
  if
  :: atomic { node[0] != UNPUBLISHED -> t = node[0]; w = node_wait[0] };
     claim(t, w, TIMED_OUT);
     enqueue_if_owned()
  :: skip
  fi
}
#endif

inline commit_park() {         /* @ControlWord::commit_park */
#if defined(OWN_STACK)
  skip                         /* already done by the fiber */
#elif defined(TWO_WORDS)
  atomic { assert(state == PARKING); state = PARKED };
  atomic { v = latch; latch = NONE };
  if
  :: v != NONE ->
     atomic {
#ifdef SELF_MUST
       assert(state == PARKED);
#endif
       if :: state == PARKED -> take_parked(v, verdict_wait) :: else -> answer = lost fi
     };
     enqueue_if_owned()
  :: else
  fi
#else
  atomic {                     /* RMW */
    assert(state == PARKING);
    if
    :: verdict == NONE -> state = PARKED; answer = lost; v = ticket
    :: else -> state = RUNNABLE; answer = owned                /* self-claim */
    fi
  };
#if defined(CANCEL) && !defined(NO_NUDGE)
  if
  :: answer == lost && nudge ->                                /* by the ticket of this wait */
     atomic { if :: state == PARKED && ticket == v && verdict == NONE ->
                    take_parked(CANCELLED, wait_number)
                 :: else fi; v = 0 }
  :: else -> v = 0
  fi;
#endif
  enqueue_if_owned()
#endif
}

active [WORKERS] proctype worker() {
  mtype answer, todo;
  byte v;
end_idle:
  do
  :: atomic { queued == 1 -> queued = 0;                       /* @Worker::pick */
              assert(state == RUNNABLE);                       /* F2, from the other side */
              assert(on_stack == 0);                           /* F1 */
              state = RUNNING; on_stack++; go = 1 };
     atomic { hook != nothing -> todo = hook; hook = nothing; on_stack-- };  /* the switch */
     if                                                        /* @arrive */
     :: todo == commit -> assert(on_stack == 0);               /* F5 */
        commit_park()
     :: todo == requeue ->
#ifndef YIELD_NEAR
        state = RUNNABLE; enqueue()
#else
        skip
#endif
     :: todo == release -> state = DONE; ended = 1
     fi
  od
}

inline switch_away(what) {     /* @switch_fibers */
  hook = what;
  atomic { go == 1 -> go = 0; woken = 0 }
}

active proctype fiber() {
  byte t, v, a, waits = 0;
  bit turned_ready;
  atomic { go == 1 -> go = 0 };
  do
  :: waits == R -> break
  :: else ->
again:                         /* @attend */
#ifdef CLEAR_LATE
     if :: scope_cancelled -> break :: else fi;
     nudge = 0;
#else
     nudge = 0;                /* RMW */
     if :: scope_cancelled -> break :: else fi;
#endif
#ifdef YIELD
     if
     ::
#ifdef YIELD_NEAR
        state = RUNNABLE; enqueue();
#endif
        switch_away(requeue)
     :: skip
     fi;
#endif
     a = 0;
     do                        /* @Waitable::try_complete */
     :: a == NW -> break
     :: else ->
        lock_arm(a);
        if
        :: ready[a] > 0 -> ready[a]--; unlock_arm(a); goto complete
        :: else -> unlock_arm(a); a++
        fi
     od;
     atomic {                  /* a store: nobody else writes it now @ControlWord::begin_park */
       assert(state == RUNNING);
#ifdef TICKET_RESTART
       ticket = 1;
#else
       ticket++;
#endif
       wait_number++;
       verdict = NONE; state = PARKING; t = ticket; v = NONE; turned_ready = 0; a = 0
     };
     do                        /* @Waitable::publish */
     :: a == NW -> break
     :: else ->
        lock_arm(a);
        if
        :: ready[a] > 0 -> turned_ready = 1; unlock_arm(a); break
        :: else -> atomic { node[a] = t; node_wait[a] = wait_number }; unlock_arm(a); a++
        fi
     od;
     if
     :: turned_ready == 0 -> goto away
     :: turned_ready == 1 || verdict != NONE ->                /* a peek before the switch */
        atomic { v = verdict; state = RUNNING; woken = 0 }     /* @ControlWord::abort_park */
     fi;
     goto withdraw;
away:
#ifdef OWN_STACK
     atomic { if :: verdict == NONE -> state = PARKED :: else -> state = RUNNING; goto got fi };
#endif
     switch_away(commit);
got: v = verdict;
withdraw:
#ifndef MOVE_UNLOCKED
     a = 0;
     do                        /* @Waitable::unpublish */
     :: a == NW -> break
#ifdef LEAVE_ARM
     :: a == NW - 1 -> break
#endif
     :: a < NW ->
        lock_arm(a);
        if :: node[a] == t -> node[a] = UNPUBLISHED :: else fi;
        unlock_arm(a); a++
     od;
     a = 0;
     do
     :: a == NW -> break
     :: else -> assert(node[a] == UNPUBLISHED); a++            /* nobody can find this wait now */
     od;
#endif
     assert(v == NONE || verdict_wait == wait_number);         /* ended by its own waker */
     if
     :: v == NONE || v == CANCELLED || v == TIMED_OUT -> goto again
     :: else                   /* an arm won: its completion is ours */
     fi;
complete:
     atomic { taken++; waits++ };
     assert(taken <= given)    /* what the wait reports has been written */
  od;
  if :: !scope_cancelled -> assert(taken == R) :: else fi;
  hook = release
}

#ifdef LIVE
/* Every wake leads to running, and the fiber comes to its end. Needs weak fairness. */
ltl live { ([] (woken -> <> !woken)) && <> ended }
#endif
