#include <weft/blocking_io.hpp>

#include <weft/blocking.hpp>
#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/csp.hpp>
#include <weft/event.hpp>
#include <weft/fiber_local.hpp>
#include <weft/future.hpp>
#include <weft/inspect.hpp>
#include <weft/latch.hpp>
#include <weft/mutex.hpp>
#include <weft/nursery.hpp>
#include <weft/ordered_tasks.hpp>
#include <weft/select.hpp>
#include <weft/semaphore.hpp>
#include <weft/sim.hpp>
#include <weft/stream.hpp>
#include <weft/supervisor.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::text_of;

constexpr auto kLong = 1h;  // longer than any test may take

void run(const std::function<void()>& f) { BlockingIo{}.run(f); }
std::string deadlock_of(const std::function<void()>& f) {
  return text_of<Deadlock>([&] { run(f); });
}

// ── run ─────────────────────────────────────────────────────────────────────────────────────────

TEST(BlockingIo, RunReturnsValuesAndThrowsErrors) {
  BlockingIo io;
  EXPECT_EQ(io.run([] { return 5; }), 5);
  EXPECT_EQ(*io.run([] { return std::make_unique<int>(7); }), 7);
  EXPECT_THROW(io.run([] { throw std::runtime_error{"root"}; }), std::runtime_error);
  EXPECT_THROW(io.run([]() -> int { throw 'x'; }), char);
  EXPECT_THROW(io.run([] { nursery([](Nursery& n) { n.spawn([] { throw 1; }); }); }), int);
  EXPECT_EQ(io.run([] { return 6; }), 6);
  EXPECT_EQ(io.kind(), "BlockingIo");
}

TEST(BlockingIo, RunWhileRunningIsRefused) {
  BlockingIo io;
  io.run([&] {
    EXPECT_THAT(text_of<std::logic_error>([&] { io.run([] {}); }),
                AllOf(HasSubstr("BlockingIo::run()"), HasSubstr("running already")));
  });
  EXPECT_EQ(io.run([] { return 1; }), 1);
}

TEST(BlockingIo, EnginesNestInEveryOrder) {
  BlockingIo outer;
  const int sum = outer.run([] {
    int all = BlockingIo{}.run([] {
      int in_simulation = 0;
      SimIo{}.run([&] {
        nursery([&](Nursery& n) { n.spawn([&] { sleep_for(kLong), in_simulation = 1; }); });
      });
      return in_simulation;
    });
    all += FiberIo{{.workers = 2}}.run([] { return BlockingIo{}.run([] { return 2; }); });
    EXPECT_EQ(io().kind(), "BlockingIo");
    return all;
  });
  EXPECT_EQ(sum, 3);
}

TEST(BlockingIo, OneThreadOnly) {
  const auto here = std::this_thread::get_id();
  run([&] {
    EXPECT_EQ(std::this_thread::get_id(), here);
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i) n.spawn([&] { EXPECT_EQ(std::this_thread::get_id(), here); });
      EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), here);
    });
  });
}

// ── spawn ───────────────────────────────────────────────────────────────────────────────────────

TEST(BlockingIo, SpawnIsACall) {
  std::vector<int> order;
  run([&] {
    nursery([&](Nursery& n) {
      n.spawn([&] {
        order.push_back(1);
        this_fiber::yield();
        nursery([&](Nursery& inner) { inner.spawn([&] { order.push_back(2); }); });
        order.push_back(3);
      });
      order.push_back(4);
      EXPECT_EQ(n.live(), 0U);
      n.spawn([&] { order.push_back(5); });
      order.push_back(6);
    });
    order.push_back(7);
  });
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(BlockingIo, ChildrenStandOnTheStackOfTheirSpawner) {
  run([] {
    char of_parent = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const volatile char of_child = 0;
        const auto apart = reinterpret_cast<std::intptr_t>(&of_parent) -
                           reinterpret_cast<std::intptr_t>(&of_child);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
        EXPECT_GT(apart, 0);
        EXPECT_LT(apart, 64 * 1024);
#else
        static_cast<void>(apart);
#endif
      });
    });
  });
}

