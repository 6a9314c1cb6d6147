// The contract of Io, as tests that any engine can be run against.
//
//   const EngineCase my_io{.name = "MyIo", .raising = [] { return make<MyIo>(); }};
//   INSTANTIATE_TEST_SUITE_P(Mine, EngineConformance, ::testing::Values(my_io), name_of);
//
// What an engine does not promise, its Promises say; the tests of that are skipped, and say so. An
// engine is made anew for each test and must raise deadlocks. Only <weft/...> and GoogleTest are
// needed.
#pragma once

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/fiber_local.hpp>
#include <weft/future.hpp>
#include <weft/inspect.hpp>
#include <weft/mutex.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weft::conformance {

// Engines are made in many ways and destroyed in one.
using AnyEngine = std::shared_ptr<Engine>;
template <class E, class... Options>
AnyEngine make(Options&&... options) {
  return std::make_shared<E>(std::forward<Options>(options)...);
}

struct Promises {
  bool takes_turns = true;      // a fiber that waits or yields lets others run
  bool real_time = true;        // the clock is the system's, and not one that jumps
  bool foreign_wakes = true;    // other threads may wake fibers; `patient` then waits for them
  bool foreign_spawns = false;  // and spawn children of nurseries
  bool watches_loops = true;    // a deadline reaches fibers that only look, by checkpoint()
  bool offloads = false;        // blocking calls go to other threads
};

struct EngineCase {
  std::string name;
  std::function<AnyEngine()> raising;       // raises Deadlock when nothing can run any more
  std::function<AnyEngine()> patient = {};  // waits for other threads then
  Promises promises = {};

  friend void PrintTo(const EngineCase& engine, std::ostream* out) { *out << engine.name; }
};

inline std::string name_of(const ::testing::TestParamInfo<EngineCase>& info) {
  return info.param.name;
}

class EngineConformance : public ::testing::TestWithParam<EngineCase> {
 protected:
  [[nodiscard]] static const Promises& promises() { return GetParam().promises; }
  [[nodiscard]] static AnyEngine engine() { return GetParam().raising(); }
  template <class F>
  static auto run(F&& f) {
    return engine()->run(std::forward<F>(f));
  }
  // The text of the Deadlock that `f` ends in.
  template <class F>
  static std::string deadlock_of(F&& f) {
    try {
      run(std::forward<F>(f));
    } catch (const Deadlock& deadlock) {
      return deadlock.what();
    }
    return "no deadlock";
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  static constexpr auto kBrief = std::chrono::milliseconds{2};
  static constexpr auto kLong = std::chrono::hours{1};  // longer than a test may take
};

// Says so in the output; a macro of GoogleTest's, and so only good in a test itself.
#define WEFT_NEEDS(promise) \
  if (!promises().promise) GTEST_SKIP() << GetParam().name << " does not promise " #promise

// ── run ─────────────────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, RunReturnsTheValue) {
  EXPECT_EQ(run([] { return 42; }), 42);
  EXPECT_EQ(*run([] { return std::make_unique<int>(7); }), 7);
  run([] {});
}

TEST_P(EngineConformance, RunThrowsWhatItsFunctionThrows) {
  EXPECT_THROW(run([] { throw std::runtime_error{"root"}; }), std::runtime_error);
  EXPECT_THROW(run([]() -> int { throw 5; }), int);
}

TEST_P(EngineConformance, RunsAgainAndAgain) {
  const AnyEngine same = engine();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(same->run([i] { return i; }), i);
  EXPECT_THROW(same->run([] { throw 1; }), int);
  EXPECT_EQ(same->run([] { return 4; }), 4);
}

TEST_P(EngineConformance, RunsOneProgramAtATime) {
  const AnyEngine same = engine();
  same->run([&] { EXPECT_THROW(same->run([] {}), std::logic_error); });
  EXPECT_EQ(same->run([] { return 1; }), 1);
}

TEST_P(EngineConformance, EnginesNest) {
  const int answer = run([] {
    const int inner = run([] { return run([] { return 1; }) + 1; });
    nursery([](Nursery& n) { n.spawn([] { this_fiber::yield(); }); });
    return inner + 1;
  });
  EXPECT_EQ(answer, 3);
}

