#include "structure_models.hpp"

#include "engine/shared_timers.hpp"
#include "model_engine.hpp"

#include <weft/cancel.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/time.hpp>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

namespace weft::model {
namespace {

using namespace std::chrono_literals;

// The model's engine with the shipped timers, and a clock that stands still until tick().
class TimedEngine final : public ModelEngine {
 public:
  void arm(Timer& timer) noexcept override {
    timers_.arm(timer);
    let_time_pass();
  }
  void disarm(Timer& timer) noexcept override { engine::SharedTimers::disarm(timer); }

  // Whether a join runs children that nobody has started on its own stack.
  bool adopts = false;
  // Whether a child that ends hands its turn to the owner, if that one was woken.
  bool hands_to_owner = false;
  Fiber* adopt(CancelScope& home, Departure how) noexcept override {
    if (hands_to_owner && how == Departure::finish) return take_owner(static_cast<Home&>(home));
    return adopts && how == Departure::park ? take_unborn(home) : nullptr;
  }

  // Or else tick() waits until somebody has armed a timer.
  void let_time_pass() noexcept {
    armed_.store(1, std::memory_order_release);
    Sync::wake(armed_, 1);
  }
  // By a thread: everything that is armed is due.
  void tick() {
    while (armed_.fetch_add(0, std::memory_order_acq_rel) == 0) Sync::sleep(armed_, 0);
    Fired fired;
    timers_.fire_due(now() + 1h, fired);
    resume_all(std::move(fired.woken));
    CancelScope::tell(fired.hooks);
  }

 private:
  engine::SharedTimers timers_;
  Atomic<std::uint32_t> armed_{0};
};

// What one model consists of; most need a part of it only.
struct Scene {
  TimedEngine engine;
  CancelScope scope{nullptr};  // one that threads may cancel
  Event go, never;
  Atomic<int> ran{0};
  Atomic<int> ended{0};
  Atomic<int> at_a_time{0};
  Atomic<Nursery*> home{nullptr};
  std::optional<std::stop_token> token;
  bool must_stop = false;