TEST(BlockingIo, FibersHaveIdsNamesAndPathsOfTheirOwn) {
  BlockingIo engine;
  std::set<FiberId> ids;
  for (int round = 0; round < 2; ++round) {
    engine.run([&] {
      EXPECT_EQ(this_fiber::name(), "main");
      ids.insert(this_fiber::id());
      nursery([&](Nursery& n) {
        n.spawn("outer", [&] {
          ids.insert(this_fiber::id());
          nursery([&](Nursery& inner) {
            inner.spawn("inner", [&] {
              ids.insert(this_fiber::id());
              EXPECT_EQ(this_fiber::path(), "main/outer/inner");
            });
          });
          EXPECT_EQ(this_fiber::path(), "main/outer");
        });
        EXPECT_EQ(this_fiber::path(), "main");
      });
    });
  }
  EXPECT_EQ(ids.size(), 6U);
  EXPECT_FALSE(ids.contains(0));
}

TEST(BlockingIo, AChildOfACancelledNurseryNeverRuns) {
  run([] {
    bool ran = false;
    cancel_scope([&](CancelScope& scope) {
      nursery([&](Nursery& n) {
        scope.cancel();
        n.spawn([&] { ran = true; });
      });
    });
    EXPECT_FALSE(ran);
    EXPECT_THROW(nursery([&](Nursery& n) {
      n.cancel();
      n.spawn([&] { ran = true; });
    }), NurseryClosed);
    EXPECT_FALSE(ran);
  });
}

TEST(BlockingIo, AFailureGoesToTheNurseryAndSpawnReturns) {
  bool after = false;
  bool later = false;
  EXPECT_THAT(text_of<std::runtime_error>([&] {
    run([&] {
      nursery([&](Nursery& n) {
        n.spawn([] { throw std::runtime_error{"first"}; });
        after = true;
        n.spawn([&] { later = true; });
      });
    });
  }), "first");
  EXPECT_TRUE(after);
  EXPECT_FALSE(later);
}

TEST(BlockingIo, ErrorsAreCollectedWhereThatIsAsked) {
  run([] {
    try {
      nursery({.on_error = ErrorPolicy::collect}, [](Nursery& n) {
        for (int i = 0; i < 3; ++i) n.spawn([i] { throw std::runtime_error{std::to_string(i)}; });
      });
      ADD_FAILURE();
    } catch (const ChildErrors& errors) {
      EXPECT_EQ(errors.errors().size(), 3U);
    }
  });
}

TEST(BlockingIo, ExceptionStateIsEachFibersOwn) {
  run([] {
    try {
      throw std::runtime_error{"outer"};
    } catch (...) {
      nursery([](Nursery& n) {
        n.spawn([] {
          EXPECT_EQ(std::current_exception(), nullptr);
          try {
            throw 5;
          } catch (int) {
            this_fiber::yield();
            sleep_for(1ms);
            EXPECT_NE(std::current_exception(), nullptr);
          }
        });
        EXPECT_EQ(testing::what(std::current_exception()), "outer");
      });
      EXPECT_THROW(throw, std::runtime_error);
    }
  });
}

// A child spawned by a destructor while an exception unwinds can be cancelled as any other.
TEST(BlockingIo, SpawnWhileUnwinding) {
  struct Spawner {
    ~Spawner() {
      nursery([&](Nursery& n) {
        n.spawn([&] {
          EXPECT_EQ(std::uncaught_exceptions(), 0);
          unwound = !timeout(1ms, [] { Event{}.wait(); });
        });
      });
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      EXPECT_TRUE(unwound);
    }
    bool unwound = false;
  };
  EXPECT_THROW(run([] {
    const Spawner spawner;
    throw 7;
  }), int);
}

