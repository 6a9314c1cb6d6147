// Workers that are blocked or held, and who stands in for them.
#include <weft/arch/fault.hpp>
#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/inspect.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/semaphore.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <support/engines.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::on_seeds;
using testing::spin_until;
using ::testing::HasSubstr;

enum class Manner { blocked, computing, announced };
struct Case {
  unsigned workers;
  Manner manner;
};

// Takes every usual worker away from the other fibers until open(). Outlives the nursery.
class Occupation {
 public:
  explicit Occupation(const Case& by) : workers_(by.workers), manner_(by.manner) {}
  void begin(Nursery& n) {
    for (unsigned i = 0; i < workers_; ++i) n.spawn([this] { sit(); });
    while (sitting_ != workers_) this_fiber::yield();
  }
  void open() {
    open_ = true;
    door_.count_down();
  }

 private:
  void sit() {
    ++sitting_;
    if (manner_ == Manner::computing) return spin_until(open_);
    if (manner_ == Manner::blocked) return door_.wait();
    const blocking_hint hint;
    door_.wait();
  }

  const unsigned workers_;
  const Manner manner_;
  std::atomic<unsigned> sitting_{0};
  std::atomic<bool> open_{false};
  std::latch door_{1};
};

std::string name_of(const Case& of) {
  constexpr const char* kManners[] = {"Blocked", "Computing", "Announced"};
  return std::to_string(of.workers) + kManners[static_cast<std::size_t>(of.manner)];
}

class Elastic : public ::testing::TestWithParam<Case> {
 protected:
  // With every worker occupied, `f` runs all the same, or this never ends.
  void while_occupied(FiberIo& io, const std::function<void()>& f) {
    Occupation occupation{GetParam()};
    io.run([&] {
      nursery([&](Nursery& n) {
        occupation.begin(n);
        f();
        occupation.open();
      });
    });
  }
  [[nodiscard]] Options options() const {
    return {.workers = GetParam().workers,
            .max_workers = GetParam().workers + 2,
            .temp_idle_timeout = 5ms};
  }
};

INSTANTIATE_TEST_SUITE_P(
    Of, Elastic,
    ::testing::Values(Case{1, Manner::blocked}, Case{1, Manner::computing},
                      Case{2, Manner::blocked}, Case{2, Manner::computing},
                      Case{2, Manner::announced},
                      Case{4, Manner::blocked}, Case{4, Manner::announced}),
    [](const auto& each) { return name_of(each.param); });

TEST_P(Elastic, TheOthersRunOn) {
  FiberIo io{options()};
  while_occupied(io, [] {});
  EXPECT_GE(io.statistics().promotions, 1U);
  EXPECT_GE(io.statistics().gate_passes, io.statistics().promotions);
}

TEST_P(Elastic, ChildrenAreSpawnedAndJoined) {
  FiberIo io{options()};
  std::atomic<int> ended{0};
  while_occupied(io, [&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 1000; ++i) n.spawn([&] { ++ended; });
    });
  });
  EXPECT_EQ(ended, 1000);
}

TEST_P(Elastic, TimersFire) {
  FiberIo io{options()};
  while_occupied(io, [] {
    for (int i = 0; i < 20; ++i) sleep_for(1ms);
    EXPECT_FALSE(timeout(1ms, [] { sleep_for(1h); }));
  });
}

// Armed while the worker was free, and due when it is not.
TEST_P(Elastic, TimersArmedBeforeFire) {
  FiberIo io{options()};
  Occupation occupation{GetParam()};
  const unsigned sleepers = 4 * GetParam().workers;
  std::atomic<unsigned> begun{0};
  std::atomic<unsigned> left{sleepers};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (unsigned i = 0; i < sleepers; ++i)
        n.spawn([&, i] {
          ++begun;
          sleep_for(20ms + i * 1ms);
          if (--left == 0) occupation.open();
        });
      while (begun != sleepers) this_fiber::yield();
      occupation.begin(n);
    });
  });
}

TEST_P(Elastic, WakesFromOutsideArrive) {
  FiberIo io{options()};
  Event asked{"asked"};
  Event answered{"answered"};
  std::thread outside{[&] {
    asked.wait();
    answered.set();
  }};
  while_occupied(io, [&] {
    asked.set();
    answered.wait();
  });
  outside.join();
}