  void count() { ran.fetch_add(1, std::memory_order_relaxed); }
  // Only a cancel ends it.
  void wait_for_ever() {
    try {
      never.wait();
    } catch (const Cancelled&) {
      ended.fetch_add(1, std::memory_order_relaxed);
      throw;
    }
  }
  // By a thread.
  Nursery& wait_for_home() {
    for (;; Sync::spin())
      if (Nursery* const nursery = home.load(std::memory_order_acquire)) return *nursery;
  }
  [[nodiscard]] int runs() const { return ran.load(std::memory_order_relaxed); }
};

// One fiber that does `kOwner`. One worker is enough where all it meets are threads.
template <void (*kOwner)(Scene&)>
Scene& stage(Program& p, int workers) {
  auto& s = p.make<Scene>();
  s.engine.fiber([](void* at) { kOwner(*static_cast<Scene*>(at)); }, &s);
  for (; workers > 0; --workers) p.thread("worker", [&s] { s.engine.work(); });
  p.at_end([&s] { check(s.engine.all_frames_free(), "a frame is lost"); });
  return s;
}
template <void (*kOwner)(Scene&)>
void on_two(Program& p) {
  static_cast<void>(stage<kOwner>(p, 2));
}

// Lives in a nursery's arena, and so sees how it ended.
struct Witness {
  Witness(Nursery& n, NurseryState state, NurseryResult::Kind kind_in)
      : nursery(n), expected(state), kind(kind_in) {}
  Nursery& nursery;
  NurseryState expected;
  NurseryResult::Kind kind;
  ~Witness() {
    check(nursery.state() == expected, "the nursery is in the wrong terminal state");
    check(nursery.live() == 0, "a child is left over");
    const auto result = nursery.result();
    check(result && result->kind == kind, "the nursery has the wrong result");
  }
  static void of_success(Nursery& n) {
    n.make<Witness>(n, NurseryState::closed, NurseryResult::Kind::success);
  }
  static void of_cancel(Nursery& n) {
    n.make<Witness>(n, NurseryState::cancelled, NurseryResult::Kind::cancelled);
  }
};

// ── the last child ──────────────────────────────────────────────────────────────────────────────

// The owner closes while its child ends.
void close_against_last_child(Scene& s) {
  nursery([&s](Nursery& n) {
    Witness::of_success(n);
    n.spawn([&s] { s.count(); });
    check(n.close(), "nobody else closes it");
    check(!n.try_spawn([&s] { s.count(); }), "a closed nursery takes nobody");
  });
  check(s.runs() == 1, "the child has ended");
}

// The last child closes while its owner goes to wait, or has gone.
void last_child_closes(Scene& s) {
  nursery([&s](Nursery& n) {
    Witness::of_success(n);
    n.spawn([&s, &n] {
      check(n.close(), "nobody else closes it");
      s.count();
    });
  });
  check(s.runs() == 1, "the child has ended");
}

// The last child cancels; nothing else is below.
void last_child_cancels(Scene& s) {
  nursery([&s](Nursery& n) {
    Witness::of_cancel(n);
    n.spawn([&s, &n] {
      n.cancel();
      s.count();
    });
  });
  check(s.runs() == 1, "the child has ended");
}

// One child closes and ends, one cancels and ends, and the owner joins.
void close_and_cancel(Scene& s) {
  nursery([&s](Nursery& n) {
    n.spawn([&s, &n] {
      n.cancel();
      s.count();
    });
    static_cast<void>(n.try_spawn([&n] { static_cast<void>(n.close()); }));
  });
  check(s.runs() == 1, "who cancels was not cancelled before");
}

// ── cancel against close ────────────────────────────────────────────────────────────────────────

// Whoever comes first, cancelled is how it ends, and the child that waits is reached.
void cancel_against_close(Scene& s) {
  nursery([&s](Nursery& n) {
    Witness::of_cancel(n);
    n.spawn([&s, &n] {
      n.cancel();
      s.wait_for_ever();
    });
    static_cast<void>(n.close());
    check(!n.close(), "the second call");
    check(!n.try_spawn([&s] { s.count(); }), "it takes no more");
  });
  check(s.runs() == 0, "nobody was spawned");
}

// Threads that a child waits for close and cancel, while the owner comes to its join.
void lets_threads_end_it(Scene& s) {
  nursery([&s](Nursery& n) {
    Witness::of_cancel(n);
    n.spawn([&s, &n] {
      s.home.store(&n, std::memory_order_release);
      Event::Wait both{s.go};
      wait_shielded(both);
    });
  });
}

void ended_by_threads(Program& p) {
  auto& s = stage<lets_threads_end_it>(p, 1);
  const auto then_let_go = [&s] {
    if (s.ran.fetch_add(1, std::memory_order_acq_rel) == 1) s.go.set();
  };
  p.thread("closer", [&s, then_let_go] {
    static_cast<void>(s.wait_for_home().close());
    then_let_go();
  });
  p.thread("canceller", [&s, then_let_go] {
    s.wait_for_home().cancel();
    then_let_go();
  });
}

// ── cancel against spawn ────────────────────────────────────────────────────────────────────────

// A closure with something on the heap: it must be destroyed, run or unrun.
struct Waiter {
  Scene* scene;
  std::unique_ptr<int> belonging = std::make_unique<int>(1);
  void operator()() const { scene->wait_for_ever(); }
};

// By the owner, which counts its spawns in a plain field. Refused, dropped or woken: it ends.
void cancel_against_owners_spawn(Scene& s) {
  nursery([&s](Nursery& n) {
    n.spawn([&n] { n.cancel(); });
    try {
      n.spawn(Waiter{&s});
    } catch (const NurseryClosed&) {
      check(n.state() == NurseryState::cancelling, "refused for no reason");
    }
  });
}

// By a sibling, which counts in the word.
void cancel_against_siblings_spawn(Scene& s) {
  nursery([&s](Nursery& n) {
    n.spawn([&s, &n] { static_cast<void>(n.try_spawn(Waiter{&s})); });
    n.cancel();
  });
}

// By a sibling, while another one cancels.
void cancel_among_children(Scene& s) {
  nursery([&s](Nursery& n) {
    n.spawn([&s, &n] { static_cast<void>(n.try_spawn(Waiter{&s})); });
    n.spawn([&n] { n.cancel(); });
  });
}

// By a sibling, while the nursery is closed.
void close_against_siblings_spawn(Scene& s) {
  nursery([&s](Nursery& n) {
    n.spawn([&s, &n] {
      if (!n.try_spawn([&s, belonging = std::make_unique<int>(1)] { s.count(); })) s.count();
    });
    check(n.close(), "nobody else closes it");
  });
  check(s.runs() == 1, "spawned and run, or refused");
}

// A scope around the nursery is cancelled, by a thread, while the owner spawns and joins.
void spawns_in_a_scope(Scene& s) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, s.scope};
    nursery([&s](Nursery& n) { n.spawn(Waiter{&s}); });
    check(false, "the child waits for ever");
  } catch (const Cancelled& cancelled) {
    check(cancelled.reason() == CancelReason::requested, "the scope's own reason");
  }
}