TEST(BlockingIo, LimitsOfANurseryHold) {
  run([] {
    int ran = 0;
    EXPECT_THROW(nursery({.max_live = 1, .max_spawns = 3}, [&](Nursery& n) {
      for (int i = 0; i < 4; ++i) n.spawn([&] { ++ran; });
    }), BudgetExhausted);
    EXPECT_EQ(ran, 3);
  });
}

TEST(BlockingIo, FiberLocalsAreInherited) {
  static fiber_local<int> request{0};
  run([] {
    request.with(4, [] {
      nursery([](Nursery& n) {
        n.spawn([] {
          EXPECT_EQ(*request, 4);
          request.with(5, [] {
            nursery([](Nursery& inner) { inner.spawn([] { EXPECT_EQ(*request, 5); }); });
          });
        });
      });
      EXPECT_EQ(*request, 4);
    });
  });
}

void nest(int levels, int& deepest) {
  ++deepest;
  if (levels == 0) return;
  nursery([&](Nursery& n) { n.spawn([&deepest, levels] { nest(levels - 1, deepest); }); });
}

TEST(BlockingIo, ManyLevelsOfSpawn) {
  int deepest = 0;
  run([&] { nest(500, deepest); });
  EXPECT_EQ(deepest, 501);
}

// The caller's stack is all there is. Its end is an error with a name, not a crash.
TEST(BlockingIo, TheChildThatDoesNotFitFails) {
  run([] {
    int deepest = 0;
    EXPECT_THAT(text_of<OutOfStacks>([&] { nest(10'000'000, deepest); }), HasSubstr("BlockingIo"));
    EXPECT_GT(deepest, 100);
    deepest = 0;
    nest(10, deepest);
    EXPECT_EQ(deepest, 11);
  });
}

TEST(BlockingIo, TheStackOfAFiberIsMeasuredToo) {
  FiberIo{{.workers = 1, .stack_bytes = 512 * 1024}}.run([] {
    int deepest = 0;
    EXPECT_THROW(run([&] { nest(10'000'000, deepest); }), OutOfStacks);
    EXPECT_THROW(run([&] { run([&] { nest(10'000'000, deepest); }); }), OutOfStacks);
  });
}