TEST_P(Elastic, PostedFunctionsRun) {
  FiberIo io{options()};
  std::atomic<bool> posted{false};
  while_occupied(io, [&] {
    std::thread outside{[&] { EXPECT_TRUE(io.post([&] { posted = true; })); }};
    while (!posted) sleep_for(1ms);
    outside.join();
  });
}

TEST_P(Elastic, StandInsLeaveWhenTheyAreNotNeeded) {
  FiberIo io{options()};
  Occupation occupation{GetParam()};
  io.run([&] {
    nursery([&](Nursery& n) {
      occupation.begin(n);
      EXPECT_GT(io.statistics().workers, GetParam().workers);
      occupation.open();
    });
    while (io.statistics().workers > GetParam().workers) sleep_for(1ms);
  });
  EXPECT_EQ(io.statistics().workers, GetParam().workers);
  EXPECT_EQ(io.statistics().retirements, io.statistics().promotions);
}

// Not idle for a moment, but nobody is stuck any more: it goes, and its fibers run elsewhere.
TEST_P(Elastic, StandInsLeaveInTheMiddleOfWork) {
  FiberIo io{options()};
  Occupation occupation{GetParam()};
  std::atomic<bool> over{false};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 16; ++i)
        n.spawn([&] {
          while (!over) this_fiber::yield();
        });
      occupation.begin(n);
      occupation.open();
      while (io.statistics().workers > GetParam().workers) this_fiber::yield();
      over = true;
    });
  });
}

TEST_P(Elastic, ManyRunsOneAfterTheOther) {
  FiberIo io{options()};
  for (int i = 0; i < 5; ++i) {
    while_occupied(io, [] { sleep_for(1ms); });
    EXPECT_EQ(io.statistics().workers, GetParam().workers) << "all others have gone";
  }
}

// What is pinned to a temporary worker keeps it.
TEST_P(Elastic, APinnedFiberStaysWhereItIs) {
  FiberIo io{options()};
  while_occupied(io, [] {
    std::set<std::thread::id> seen;  // by one fiber
    nursery({.migration = Migration::pinned}, [&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < 10; ++i) {
          seen.insert(std::this_thread::get_id());
          sleep_for(2ms);
        }
      });
    });
    EXPECT_EQ(seen.size(), 1U);
  });
}

TEST_P(Elastic, ADumpIsTakenAroundThem) {
  FiberIo io{options()};
  std::ostringstream text;
  while_occupied(io, [&] { dump(io, text); });
  EXPECT_THAT(text.str(), HasSubstr("FiberIo"));
}

TEST_P(Elastic, ADeadlockAfterwardsIsSeen) {
  Options raising = options();
  raising.on_deadlock = OnDeadlock::raise;  // the test program has threads of its own
  FiberIo io{raising};
  while_occupied(io, [] {});
  EXPECT_THROW(io.run([] { Event{"never"}.wait(); }), Deadlock);
}

// ── limits ──────────────────────────────────────────────────────────────────────────────────────

TEST(ElasticPool, OneWorkerAskedForIsOne) {
  FiberIo io{{.workers = 1}};
  std::set<std::thread::id> seen;  // no lock: that is the point
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn([&] {
          seen.insert(std::this_thread::get_id());
          const Instant until = Clock::now() + 15ms;
          spin_until([&] { return Clock::now() >= until; });
          seen.insert(std::this_thread::get_id());
        });
    });
  });
  EXPECT_EQ(seen.size(), 1U);
  EXPECT_EQ(io.statistics().promotions, 0U);
}

TEST(ElasticPool, NotMoreThanTheLimit) {
  FiberIo io{{.workers = 2, .max_workers = 3, .scale_interval = Duration{}}};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 12; ++i)
        n.spawn([&] {
          EXPECT_LE(io.statistics().workers, 3U);
          std::this_thread::sleep_for(20ms);
        });
    });
  });
  EXPECT_LE(io.statistics().promotions - io.statistics().retirements, 1U);
}

TEST(ElasticPool, WithoutAThreadForTheWatcherItRunsAllTheSame) {
  FiberIo io{{.workers = 1}};
  const arch::fault::Scoped fault{arch::fault::Site::pthread_create, {.nth = 1, .error = EAGAIN}};
  EXPECT_EQ(io.run([] {
    sleep_for(1ms);
    return 7;
  }), 7);
}