void cancel_from_above(Program& p) {
  auto& s = stage<spawns_in_a_scope>(p, 1);
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// The same, with the child on its owner's stack, in the middle of the join.
void cancel_in_place(Program& p) {
  auto& s = stage<spawns_in_a_scope>(p, 1);
  s.engine.adopts = true;
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// Two workers share the children out: one is run in place, one perhaps elsewhere, and cancels.
void joins_in_place(Scene& s) {
  s.engine.adopts = true;
  nursery([&s](Nursery& n) {
    n.spawn([&n] { n.cancel(); });
    static_cast<void>(n.try_spawn(Waiter{&s}));
  });
}

// The body is woken by a child that ends, and goes on with it; the other one may end elsewhere.
void owner_goes_on(Scene& s) {
  s.engine.hands_to_owner = true;
  nursery([&s](Nursery& n) {
    Witness::of_success(n);
    n.spawn([&s] {
      s.count();
      s.go.set();
    });
    n.spawn([&s] { s.count(); });
    s.go.wait();
  });
  check(s.runs() == 2, "the join came too early");
}

// ── failures ────────────────────────────────────────────────────────────────────────────────────

struct Trouble {
  int number;
};

// Two children fail at once, or the second is cancelled by the first's failure. One error is
// thrown, the other, if there was one, is told to the hook.
void fails_twice(Scene& s, bool cancels) {
  Atomic<int> suppressed{0};
  int thrown = 0;
  const NurseryOptions options{
      .on_suppressed = [&suppressed](const std::exception_ptr& error, FiberId) {
        try {
          std::rethrow_exception(error);
        } catch (const Trouble& trouble) {
          suppressed.fetch_add(trouble.number, std::memory_order_relaxed);
        }
      }};
  try {
    nursery(options, [&s, cancels](Nursery& n) {
      for (int i = 1; i <= 2; ++i)
        static_cast<void>(n.try_spawn([&s, i] {
          s.ran.fetch_add(i, std::memory_order_relaxed);
          throw Trouble{i};
        }));
      if (cancels) n.cancel();
    });
  } catch (const Trouble& trouble) {
    thrown = trouble.number;
  }
  check(thrown + suppressed.load(std::memory_order_relaxed) == s.runs(),
        "an error is lost, or told twice");
  check(cancels || thrown != 0, "the first of them always runs");
}

void two_children_fail(Scene& s) { fails_twice(s, false); }
void two_fail_and_owner_cancels(Scene& s) { fails_twice(s, true); }

// ── race ────────────────────────────────────────────────────────────────────────────────────────

// Both arrive: one of them has won, and its result is whole.
void race_of_two(Scene& s) {
  const auto winner = weft::race([&s] { return s.count(), Var<int>{7}; },
                                 [&s] { return s.count(), Var<int>{8}; });
  const int value = winner.index() == 0 ? std::get<0>(winner).read() : std::get<1>(winner).read();
  check(value == 7 + static_cast<int>(winner.index()), "the result is the winner's");
  check(s.runs() >= 1, "somebody ran");
}

// The loser waits for what never comes. It is gone when race() returns.
void race_against_a_waiter(Scene& s) {
  const auto winner = weft::race([&s] { s.wait_for_ever(); }, [] { return Var<int>{8}; });
  check(winner.index() == 1 && std::get<1>(winner).read() == 8, "only one of them can win");
}

// To throw is to arrive.
void race_of_throwers(Scene& s) {
  bool thrown = false;
  try {
    static_cast<void>(weft::race([&s] { s.wait_for_ever(); }, [] { throw Trouble{1}; }));
  } catch (const Trouble&) {
    thrown = true;
  }
  check(thrown, "the winner's exception is race()'s");
}

// ── futures ─────────────────────────────────────────────────────────────────────────────────────

void get_against_completion(Scene& s) {
  nursery([&s](Nursery& n) {
    auto future = n.async([&s] { return s.count(), Var<int>{7}; });
    check(future.get().read() == 7, "the value is there");
    check(s.runs() == 1, "once");
  });
}

// The child fails: get() throws its error, and so does the nursery, once.
void get_against_failure(Scene&) {
  int caught = 0;
  try {
    nursery([&caught](Nursery& n) {
      auto future = n.async([]() -> int { throw Trouble{3}; });
      try {
        static_cast<void>(future.get());
        check(false, "there is no value");
      } catch (const Trouble&) {
        ++caught;
      } catch (const Cancelled&) {  // the failure cancels the body, too
        ++caught;
        throw;
      }
    });
  } catch (const Trouble& trouble) {
    caught += trouble.number;
  }
  check(caught == 4, "the error came out of the nursery, and ended the wait");
}

// One of two arms. The one that loses is nobody's any more when the wait has returned.
void waits_for_future_or_event(Scene& s) {
  std::optional<Future<int>> future;  // the last to go, after the join
  nursery([&s, &future](Nursery& n) {
    future.emplace(n.async([&s] {
      s.count();
      return 5;
    }));
    Event::Wait event{s.go};
    auto ready = future->on_ready();
    Waitable* const arms[] = {&ready, &event};
    const std::size_t winner = wait(arms);
    check(winner == 0 ? future->ready() : s.go.is_set(), "the arm that won is ready");
  });
  check(future->ready() && s.runs() == 1, "the child has ended");
}

void future_as_an_arm(Program& p) {
  auto& s = stage<waits_for_future_or_event>(p, 1);
  p.thread("setter", [&s] { s.go.set(); });
}

// cancel() before the child starts, while it waits, and after it has ended.
void cancel_against_child(Scene& s) {
  nursery([&s](Nursery& n) {
    auto future = n.async([&s] { s.wait_for_ever(); });
    future.cancel();
    try {
      future.get();
      check(false, "it waits for ever");
    } catch (const ChildCancelled&) {
    }
    check(n.state() == NurseryState::open, "the nursery goes on");
  });
}

void cancel_against_result(Scene&) {
  nursery([](Nursery& n) {
    auto future = n.async([] { return Var<int>{7}; });
    future.cancel();
    try {
      check(future.get().read() == 7, "a result in spite of the cancel is whole");
    } catch (const ChildCancelled&) {
    }
  });
}

// On the getter's stack, or by another worker on its own.
void get_in_place(Scene& s) {
  s.engine.adopts = true;
  get_against_completion(s);
}

void gets_in_a_scope(Scene& s) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, s.scope};
    nursery([&s](Nursery& n) { n.async([&s] { s.wait_for_ever(); }).get(); });
    check(false, "the child waits for ever");
  } catch (const Cancelled& cancelled) {
    check(cancelled.reason() == CancelReason::requested, "the scope's own reason");
  }
  check(s.ended.load(std::memory_order_relaxed) <= 1, "it was reached, if it has begun");
}