TEST_P(EngineConformance, TheRootIsMainAndHasAnEngine) {
  const AnyEngine same = engine();
  same->run([&] {
    EXPECT_EQ(this_fiber::name(), "main");
    EXPECT_NE(this_fiber::id(), 0U);
    EXPECT_EQ(&io(), same.get());
    EXPECT_FALSE(io().kind().empty());
  });
  EXPECT_EQ(this_fiber::id(), 0U);
  EXPECT_THROW(io(), std::logic_error);
}

TEST_P(EngineConformance, RunEndsWhenTheLastFiberHas) {
  std::atomic<int> ended{0};
  run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 10; ++i)
        n.spawn([&] {
          nursery([&](Nursery& inner) { inner.spawn([&] { this_fiber::yield(), ++ended; }); });
          ++ended;
        });
    });
  });
  EXPECT_EQ(ended, 20);
}

// ── start ───────────────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, EveryChildRunsOnce) {
  std::atomic<int> ran{0};
  run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 1000; ++i) n.spawn([&] { ++ran; });
    });
    EXPECT_EQ(ran, 1000);
  });
}

TEST_P(EngineConformance, IdsAreUniqueForTheLifeOfTheEngine) {
  const AnyEngine same = engine();
  std::mutex lock;
  std::set<FiberId> ids;
  const auto note = [&] {
    const std::lock_guard held{lock};
    EXPECT_NE(this_fiber::id(), 0U);
    EXPECT_TRUE(ids.insert(this_fiber::id()).second);
  };
  for (int i = 0; i < 3; ++i)
    same->run([&] {
      note();
      nursery([&](Nursery& n) {
        for (int k = 0; k < 50; ++k) n.spawn(note);
      });
    });
  EXPECT_EQ(ids.size(), 153U);
}

TEST_P(EngineConformance, ChildrenHaveNamesAndPaths) {
  run([] {
    nursery([](Nursery& n) {
      n.spawn("outer", [] {
        nursery([](Nursery& inner) {
          inner.spawn("inner", [] { EXPECT_EQ(this_fiber::path(), "main/outer/inner"); });
        });
      });
    });
  });
}

TEST_P(EngineConformance, AChildOfACancelledScopeNeverRuns) {
  run([] {
    std::atomic<bool> ran{false};
    cancel_scope([&](CancelScope& scope) {
      nursery([&](Nursery& n) {
        scope.cancel();
        n.spawn([&] { ran = true; });
      });
    });
    EXPECT_FALSE(ran);
  });
}

TEST_P(EngineConformance, ClosuresAreDestroyedRunOrNot) {
  const auto counted = std::make_shared<int>(0);
  run([&] {
    nursery([&](Nursery& n) { n.spawn([counted] {}); });
    cancel_scope([&](CancelScope& scope) {
      nursery([&](Nursery& n) {
        scope.cancel();
        n.spawn([counted] {});
      });
    });
    EXPECT_EQ(counted.use_count(), 1);
  });
}

// The closure lies in the frame, which is the spawner's until start() has returned.
TEST_P(EngineConformance, AClosureThatCannotBeMovedInSpawnsNothing) {
  struct Unmovable {
    Unmovable() = default;
    Unmovable(const Unmovable&) = default;
    Unmovable(Unmovable&&) { throw std::runtime_error{"here I stay"}; }
    void operator()() const { ADD_FAILURE(); }
  };
  run([] {
    nursery([](Nursery& n) {
      EXPECT_THROW(n.spawn(Unmovable{}), std::runtime_error);
      n.spawn([] {});
    });
  });
}

TEST_P(EngineConformance, AForeignThreadSpawnsOrIsRefused) {
  std::atomic<int> ran{0};
  std::atomic<int> refused{0};
  if (!promises().foreign_wakes) GTEST_SKIP() << "no other thread may touch its fibers";
  run([&] {
    nursery([&](Nursery& n) {
      std::thread other{[&] {
        try {
          n.spawn([&] { ++ran; });
        } catch (const std::logic_error&) {
          ++refused;
        }
      }};
      other.join();
      n.spawn([&] { ++ran; });  // a refused one was taken back: the join does not wait for it
    });
  });
  EXPECT_EQ(ran, promises().foreign_spawns ? 2 : 1);
  EXPECT_EQ(refused, promises().foreign_spawns ? 0 : 1);
}