TEST(ElasticPool, WithoutThreadsForStandInsNothingIsLost) {
  FiberIo io{{.workers = 1, .max_workers = 2}};
  std::atomic<int> ended{0};
  io.run([&] {
    const arch::fault::Scoped fault{arch::fault::Site::pthread_create,
                                    {.every = 1, .error = EAGAIN}};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          std::this_thread::sleep_for(30ms);
          ++ended;
        });
    });
  });
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(io.statistics().promotions, 0U);
  EXPECT_EQ(io.statistics().workers, 1U);
}

// ── the watcher sleeps when everybody does ──────────────────────────────────────────────────────

std::uint64_t rounds_of(const FiberIo& io) {
  const Statistics all = io.statistics();
  return std::accumulate(std::begin(all.blocked), std::end(all.blocked), std::uint64_t{0});
}

TEST(ElasticPool, TheWatcherSleepsWithTheEngineAndWakesWithIt) {
  FiberIo io{{.workers = 2, .on_deadlock = OnDeadlock::report}};
  Event enough{"enough"};
  std::thread outside{[&] {
    while (!io.post([] {})) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) {
      // As soon as it sleeps, there are no rounds any more.
      std::uint64_t before = 0;
      do {
        before = rounds_of(io);
        std::this_thread::sleep_for(50ms);
      } while (rounds_of(io) != before);
      // It has a round before this ends, or was not woken.
      std::latch seen{1};
      EXPECT_TRUE(io.post([&io, &seen, before] {
        while (rounds_of(io) == before) std::this_thread::sleep_for(1ms);
        seen.count_down();
      }));
      seen.wait();
    }
    enough.set();
  }};
  io.run([&] { enough.wait(); });
  outside.join();
}

// ── statistics ──────────────────────────────────────────────────────────────────────────────────

TEST(ElasticPool, StatisticsArePrintedWhenAskedFor) {
  ::setenv("WEFT_PRESSURE_STATS", "1", 1);
  ::testing::internal::CaptureStderr();
  FiberIo{{.workers = 2}}.run([] { sleep_for(1ms); });
  const std::string text = ::testing::internal::GetCapturedStderr();
  ::unsetenv("WEFT_PRESSURE_STATS");
  for (const char* part : {"weft: workers 2", "pressure ", "positive", "negative", "neg_streak_max",
                           "gate passes", "promoted", "no_work", "nonpositive", "idle_capacity",
                           "not_stuck", "at_limit", "too_soon"})
    EXPECT_THAT(text, HasSubstr(part));
}

// ── time slices ─────────────────────────────────────────────────────────────────────────────────

// On one worker: a fiber that never parks, but calls `operation` again and again, until another has
// run.
void expect_yields(const std::function<void()>& operation) {
  FiberIo{{.workers = 1}}.run([&] {
    bool other_has_run = false;
    bool began = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        began = true;
        while (!other_has_run) operation();
      });
      while (!began) this_fiber::yield();
      other_has_run = true;
    });
  });
}

TEST(TimeSlice, ACheckpointYields) { expect_yields([] { this_fiber::checkpoint(); }); }

TEST(TimeSlice, ABufferedChannelYields) {
  Channel<int> ch{4};
  expect_yields([&] {
    EXPECT_TRUE(ch.tx.send(1));
    EXPECT_TRUE(ch.rx.recv());
  });
}

TEST(TimeSlice, AnEventThatIsSetYields) {
  Event set{"set"};
  set.set();
  expect_yields([&] { set.wait(); });
  expect_yields([&] { static_cast<void>(set.wait(no_throw)); });
}

TEST(TimeSlice, ASemaphoreWithPermitsYields) {
  Semaphore permits{1};
  expect_yields([&] {
    permits.acquire();
    permits.release();
  });
}

TEST(TimeSlice, ASelectThatIsReadyYields) {
  Channel<int> ch{4};
  expect_yields([&] {
    EXPECT_TRUE(ch.tx.send(1));
    select(ch.rx.on_recv([](std::optional<int>) {}));
  });
}

// Two of them take turns for ever, and neither starves a third.
TEST(TimeSlice, NeighboursShareAWorker) {
  FiberIo{{.workers = 1}}.run([&] {
    bool over = false;
    std::uint64_t turns[2] = {0, 0};
    nursery([&](Nursery& n) {
      for (auto& mine : turns)
        n.spawn([&] {
          while (!over) {
            ++mine;
            this_fiber::checkpoint();
          }
        });
      while (turns[0] == 0 || turns[1] == 0) this_fiber::yield();
      const std::uint64_t before[2] = {turns[0], turns[1]};
      while (turns[0] == before[0] || turns[1] == before[1]) this_fiber::yield();
      over = true;
    });
  });
}