// The child is on the stack of who waits for it, and both are cancelled.
void cancel_of_a_get_in_place(Program& p) {
  auto& s = stage<gets_in_a_scope>(p, 1);
  s.engine.adopts = true;
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// Only who waits is cancelled: it must not have the child on its stack.
void gets_in_a_scope_within(Scene& s) {
  nursery([&s](Nursery& n) {
    auto future = n.async([&s] { s.go.wait(); });
    try {
      const Entered entered{Fiber::current(), s.scope};
      future.get();
      check(false, "the child waits for us");
    } catch (const Cancelled&) {
    }
    s.go.set();
  });
}

void get_within(Program& p) {
  auto& s = stage<gets_in_a_scope_within>(p, 1);
  s.engine.adopts = true;
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// The child's scope was in the tree; the future, which keeps it, dies after the nursery.
void future_outlives(Scene& s) {
  std::optional<Future<void>> future;
  nursery([&s, &future](Nursery& n) {
    future.emplace(n.async([&s] { s.go.wait(); }));
    s.go.set();
  });
  future->cancel();
  future->get();
}

// Nobody asks for the result: the future dies before its child has ended, or after.
void future_is_dropped(Scene& s) {
  nursery([&s](Nursery& n) {
    auto future = n.async([&s] { s.count(); });
  });
  check(s.runs() == 1, "the child is the nursery's");
}

// The result dies once, whoever comes last, and in the midst of a fiber: if in the child, then
// before its closure does.
void result_is_dropped(Scene& s) {
  struct Closure {
    explicit Closure(Scene& scene) noexcept : scene_(&scene) {}
    Closure(Closure&& other) noexcept : scene_(std::exchange(other.scene_, nullptr)) {}
    ~Closure() {
      if (scene_) scene_->ended.fetch_add(1, std::memory_order_relaxed);
    }

    Scene* scene_;
  };
  struct Result {
    Result(Scene& scene, Fiber& child) noexcept : scene_(&scene), child_(child) {}
    Result(Result&& other) noexcept
        : scene_(std::exchange(other.scene_, nullptr)), child_(other.child_) {}
    ~Result() {
      if (!scene_) return;
      if (&Fiber::current() == &child_)
        check(scene_->ended.load(std::memory_order_relaxed) == 0, "the child has ended");
      scene_->count();
    }

    Scene* scene_;
    Fiber& child_;
  };
  nursery([&s](Nursery& n) {
    auto future = n.async([closure = Closure{s}] {
      return Result{*closure.scene_, Fiber::current()};
    });
  });
  check(s.runs() == 1, "it has died before the join");
}

// ── max_live ────────────────────────────────────────────────────────────────────────────────────

// Alone in its nursery, if max_live is 1.
void works_alone(Scene& s) {
  check(s.at_a_time.fetch_add(1, std::memory_order_relaxed) == 0, "two at a time");
  s.count();
  s.at_a_time.fetch_sub(1, std::memory_order_relaxed);
}

void spawns_with_max_live(Scene& s) {
  nursery(NurseryOptions{.max_live = 1}, [&s](Nursery& n) {
    for (int i = 0; i < 3; ++i) n.spawn([&s] { works_alone(s); });
  });
  check(s.runs() == 3, "all have run");
}

// The place is handed over to a spawner that is being cancelled: it has it, or the next one has.
void spawner_is_cancelled(Scene& s) {
  Fiber& self = Fiber::current();
  int spawned = 2;
  nursery(NurseryOptions{.max_live = 1}, [&s, &self, &spawned](Nursery& n) {
    n.spawn([&s] { works_alone(s); });
    try {
      const Entered entered{self, s.scope};
      n.spawn([&s] { works_alone(s); });
      ++spawned;
    } catch (const Cancelled&) {
    }
    n.spawn([&s] { works_alone(s); });  // waits for ever, if a place was lost
  });
  check(s.runs() == spawned, "each that was spawned has run");
}

void place_against_cancel(Program& p) {
  auto& s = stage<spawner_is_cancelled>(p, 1);
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// ── grace ───────────────────────────────────────────────────────────────────────────────────────

// The timer fires while the nursery ends.
void ends_within_grace(Scene& s) {
  nursery([&s](Nursery& n) {
    n.cancel(1s);
    check(n.asked_to_stop(), "softly");
    static_cast<void>(n.try_spawn([&s] { s.count(); }));
  });
}

void grace_against_the_end(Program& p) {
  auto& s = stage<ends_within_grace>(p, 1);
  p.thread("clock", [&s] { s.engine.tick(); });
}

// The same, seen from the arena: whatever the timer does, the end is a legal one.
void ends_within_grace_watched(Scene& s) {
  struct Looks {
    explicit Looks(Nursery& n) : nursery(n) {}
    Nursery& nursery;
    ~Looks() {
      const NurseryState state = nursery.state();
      check(state == NurseryState::closed || state == NurseryState::cancelled, "it has ended");
      const bool cancelled = nursery.result()->kind == NurseryResult::Kind::cancelled;
      check(cancelled == (state == NurseryState::cancelled), "state and result disagree");
    }
  };
  nursery([&s](Nursery& n) {
    n.make<Looks>(n);
    n.cancel(1s);
    s.count();
  });
}

void grace_against_end_state(Program& p) {
  auto& s = stage<ends_within_grace_watched>(p, 1);
  p.thread("clock", [&s] { s.engine.tick(); });
}

// Somebody does not heed the soft cancel: the timer reaches it wherever it is.
void ignores_the_grace(Scene& s) {
  nursery([&s](Nursery& n) {
    n.spawn(Waiter{&s});
    n.cancel(1s);
  });
}

void grace_reaches_the_child(Program& p) {
  auto& s = stage<ignores_the_grace>(p, 1);
  p.thread("clock", [&s] { s.engine.tick(); });
}

// ── timers of scopes and waits ──────────────────────────────────────────────────────────────────

// The deadline fires while what it limits comes to its end. It hits no later wait.
void limited_by_deadline(Scene& s) {
  const bool ended = deadline(Instant{} + 1s, [&s] { s.go.wait(); });
  if (ended) check(s.go.is_set(), "the wait ended for no reason");
  s.go.wait();
}

void deadline_against_disarm(Program& p) {
  auto& s = stage<limited_by_deadline>(p, 1);
  p.thread("clock", [&s] { s.engine.tick(); });
  p.thread("setter", [&s] { s.go.set(); });
}

// Only the deadline can end it.
void limited_and_waits(Scene& s) {
  check(!deadline(Instant{} + 1s, [&s] { s.never.wait(); }), "timed out");
}

void deadline_ends_a_wait(Program& p) {
  auto& s = stage<limited_and_waits>(p, 1);
  p.thread("clock", [&s] { s.engine.tick(); });
}

// The deadline is taken away while it fires.
void takes_its_deadline_away(Scene& s) {
  const bool ended = cancel_scope([&s](CancelScope& scope) {
    scope.set_deadline(Instant{} + 1s);
    scope.set_deadline(Instant::max());
    const bool late = scope.cancelled();
    try {
      s.go.wait();
      check(!late, "level-triggered");
    } catch (const Cancelled&) {
      check(late, "it was taken away before it fired");
      throw;
    }
  });
  if (ended) check(s.go.is_set(), "the wait ended for no reason");
}

void deadline_is_moved(Program& p) {
  auto& s = stage<takes_its_deadline_away>(p, 1);
  p.thread("clock", [&s] { s.engine.tick(); });
  p.thread("setter", [&s] { s.go.set(); });
}

// Woken by the clock, or cancelled: the alarm is disarmed before it dies.
void sleeps_in_a_scope(Scene& s) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, s.scope};
    sleep_for(1s);
  } catch (const Cancelled&) {
    s.engine.let_time_pass();
  }
}