TEST(BlockingIo, ATreeOfForksAndJoins) {
  struct Tree {
    static int leaves(int depth) {
      if (depth == 0) return 1;
      int left = 0;
      int right = 0;
      nursery([&](Nursery& n) {
        n.spawn([&, depth] { left = leaves(depth - 1); });
        n.spawn([&, depth] { right = leaves(depth - 1); });
      });
      return left + right;
    }
  };
  EXPECT_EQ(BlockingIo{}.run([] { return Tree::leaves(10); }), 1024);
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

TEST(BlockingIo, SleepsAreRealAndNeverShort) {
  run([] {
    const auto before = std::chrono::steady_clock::now();
    const Instant asked = Clock::now();
    nursery([](Nursery& n) {
      n.spawn([] { sleep_for(3ms); });
      n.spawn([] { sleep_for(2ms); });
    });
    EXPECT_GE(Clock::now() - asked, 5ms);
    EXPECT_GE(std::chrono::steady_clock::now() - before, 5ms);
  });
}

TEST(BlockingIo, ATimeoutEndsEveryWaitBelowIt) {
  run([] {
    bool undone = false;
    const auto outcome = timeout(2ms, [&] {
      nursery([&](Nursery& n) {
        n.spawn([&] {
          nursery([&](Nursery& inner) {
            inner.spawn([&] {
              struct Undo {
                ~Undo() { flag = true; }
                bool& flag;
              } const undo{undone};
              sleep_for(kLong);
            });
          });
        });
        EXPECT_TRUE(undone);
        EXPECT_TRUE(this_fiber::cancelled());
      });
    });
    EXPECT_FALSE(outcome);
    EXPECT_TRUE(undone);
  });
}

TEST(BlockingIo, ATimeoutEndsLoopsThatNeverWait) {
  run([] {
    EXPECT_FALSE(timeout(1ms, [] {
      for (;;) this_fiber::checkpoint();
    }));
    EXPECT_FALSE(timeout(1ms, [] {
      for (;;) this_fiber::yield();
    }));
    EXPECT_FALSE(timeout(1ms, [] {
      nursery([](Nursery& n) {
        n.spawn([] {
          for (;;) this_fiber::checkpoint();
        });
      });
    }));
    Channel<int> numbers{1};
    EXPECT_FALSE(timeout(1ms, [&] {
      for (;;) static_cast<void>(numbers.tx.send(1)), static_cast<void>(numbers.rx.recv());
    }));
  });
}

// It passes while a child runs: who comes back to it learns of it.
TEST(BlockingIo, ADeadlineThatPassedInAChildIsSeenByItsSpawner) {
  run([] {
    int spawned = 0;
    EXPECT_FALSE(timeout(1ms, [&] {
      nursery([&](Nursery& n) {
        n.spawn([&] { shielded([] { sleep_for(3ms); }); });
        n.spawn([&] { ++spawned; });
        this_fiber::checkpoint();
        ADD_FAILURE() << "cancelled, this must not be reached";
      });
    }));
    EXPECT_EQ(spawned, 0);
  });
}

TEST(BlockingIo, TimersFireInOrder) {
  run([] {
    std::vector<int> order;
    const Instant start = Clock::now();
    for (int i = 0; i < 3; ++i) {
      const auto which =
          select(after(3ms, [&] { order.push_back(3); }),
                 after(1ms, [&] { order.push_back(1); }),
                 after(2ms, [&] { order.push_back(2); }));
      EXPECT_EQ(which, 1U);
    }
    EXPECT_THAT(order, ElementsAre(1, 1, 1));
    EXPECT_GE(Clock::now() - start, 3ms);
  });
}

// ── waits ───────────────────────────────────────────────────────────────────────────────────────

TEST(BlockingIo, AWaitThatNobodyCanEndIsADeadlockThatSaysWhy) {
  Event ready{"ready"};
  const std::string report = deadlock_of([&] {
    nursery([&](Nursery& n) {
      n.spawn("server", [&] {
        nursery([&](Nursery& inner) { inner.spawn("reader", [&] { ready.wait(); }); });
      });
      n.spawn("later", [&] { ready.set(); });
    });
  });
  EXPECT_THAT(report, AllOf(HasSubstr("deadlock"), HasSubstr("\"reader\" on event wait \"ready\""),
                            HasSubstr("blocking_io_test.cpp:")));
  EXPECT_THAT(report, AllOf(HasSubstr("children run in place, one after the other"),
                            HasSubstr("its caller or a later sibling, which cannot run now")));
  EXPECT_THAT(report, AllOf(HasSubstr("called by fiber #2 \"server\""),
                            HasSubstr("called by fiber #1 \"main\"")));
}

TEST(BlockingIo, TheSameProgramInAnotherOrderRuns) {
  Event ready{"ready"};
  run([&] {
    nursery([&](Nursery& n) {
      n.spawn([&] { ready.set(); });
      n.spawn([&] { ready.wait(); });
    });
  });
}

TEST(BlockingIo, ADeadlockIsAnErrorLikeAnyOther) {
  run([] {
    EXPECT_THROW(Event{}.wait(), Deadlock);
    EXPECT_THROW(nursery([](Nursery& n) { n.spawn([] { Event{}.wait(); }); }), Deadlock);
    Mutex mutex;
    const std::lock_guard held{mutex};
    EXPECT_THROW(nursery([&](Nursery& n) { n.spawn([&] { mutex.lock(); }); }), Deadlock);
    // While a timer is armed, something will happen: no deadlock, and no hang either.
    EXPECT_FALSE(timeout(1ms, [] { Event{}.wait(); }));
  });
}

TEST(BlockingIo, ChannelsAsFarAsTheirBuffersGo) {
  run([] {
    Channel<int> numbers{3};
    int sum = 0;
    nursery([&](Nursery& n) {
      n.spawn([tx = std::move(numbers.tx)] {
        for (int i = 1; i <= 3; ++i) EXPECT_TRUE(tx.send(i));
      });
      n.spawn([&, rx = std::move(numbers.rx)] {
        for (const int i : rx) sum += i;
      });
    });
    EXPECT_EQ(sum, 6);
  });
  EXPECT_THAT(deadlock_of([] {
    Channel<int> numbers{{.name = "numbers"}};
    nursery([&](Nursery& n) {
      n.spawn([&] { static_cast<void>(numbers.tx.send(1)); });
      n.spawn([&] { static_cast<void>(numbers.rx.recv()); });
    });
  }), HasSubstr("channel send \"numbers\""));
}

TEST(BlockingIo, SelectTakesWhatIsReady) {
  run([] {
    Channel<int> a{1};
    Channel<int> b{1};
    EXPECT_TRUE(b.tx.send(7));
    int got = 0;
    EXPECT_EQ(select(a.rx.on_recv([](std::optional<int>) { ADD_FAILURE(); }),
                     b.rx.on_recv([&](std::optional<int> v) { got = v.value_or(0); })),
              1U);
    EXPECT_EQ(got, 7);
    EXPECT_EQ(select(a.rx.on_recv([](std::optional<int>) { ADD_FAILURE(); }),
                     after(1ms, [] {})),
              1U);
    EXPECT_THROW(select(a.rx.on_recv([](std::optional<int>) {}),
                        b.rx.on_recv([](std::optional<int>) {})),
                 Deadlock);
  });
}

TEST(BlockingIo, LocksLatchesAndSemaphores) {
  run([] {
    Mutex mutex;
    Latch latch{3};
    Semaphore places{1};
    int count = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          const auto place = places.permit();
          const std::lock_guard held{mutex};
          ++count;
          latch.count_down();
        });
      latch.wait();
      EXPECT_EQ(count, 3);
    });
  });
}