TEST_P(EngineConformance, AFailedChildCancelsItsSiblingsAndIsThrown) {
  EXPECT_THROW(run([] {
    nursery([](Nursery& n) {
      n.spawn([] { throw std::runtime_error{"child"}; });
      n.spawn([] { sleep_for(kLong); });
    });
  }), std::runtime_error);
}

TEST_P(EngineConformance, ADeepTreeAndAWideOne) {
  struct Tree {
    static int leaves(int depth, int width) {
      if (depth == 0) return 1;
      std::atomic<int> sum{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < width; ++i)
          n.spawn([&, depth, width] { sum += leaves(depth - 1, width); });
      });
      return sum;
    }
  };
  EXPECT_EQ(run([] { return Tree::leaves(100, 1); }), 1);
  EXPECT_EQ(run([] { return Tree::leaves(3, 8); }), 512);
}

// ── waits and wakes ─────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, AParkedFiberIsWokenByASibling) {
  WEFT_NEEDS(takes_turns);
  std::atomic<int> stage{0};
  run([&] {
    Event go;
    nursery([&](Nursery& n) {
      n.spawn([&] { stage = 1, go.wait(), stage = 2; });
      n.spawn([&] { go.set(); });
    });
  });
  EXPECT_EQ(stage, 2);
}

TEST_P(EngineConformance, AReadyWaitReturnsAtOnce) {
  run([] {
    Event go;
    go.set();
    go.wait();
    Channel<int> one{1};
    EXPECT_TRUE(one.tx.send(3));
    EXPECT_EQ(one.rx.recv(), 3);
  });
}

// An operation that is woken while it publishes: the verdict is there before the fiber has left.
class WokenWhilePublishing final : public Waitable {
 public:
  bool try_complete() override { return false; }
  bool publish() noexcept override {
    published = true;
    EXPECT_EQ(claim(), Claim::latched);
    return true;
  }
  void unpublish() noexcept override { published = false; }
  [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "latched"}; }
  bool published = false;
};

TEST_P(EngineConformance, ALatchedVerdictIsNotSleptThrough) {
  run([] {
    for (int i = 0; i < 100; ++i) {
      WokenWhilePublishing operation;
      wait(operation);
      EXPECT_FALSE(operation.published);
    }
    nursery([](Nursery& n) {
      for (int i = 0; i < 10; ++i)
        n.spawn([] {
          WokenWhilePublishing operation;
          wait(operation);
        });
    });
  });
}

// One that turned ready while it was published: nobody parks.
class ReadyWhilePublishing final : public Waitable {
 public:
  bool try_complete() override { return ++tries > 1; }
  bool publish() noexcept override { return false; }
  void unpublish() noexcept override {}
  [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "ready"}; }
  int tries = 0;
};

TEST_P(EngineConformance, AParkThatIsNotNeededIsAborted) {
  run([] {
    ReadyWhilePublishing operation;
    wait(operation);
    EXPECT_EQ(operation.tries, 2);
  });
}

TEST_P(EngineConformance, ABatchOfWokenFibersAllRun) {
  WEFT_NEEDS(takes_turns);
  std::atomic<int> woken{0};
  run([&] {
    Event go;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 600; ++i) n.spawn([&] { go.wait(), ++woken; });
      n.spawn([&] { go.set(); });
    });
  });
  EXPECT_EQ(woken, 600);
}

TEST_P(EngineConformance, FibersTakeTurnsThroughARendezvous) {
  WEFT_NEEDS(takes_turns);
  run([] {
    Channel<int> there;
    Channel<int> back;
    nursery([&](Nursery& n) {
      n.spawn([rx = std::move(there.rx), tx = std::move(back.tx)] {
        for (const int i : rx) EXPECT_TRUE(tx.send(i + 1));
      });
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(there.tx.send(i));
        EXPECT_EQ(back.rx.recv(), i + 1);
      }
      there.tx.drop();
    });
  });
}