void alarm_against_cancel(Program& p) {
  auto& s = stage<sleeps_in_a_scope>(p, 1);
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.thread("clock", [&s] { s.engine.tick(); });
}

// The form that reports: true only if the alarm went off.
void no_throw_wait(Scene& s) {
  Fiber& self = Fiber::current();
  {
    const Entered entered{self, s.scope};
    Event::Wait event{s.go};
    if (wait(event, no_throw)) check(s.go.is_set(), "the wait ended for no reason");
    else check(s.scope.cancelled(), "nobody cancelled");
  }
  s.go.wait();  // outside the scope
  check(s.go.is_set(), "a wait outside the cancelled scope was cancelled");
}

void cancel_against_no_throw_wait(Program& p) {
  auto& s = stage<no_throw_wait>(p, 1);
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.thread("setter", [&s] { s.go.set(); });
}

// ── stop tokens ─────────────────────────────────────────────────────────────────────────────────

// A scope hands out a token and ends, while one around it is cancelled. The token outlives both.
void hands_out_a_token(Scene& s) {
  CancelScope inner{&s.scope};
  s.token.emplace(inner.stop_token());
  s.must_stop = inner.cancelled();
}

void token_against_cancel(Program& p) {
  auto& s = stage<hands_out_a_token>(p, 1);
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] {
    check(!s.must_stop || s.token->stop_requested(), "the token does not know of the cancel");
  });
}