// ── what stands above ───────────────────────────────────────────────────────────────────────────

TEST(BlockingIo, FuturesAreReadyWhenTheyAreThere) {
  run([] {
    nursery([](Nursery& n) {
      auto answer = n.async([] { return 42; });
      EXPECT_TRUE(answer.ready());
      EXPECT_EQ(answer.get(), 42);
    });
    const auto [a, b] = all([] { return 1; }, [] { return 2; });
    EXPECT_EQ(a + b, 3);
    EXPECT_EQ(race([] { return 1; }, []() -> int { throw 5; }).index(), 0U);
    EXPECT_EQ(any([]() -> int { throw 5; }, [] { return 2; }).index(), 1U);
  });
}

TEST(BlockingIo, OrderedTasksWithinTheirWidth) {
  run([] {
    nursery([](Nursery& n) {
      OrderedTasks<int> tasks{n, 4};
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(tasks.submit([i] { return i * i; }));
      tasks.close();
      std::vector<int> results;
      for (const int result : tasks) results.push_back(result);
      EXPECT_THAT(results, ElementsAre(0, 1, 4, 9));
    });
  });
  EXPECT_THAT(deadlock_of([] {
    nursery([](Nursery& n) {
      OrderedTasks<int> tasks{n, 1};
      EXPECT_TRUE(tasks.submit([] { return 1; }));
      static_cast<void>(tasks.submit([] { return 2; }));
    });
  }), HasSubstr("deadlock"));
}