TEST_P(EngineConformance, YieldReturnsWhenAloneAndLetsOthersRunElse) {
  run([] {
    for (int i = 0; i < 100; ++i) this_fiber::yield();
    std::atomic<bool> ran{false};
    nursery([&](Nursery& n) {
      n.spawn([&] { ran = true; });
      while (!ran) this_fiber::yield();
    });
  });
}

TEST_P(EngineConformance, SeveralYieldersAllMakeProgress) {
  WEFT_NEEDS(takes_turns);
  run([] {
    std::atomic<int> turn{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&, i] {
          for (int round = 0; round < 20; ++round) {
            while (turn % 4 != i) this_fiber::yield();
            ++turn;
          }
        });
    });
    EXPECT_EQ(turn, 80);
  });
}

TEST_P(EngineConformance, MutexesPassFromFiberToFiber) {
  run([] {
    Mutex mutex;
    int count = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i)
        n.spawn([&] {
          const std::lock_guard held{mutex};
          const int seen = count;
          this_fiber::yield();
          count = seen + 1;
        });
    });
    EXPECT_EQ(count, 20);
  });
}

TEST_P(EngineConformance, ExceptionsInFlightStayWithTheirFiber) {
  run([] {
    std::atomic<int> caught{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 10; ++i)
        n.spawn([&, i] {
          try {
            throw i;
          } catch (int) {
            this_fiber::yield();
            sleep_for(std::chrono::microseconds{10 * (10 - i)});
            try {
              throw;
            } catch (const int again) {
              EXPECT_EQ(again, i);
              ++caught;
            }
          }
        });
    });
    EXPECT_EQ(caught, 10);
    EXPECT_EQ(std::current_exception(), nullptr);
  });
}

TEST_P(EngineConformance, AChildSpawnedInACatchBlockKnowsNothingOfIt) {
  run([] {
    try {
      throw 5;
    } catch (int) {
      nursery([](Nursery& n) {
        n.spawn([] { this_fiber::yield(); });
        this_fiber::yield();
      });
      EXPECT_THROW(throw, int);
    }
  });
}

TEST_P(EngineConformance, FiberLocalsAreInheritedWhenSpawned) {
  static fiber_local<int> request{0};
  run([] {
    request.with(4, [] {
      nursery([](Nursery& n) {
        n.spawn([] {
          EXPECT_EQ(*request, 4);
          this_fiber::yield();
          EXPECT_EQ(*request, 4);
        });
        request.with(5, [&] { n.spawn([] { EXPECT_EQ(*request, 5); }); });
      });
    });
    EXPECT_EQ(*request, 0);
  });
}

TEST_P(EngineConformance, FiberLocalsOfTheCallerReachTheRoot) {
  static fiber_local<int> request{0};
  run([] { request.with(9, [] { run([] { EXPECT_EQ(*request, 9); }); }); });
}

// ── other threads ───────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, AnotherThreadWakesAFiber) {
  WEFT_NEEDS(foreign_wakes);
  const AnyEngine same = GetParam().patient();
  for (int round = 0; round < 50; ++round) {
    Event asked;
    Event answered;
    std::thread other{[&] { asked.wait(), answered.set(); }};
    same->run([&] {
      nursery([&](Nursery& n) { n.spawn([&] { asked.set(), answered.wait(); }); });
    });
    other.join();
  }
}

TEST_P(EngineConformance, WhoWokeTheLastFiberDoesNotNeedTheEngine) {
  WEFT_NEEDS(foreign_wakes);
  for (int round = 0; round < 50; ++round) {
    const auto event = std::make_shared<Event>();
    std::thread other{[event] { event->set(); }};
    GetParam().patient()->run([&] { event->wait(); });
    other.join();
  }
}

TEST_P(EngineConformance, AnotherThreadCancels) {
  WEFT_NEEDS(foreign_wakes);
  const AnyEngine same = GetParam().patient();
  Event waiting;
  Event done;
  std::atomic<Nursery*> to_cancel{nullptr};
  std::thread other{[&] { waiting.wait(), to_cancel.load()->cancel(), done.set(); }};
  same->run([&] {
    nursery([&](Nursery& n) {
      to_cancel = &n;
      n.spawn([&] { waiting.set(), Event{}.wait(); });
      shielded([&] { done.wait(); });  // it uses the nursery
    });
  });
  other.join();
}