// Somebody outside goes by the token alone.
void waits_for_its_token(Scene& s) {
  CancelScope inner{&s.scope};
  const auto stop = [&s] { s.go.set(); };
  const std::stop_callback<decltype(stop)> callback{inner.stop_token(), stop};
  Event::Wait told{s.go};
  wait_shielded(told);
}

void token_is_told(Program& p) {
  auto& s = stage<waits_for_its_token>(p, 1);
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────

// Two workers are too much for a complete search.
constexpr CoreModel bounded(const char* name, void (*setup)(Program&), unsigned bound = 2) {
  return {name, setup, true, Mode::bound, bound};
}

constexpr std::array kStructureModels{
    bounded("close against last child", on_two<close_against_last_child>, 3),
    bounded("last child closes", on_two<last_child_closes>, 3),
    bounded("last child cancels", on_two<last_child_cancels>, 3),
    bounded("close and cancel", on_two<close_and_cancel>),
    bounded("cancel against close", on_two<cancel_against_close>),
    bounded("owner goes on with a child", on_two<owner_goes_on>, 3),
    CoreModel{"ended by threads", ended_by_threads},
    bounded("cancel against owner's spawn", on_two<cancel_against_owners_spawn>),
    bounded("cancel against sibling's spawn", on_two<cancel_against_siblings_spawn>),
    bounded("cancel among children", on_two<cancel_among_children>),
    bounded("close against sibling's spawn", on_two<close_against_siblings_spawn>),
    CoreModel{"cancel from above", cancel_from_above},
    CoreModel{"cancel of a join in place", cancel_in_place},
    bounded("cancel among children in place", on_two<joins_in_place>),
    bounded("two children fail", on_two<two_children_fail>),
    bounded("two fail, the owner cancels", on_two<two_fail_and_owner_cancels>),
    bounded("race of two", on_two<race_of_two>),
    bounded("race against a waiter", on_two<race_against_a_waiter>),
    bounded("race of throwers", on_two<race_of_throwers>),
    bounded("get against completion", on_two<get_against_completion>),
    bounded("get against failure", on_two<get_against_failure>),
    CoreModel{"future as an arm", future_as_an_arm},
    bounded("future is cancelled", on_two<cancel_against_child>),
    bounded("future is cancelled late", on_two<cancel_against_result>),
    bounded("get in place", on_two<get_in_place>),
    CoreModel{"cancel of a get in place", cancel_of_a_get_in_place},
    CoreModel{"future in a scope within", get_within},
    bounded("future outlives its nursery", on_two<future_outlives>),
    bounded("future is dropped", on_two<future_is_dropped>),
    bounded("future is dropped with its result", on_two<result_is_dropped>),
    bounded("place is handed over", on_two<spawns_with_max_live>),
    CoreModel{"place against cancel", place_against_cancel},
    CoreModel{"grace against the end", grace_against_the_end},
    CoreModel{"grace against the end state", grace_against_end_state},
    CoreModel{"grace reaches the child", grace_reaches_the_child, false, Mode::bound, 2},
    bounded("deadline against disarm", deadline_against_disarm),
    CoreModel{"deadline ends a wait", deadline_ends_a_wait},
    CoreModel{"deadline is moved", deadline_is_moved},
    CoreModel{"alarm against cancel", alarm_against_cancel, false},
    CoreModel{"cancel against a no_throw wait", cancel_against_no_throw_wait, false},
    CoreModel{"stop token against cancel", token_against_cancel},
    CoreModel{"stop token is told", token_is_told},
};

}  // namespace

std::span<const CoreModel> structure_models() { return kStructureModels; }

}  // namespace weft::model