// A stage runs until it has nothing left to do: between it and the next, there is room for all.
TEST(BlockingIo, StreamsWithRoomForAllThatPasses) {
  run([] {
    const int sum = nursery([](Nursery& n) {
      return stream(n, iota(1, 11)) | where([](int v) { return v % 2 == 0; }) |
             map([](int v) { return v * v; }) | buffer(16) |
             reduce(0, [](int a, int b) { return a + b; });
    });
    EXPECT_EQ(sum, 4 + 16 + 36 + 64 + 100);
  });
  EXPECT_THAT(deadlock_of([] {
    nursery([](Nursery& n) { stream(n, iota(1, 11)) | drain(); });
  }), HasSubstr("channel send"));
}

TEST(BlockingIo, ForkJoinAndParallelLoops) {
  run([] {
    std::atomic<int> sum{0};
    parallel_for(100, [&](std::size_t i) { sum += static_cast<int>(i); });
    EXPECT_EQ(sum, 4950);
  });
}

// A supervisor is a fiber that waits for what its children will do.
TEST(BlockingIo, SupervisorsNeedAnEngineThatTakesTurns) {
  EXPECT_THAT(deadlock_of([] {
    supervise({}, [](Supervisor& s) { s.child("child", [] {}); });
  }), HasSubstr("\"supervisor\" on children"));
}

TEST(BlockingIo, CspSpawnRunsBesideTheCaller) {
  run([] {
    int ran = 0;
    auto done = csp::spawn([&] { ++ran; });
    EXPECT_EQ(ran, 1);
    csp::join(done);
  });
}

TEST(BlockingIo, SettleIsForSimulationsOnly) {
  run([] { EXPECT_THROW(settle(), std::logic_error); });
}

TEST(BlockingIo, RandomNumbersDiffer) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 4; ++i) run([&] { seen.insert(io().random()), seen.insert(io().random()); });
  EXPECT_EQ(seen.size(), 8U);
}

// ── other threads ───────────────────────────────────────────────────────────────────────────────

TEST(BlockingIo, AnotherThreadMayWakeAFiber) {
  BlockingIo io{{.on_deadlock = OnDeadlock::automatic}};
  for (int round = 0; round < 200; ++round) {
    Event asked;
    Channel<int> answers;
    std::thread other{[&, tx = answers.tx] {
      asked.wait();
      EXPECT_TRUE(tx.send(round));
    }};
    io.run([&] {
      nursery([&](Nursery& n) {
        n.spawn([&] {
          asked.set();
          EXPECT_EQ(answers.rx.recv(), round);
        });
      });
    });
    other.join();
  }
}

// The engine is gone as soon as its fiber is woken: the waker must not need it.
TEST(BlockingIo, TheWakerMayOutliveTheEngine) {
  for (int round = 0; round < 200; ++round) {
    auto event = std::make_shared<Event>();
    std::thread other{[event] { event->set(); }};
    BlockingIo{{.on_deadlock = OnDeadlock::automatic}}.run([&] { event->wait(); });
    other.join();
  }
}

TEST(BlockingIo, AnotherThreadMayCancel) {
  BlockingIo engine{{.on_deadlock = OnDeadlock::automatic}};
  for (int round = 0; round < 100; ++round) {
    Event waiting;
    std::atomic<Nursery*> to_cancel{nullptr};
    std::thread other{[&] {
      waiting.wait();
      if (round % 2 == 0) to_cancel.load()->cancel();
      else to_cancel.load()->cancel(1us);  // arms a timer of the engine's
    }};
    engine.run([&] {
      nursery([&](Nursery& n) {
        to_cancel = &n;
        n.spawn([&] {
          waiting.set();
          if (round % 4 < 2) Event{}.wait();
          for (;;) this_fiber::checkpoint();
        });
        other.join();  // it uses the nursery
      });
    });
  }
}