// The engine sleeps with nothing to wait for, and must notice by itself.
TEST_P(EngineConformance, AnotherThreadArmsATimer) {
  WEFT_NEEDS(foreign_wakes);
  const AnyEngine same = GetParam().patient();
  Event waiting;
  Event unwound;
  Event done;
  std::atomic<Nursery*> to_cancel{nullptr};
  std::thread other{[&] {
    waiting.wait(), to_cancel.load()->cancel(kBrief);
    unwound.wait(), done.set();
  }};
  same->run([&] {
    nursery([&](Nursery& n) {
      to_cancel = &n;
      n.spawn([&] {
        waiting.set();
        EXPECT_THROW(Event{}.wait(), Cancelled);
        unwound.set();
      });
      shielded([&] { done.wait(); });  // it uses the nursery
    });
  });
  other.join();
}

// ── timers ──────────────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, TheClockNeverGoesBack) {
  run([] {
    Instant last = Clock::now();
    for (int i = 0; i < 100; ++i) {
      this_fiber::yield();
      const Instant now = Clock::now();
      EXPECT_GE(now, last);
      last = now;
    }
  });
}

TEST_P(EngineConformance, TimersAreNeverEarly) {
  run([] {
    for (const auto d : {std::chrono::microseconds{1}, std::chrono::microseconds{300},
                         std::chrono::microseconds{1500}}) {
      const Instant before = Clock::now();
      sleep_for(d);
      EXPECT_GE(Clock::now() - before, d);
    }
  });
}

TEST_P(EngineConformance, TimeIsTheSystemsWhereThatIsPromised) {
  WEFT_NEEDS(real_time);
  const auto before = std::chrono::steady_clock::now();
  run([] { sleep_for(kBrief); });
  EXPECT_GE(std::chrono::steady_clock::now() - before, kBrief);
}

TEST_P(EngineConformance, ATimeInThePastIsNoWait) {
  run([] {
    sleep_for(Duration{-5});
    sleep_until(Clock::now() - kLong);
    EXPECT_FALSE(timeout(Duration{0}, [] { Event{}.wait(); }));
  });
}

// A timer whose firing can be seen.
class Seen final : public Timer {
 public:
  explicit Seen(Instant at, std::atomic<int>* clock = nullptr) : clock_(clock) { when = at; }
  std::atomic<int> fired{0};
  std::atomic<int> place{0};  // among those with the same clock, from 1

 private:
  void fire(Fired&) noexcept override {
    if (clock_) place = ++*clock_;
    ++fired;
  }
  std::atomic<int>* const clock_;
};

// However late the engine is.
TEST_P(EngineConformance, TimersFireInTheOrderOfTheirInstants) {
  run([] {
    std::atomic<int> clock{0};
    const Instant start = Clock::now();
    Seen third{start + 3 * kBrief, &clock};
    Seen first{start + 1 * kBrief, &clock};
    Seen second{start + 2 * kBrief, &clock};
    for (Seen* timer : {&third, &first, &second}) io().arm(*timer);
    while (clock < 3) sleep_for(kBrief);
    for (Seen* timer : {&third, &first, &second}) io().disarm(*timer);
    EXPECT_EQ(first.place, 1);
    EXPECT_EQ(second.place, 2);
    EXPECT_EQ(third.place, 3);
  });
}

TEST_P(EngineConformance, ATimerFiresOnce) {
  run([] {
    Seen timer{Clock::now() + kBrief};
    io().arm(timer);
    sleep_for(3 * kBrief);
    while (timer.fired == 0) sleep_for(kBrief);
    EXPECT_EQ(timer.fired, 1);
    io().disarm(timer);
    io().disarm(timer);
    EXPECT_EQ(timer.fired, 1);
  });
}

TEST_P(EngineConformance, ADisarmedTimerDoesNotFire) {
  run([] {
    Seen never{Clock::now() + kLong};
    io().disarm(never);  // was not armed at all
    Seen timer{Clock::now() + kBrief};
    io().arm(timer);
    io().disarm(timer);
    io().disarm(timer);
    sleep_for(3 * kBrief);
    EXPECT_EQ(timer.fired, 0);
    timer.when = Clock::now() + kBrief;  // and may be armed again
    io().arm(timer);
    while (timer.fired == 0) sleep_for(kBrief);
    EXPECT_EQ(timer.fired, 1);
  });
}