// Regression: what came from outside was looked for once in 61 picks, and here a pick is a slice.
TEST(TimeSlice, WorkFromOutsideWaitsForOneTurn) {
  FiberIo io{{.workers = 1}};
  io.run([&] {
    std::atomic<bool> posted{false};
    std::atomic<bool> ran{false};
    const std::jthread outside{[&] {
      EXPECT_TRUE(io.post([&] { ran = true; }));
      posted = true;
    }};
    while (!posted) std::this_thread::yield();
    const std::uint64_t before = io.statistics().time_slices;
    while (!ran) this_fiber::checkpoint();
    EXPECT_LE(io.statistics().time_slices - before, 20U);
  });
}

// ── nobody starves ──────────────────────────────────────────────────────────────────────────────

// Fibers that reach their worker by every way there is, side by side: through the `next` slot, the
// ready queue, the queue of the unborn, the inbox, the injector, timers, and pinned. None may be
// left far behind, whoever shares a worker with whom.
class Ways : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(On, Ways, ::testing::Values(1U, 2U, 4U, 16U));

TEST_P(Ways, EveryWayToAWorkerGetsItsShare) {
  enum Way { next, ready, unborn, inbox, injector, timer, pinned };
  constexpr std::size_t kWays = 7;
  constexpr std::uint64_t kEnough = 200;   // steps of each,
  constexpr std::uint64_t kMost = 20'000'000;  // before anybody has made so many
  FiberIo io{{.workers = GetParam()}};
  std::atomic<std::uint64_t> steps[kWays]{};
  std::atomic<bool> over{false};
  Semaphore asked{0};
  Semaphore answered{0};
  std::thread outside{[&] {
    while (!over) {
      if (asked.try_acquire()) answered.release();  // wakes from outside: the inbox
      io.post([&] { ++steps[injector]; });
      std::this_thread::sleep_for(50us);
    }
    answered.release();
  }};
  io.run([&] {
    Semaphore ping{0};
    Semaphore pong{0};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        while (!over) ping.release(), pong.acquire(), ++steps[next];
        ping.release();
      });
      n.spawn([&] {
        while (!over) ping.acquire(), pong.release();
        pong.release();
      });
      n.spawn([&] {
        while (!over) this_fiber::yield(), ++steps[ready];
      });
      n.spawn([&] {
        while (!over) nursery([&](Nursery& inner) { inner.spawn([&] { ++steps[unborn]; }); });
      });
      n.spawn([&] {
        while (!over) asked.release(), answered.acquire(), ++steps[inbox];
      });
      n.spawn([&] {
        while (!over) sleep_for(20us), ++steps[timer];
      });
      nursery({.migration = Migration::pinned}, [&](Nursery& here) {
        here.spawn([&] {
          while (!over) this_fiber::yield(), ++steps[pinned];
        });
        const auto all_had_enough = [&] {
          return std::all_of(std::begin(steps), std::end(steps),
                             [&](const auto& way) { return way >= kEnough; });
        };
        const auto somebody_had_most = [&] {
          return std::any_of(std::begin(steps), std::end(steps),
                             [&](const auto& way) { return way >= kMost; });
        };
        while (!all_had_enough() && !somebody_had_most()) this_fiber::yield();
        for (std::size_t i = 0; i < kWays; ++i) EXPECT_GE(steps[i], kEnough) << "way " << i;
        over = true;
      });
    });
  });
  outside.join();
}

// ── blocking_hint ───────────────────────────────────────────────────────────────────────────────

TEST(BlockingHint, MeansNothingInSimulationAndOnThreads) {
  const blocking_hint here;
  on_seeds([] {
    const blocking_hint hint;
    sleep_for(1ms);
  }, 3);
}

TEST(BlockingHint, MaySpanAWaitAndBeNested) {
  testing::on_workers([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 100; ++i)
        n.spawn([] {
          const blocking_hint outer;
          this_fiber::yield();
          const blocking_hint inner;
          sleep_for(100us);
        });
    });
  });
}

// What waits behind it is taken over, and what is sent to it goes elsewhere.
TEST(BlockingHint, TheWorkersFibersAreTakenOver) {
  FiberIo{{.workers = 2}}.run([] {
    for (int i = 0; i < 50; ++i) {
      std::latch behind{1};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          n.spawn([&] { behind.count_down(); });
          const blocking_hint hint;
          behind.wait();
        });
      });
    }
  });
}

}  // namespace
}  // namespace weft