TEST(BlockingIo, AnotherThreadMayNotSpawn) {
  run([] {
    nursery([](Nursery& n) {
      std::thread other{[&] {
        EXPECT_THAT(text_of<std::logic_error>([&] { n.spawn([] { ADD_FAILURE(); }); }),
                    HasSubstr("BlockingIo"));
      }};
      other.join();
    });
  });
}

// What other threads do when a fiber is to be seen asleep.
std::string dump_when_parked(BlockingIo& engine) {
  for (;;) {
    std::ostringstream out;
    dump(engine, out);
    if (out.str().find("parked on") != std::string::npos) return out.str();
  }
}

TEST(BlockingIo, ReportedDeadlocksAreWaitedOut) {
  BlockingIo engine{{.on_deadlock = OnDeadlock::report}};
  Event go{"go"};
  Event again;
  ::testing::internal::CaptureStderr();
  std::thread other{[&] {
    static_cast<void>(dump_when_parked(engine)), go.set();
    static_cast<void>(dump_when_parked(engine)), again.set();
  }};
  engine.run([&] {
    go.wait();
    again.wait();
  });
  other.join();
  const std::string report = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(report, AllOf(HasSubstr("weft: deadlock: "), HasSubstr("event wait \"go\"")));
  EXPECT_EQ(report.find("deadlock"), report.rfind("deadlock")) << "once is enough";
}

// ── looking at it ───────────────────────────────────────────────────────────────────────────────

TEST(BlockingIo, ADumpOnTheSameThreadShowsEverybody) {
  BlockingIo engine;
  std::string text;
  engine.run([&] {
    nursery({.name = "jobs"}, [&](Nursery& n) {
      n.spawn("outer", [&] {
        nursery([&](Nursery& inner) {
          inner.spawn("inner", [&] {
            std::ostringstream out;
            dump(engine, out);
            text = out.str();
          });
        });
      });
    });
  });
  EXPECT_THAT(text, AllOf(HasSubstr("BlockingIo: 3 fibers"), HasSubstr("runs #3"),
                          HasSubstr("#1 \"main\""), HasSubstr("nursery \"jobs\" open"),
                          HasSubstr("#2 \"outer\""), HasSubstr("#3 \"inner\" running")));
  std::ostringstream out;
  dump(engine, out);
  EXPECT_THAT(out.str(), HasSubstr("BlockingIo: 0 fibers"));
}

TEST(BlockingIo, ADumpFromAnotherThread) {
  BlockingIo engine{{.on_deadlock = OnDeadlock::automatic}};
  Event go{"go"};
  std::atomic<bool> computing{false};
  std::atomic<bool> seen{false};
  std::string sleeping;
  std::string running;
  std::thread other{[&] {
    sleeping = dump_when_parked(engine);
    go.set();
    while (!computing) std::this_thread::yield();
    std::ostringstream out;
    dump(engine, out, 1ms);
    running = out.str();
    seen = true;
  }};
  engine.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("child", [&] {
        go.wait();
        computing = true;
        while (!seen) std::this_thread::yield();
      });
    });
  });
  other.join();
  EXPECT_THAT(sleeping, AllOf(HasSubstr("#2 \"child\" parked on event wait \"go\""),
                              HasSubstr("#1 \"main\"")));
  EXPECT_THAT(running, AllOf(HasSubstr("#2 \"child\" running on worker 0"),
                             HasSubstr("#1 \"main\""), Not(HasSubstr("not shown"))));
}

TEST(BlockingIo, ADumpAtAnyMoment) {
  BlockingIo engine;
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    while (!stop) {
      std::ostringstream out;
      dump(engine, out, 100us);
    }
  }};
  for (int round = 0; round < 50; ++round)
    engine.run([] {
      for (int i = 0; i < 20; ++i)
        nursery([](Nursery& n) {
          n.spawn("a", [] { this_fiber::yield(); });
          n.spawn("b", [] { sleep_for(10us); });
        });
    });
  stop = true;
  other.join();
}

}  // namespace
}  // namespace weft