TEST_P(EngineConformance, ManyTimersInAnyOrderOfDisarming) {
  run([] {
    std::vector<std::unique_ptr<Seen>> timers;
    const Instant start = Clock::now();
    for (int i = 0; i < 200; ++i)
      timers.push_back(std::make_unique<Seen>(start + kLong + Duration{i * 7919 % 200}));
    for (const auto& timer : timers) io().arm(*timer);
    for (std::size_t i = 0; i < timers.size(); ++i) io().disarm(*timers[i * 77 % timers.size()]);
    for (const auto& timer : timers) EXPECT_EQ(timer->fired, 0);
  });
}

// Callbacks of a scope that a timer cancels run when the engine holds no lock of its own. That is
// after the fibers were woken: one that is to run for certain outlives the scope.
TEST_P(EngineConformance, StopCallbacksOfADeadlineMayUseTheEngine) {
  run([] {
    std::atomic<int> called{0};
    Event seen;
    const auto callback = [&] {
      ++called;
      seen.set();
    };
    std::optional<std::stop_callback<decltype(callback)>> guard;
    static_cast<void>(timeout(kBrief, [&] {
      guard.emplace(Fiber::current().scope->stop_token(), callback);
      Event{}.wait();
    }));
    seen.wait();
    guard.reset();  // when it returns, nobody is in the callback
    EXPECT_EQ(called, 1);
  });
}

TEST_P(EngineConformance, ASelectTakesTheSoonestTimer) {
  run([] {
    const std::size_t which = select(after(kLong, [] {}), after(kBrief, [] {}));
    EXPECT_EQ(which, 1U);
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, ADeadlineEndsAWait) {
  run([] {
    EXPECT_FALSE(timeout(kBrief, [] { Event{}.wait(); }));
    EXPECT_FALSE(timeout(kBrief, [] { sleep_for(kLong); }));
    EXPECT_TRUE(timeout(kLong, [] { return 1; }));
  });
}

TEST_P(EngineConformance, ADeadlineReachesGrandchildren) {
  run([] {
    std::atomic<int> unwound{0};
    struct Count {
      ~Count() { ++count; }
      std::atomic<int>& count;
    };
    EXPECT_FALSE(timeout(kBrief, [&] {
      nursery([&](Nursery& n) {
        n.spawn([&] {
          nursery([&](Nursery& inner) {
            inner.spawn([&] {
              const Count counted{unwound};
              sleep_for(kLong);
            });
          });
        });
      });
    }));
    EXPECT_EQ(unwound, 1);
  });
}

TEST_P(EngineConformance, ADeadlineEndsLoopsThatGiveWay) {
  WEFT_NEEDS(real_time);  // where time stands still while somebody runs, it never comes
  run([] {
    EXPECT_FALSE(timeout(kBrief, [] {
      for (;;) this_fiber::yield();
    }));
  });
}

TEST_P(EngineConformance, ADeadlineEndsLoopsThatOnlyLook) {
  WEFT_NEEDS(real_time);
  WEFT_NEEDS(watches_loops);
  run([] {
    EXPECT_FALSE(timeout(kBrief, [] {
      for (;;) this_fiber::checkpoint();
    }));
  });
}

TEST_P(EngineConformance, ACancelledScopeStopsEveryWaitUntilItIsLeft) {
  run([] {
    cancel_scope([](CancelScope& scope) {
      scope.cancel();
      EXPECT_THROW(Event{}.wait(), Cancelled);
      EXPECT_THROW(sleep_for(kLong), Cancelled);
      EXPECT_THROW(this_fiber::yield(), Cancelled);
    });
    this_fiber::yield();
    sleep_for(kBrief);
  });
}

TEST_P(EngineConformance, CancelEndsTheWaitsOfSiblings) {
  WEFT_NEEDS(takes_turns);
  run([] {
    std::atomic<int> began{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i) n.spawn([&] { ++began, Event{}.wait(); });
      while (began < 20) this_fiber::yield();
      n.cancel();
    });
    EXPECT_EQ(began, 20);
  });
}

TEST_P(EngineConformance, AShieldedWaitIsFinished) {
  run([] {
    bool finished = false;
    EXPECT_FALSE(timeout(kBrief, [&] {
      shielded([&] {
        sleep_for(2 * kBrief);
        finished = true;
      });
      this_fiber::yield();
    }));
    EXPECT_TRUE(finished);
  });
}

// ── deadlock ────────────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, ADeadlockNamesWhoWaitsForWhat) {
  const std::string report = deadlock_of([] {
    Event never{"godot"};
    nursery([&](Nursery& n) { n.spawn("vladimir", [&] { never.wait(); }); });
  });
  EXPECT_TRUE(contains(report, "vladimir")) << report;
  EXPECT_TRUE(contains(report, "event wait \"godot\"")) << report;
}

TEST_P(EngineConformance, ADeadlockCanBeCaughtAndTheFiberGoesOn) {
  run([] {
    EXPECT_THROW(Event{}.wait(), Deadlock);
    nursery([](Nursery& n) { n.spawn([] { EXPECT_THROW(Event{}.wait(), Deadlock); }); });
    this_fiber::yield();
    sleep_for(kBrief);
    EXPECT_THROW(Event{}.wait(), Deadlock);
  });
}

TEST_P(EngineConformance, WhileATimerIsArmedThereIsNoDeadlock) {
  run([] {
    Event never;
    EXPECT_EQ(select(never.on_set(), after(kBrief)), 1U);
  });
}

TEST_P(EngineConformance, RunsOnAfterADeadlock) {
  const AnyEngine same = engine();
  EXPECT_THROW(same->run([] { Event{}.wait(); }), Deadlock);
  EXPECT_EQ(same->run([] { return 1; }), 1);
}

// ── the rest ────────────────────────────────────────────────────────────────────────────────────

TEST_P(EngineConformance, RandomNumbersVary) {
  run([] {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 100; ++i) seen.insert(io().random());
    EXPECT_EQ(seen.size(), 100U);
  });
}

TEST_P(EngineConformance, BlockingCallsHaveAPlace) {
  run([] { EXPECT_EQ(io().offload() != nullptr, promises().offloads); });
}

TEST_P(EngineConformance, ADumpOnAFiberShowsTheTree) {
  const AnyEngine same = engine();
  std::string text;
  same->run([&] {
    nursery({.name = "jobs"}, [&](Nursery& n) {
      n.spawn("looker", [&] {
        std::ostringstream out;
        dump(*same, out);
        text = out.str();
      });
    });
  });
  for (const char* part : {"2 fibers", "\"main\"", "\"jobs\"", "\"looker\" running"})
    EXPECT_TRUE(contains(text, part)) << text;
}

TEST_P(EngineConformance, ADumpOfAnEngineAtRestIsEmpty) {
  const AnyEngine same = engine();
  for (int i = 0; i < 2; ++i) {
    std::ostringstream out;
    dump(*same, out);
    EXPECT_TRUE(contains(out.str(), ": 0 fibers")) << out.str();
    same->run([] {});
  }
}

TEST_P(EngineConformance, EveryEngineIsListedWhileItLives) {
  struct Search {
    const Engine* engine;
    int found = 0;
  };
  const auto count = [](const Engine* of) {
    Search search{of};
    for_each_engine(
        [](Engine& each, void* at) {
          auto& to = *static_cast<Search*>(at);
          if (&each == to.engine) ++to.found;
        },
        &search);
    return search.found;
  };
  AnyEngine one = engine();
  const Engine* const address = one.get();
  EXPECT_EQ(count(address), 1);
  one.reset();
  EXPECT_EQ(count(address), 0);
}

TEST_P(EngineConformance, FuturesAndWhatIsMadeOfThem) {
  run([] {
    const auto [a, b] = all([] { return 1; }, [] { this_fiber::yield(); return 2; });
    EXPECT_EQ(a + b, 3);
    nursery([](Nursery& n) {
      auto answer = n.async([] { sleep_for(kBrief); return 42; });
      EXPECT_EQ(answer.get(), 42);
    });
    EXPECT_THROW(all([] { return 1; }, []() -> int { throw std::runtime_error{"second"}; }),
                 std::runtime_error);
  });
}

#undef WEFT_NEEDS

}  // namespace weft::conformance
