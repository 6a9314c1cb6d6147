#include <weft/sim.hpp>

#include <weft/arch/fault.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
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
using testing::text_of;

constexpr std::uint64_t kSeeds = 200;

// ── run ─────────────────────────────────────────────────────────────────────────────────────────

TEST(SimIo, RunReturnsValuesAndThrowsErrors) {
  SimIo io;
  EXPECT_EQ(io.run([] { return 5; }), 5);
  EXPECT_EQ(*io.run([] { return std::make_unique<int>(7); }), 7);
  EXPECT_THROW(io.run([] { throw std::runtime_error{"root"}; }), std::runtime_error);
  EXPECT_THROW(io.run([]() -> int { throw 'x'; }), char);
  EXPECT_THROW(io.run([] { nursery([](Nursery& n) { n.spawn([] { throw 1; }); }); }), int);
  EXPECT_EQ(io.run([] { return 6; }), 6);
  EXPECT_EQ(io.kind(), "SimIo");
}

TEST(SimIo, RunWhileRunningIsRefused) {
  SimIo io;
  io.run([&] {
    EXPECT_THAT(text_of<std::logic_error>([&] { io.run([] {}); }),
                AllOf(HasSubstr("SimIo::run()"), HasSubstr("running already")));
  });
  EXPECT_EQ(io.run([] { return 1; }), 1);
}

TEST(SimIo, OptionsThatMakeNoSenseAreRefusedWithAReason) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{4'096}, std::size_t{1} << 40})
    EXPECT_THAT(text_of<std::invalid_argument>([&] { SimIo io{{.stack_bytes = bytes}}; }),
                AllOf(HasSubstr("stack_bytes"), HasSubstr(std::to_string(bytes))));
  EXPECT_THAT(text_of<std::invalid_argument>([] { SimIo io{{.replay = "w9:0:"}}; }),
              AllOf(HasSubstr("not a schedule"), HasSubstr("w9:0:")));
}

TEST(SimIo, NoStackForAFiberIsTheChildsFailure) {
  FiberIo{{.workers = 1}}.run([] {});  // leaves frames: only the stack is missing below
  SimIo io{{.stack_bytes = 64 * 1024}};
  {
    const arch::fault::Scoped no_memory{arch::fault::Site::mmap, {.every = 1}};
    EXPECT_THROW(io.run([] {}), OutOfStacks);
  }
  io.run([&] {
    const auto captured = std::make_shared<int>(0);
    {
      const arch::fault::Scoped no_memory{arch::fault::Site::mmap, {.every = 1}};
      EXPECT_THROW(nursery([&](Nursery& n) {
                     for (int i = 0; i < 1'000; ++i) n.spawn([captured] { sleep_for(1h); });
                   }),
                   OutOfStacks);
    }
    EXPECT_EQ(captured.use_count(), 1);
    nursery([&](Nursery& n) {
      for (int i = 0; i < 1'000; ++i) n.spawn([captured] { sleep_for(1h); });
    });
  });
}

// ── virtual time ────────────────────────────────────────────────────────────────────────────────

TEST(SimIo, TimeBeginsAtZeroAndIsExact) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimIo io{{.seed = seed}};
    io.run([] {
      EXPECT_EQ(Clock::now(), Instant{});
      sleep_for(1ns);
      EXPECT_EQ(Clock::now(), Instant{1ns});
      sleep_for(3h);
      EXPECT_EQ(Clock::now(), Instant{3h + 1ns});
      for (int i = 0; i < 1'000; ++i) this_fiber::yield();
      EXPECT_EQ(Clock::now(), Instant{3h + 1ns}) << "work takes no time";
      sleep_for(0s);
      sleep_for(-1s);
      EXPECT_EQ(Clock::now(), Instant{3h + 1ns});
    });
    EXPECT_EQ(io.now(), Instant{3h + 1ns});
  }
}

TEST(SimIo, TimeGoesOnFromRunToRun) {
  SimIo io;
  io.run([] { sleep_for(1h); });
  io.run([] {
    EXPECT_EQ(Clock::now(), Instant{1h});
    sleep_for(1h);
  });
  EXPECT_EQ(io.now(), Instant{2h});
}

TEST(SimIo, TimeStandsStillWhileAnybodyCanRun) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo io{{.seed = seed}};
    io.run([] {
      nursery([](Nursery& n) {
        n.spawn([] {
          for (int i = 0; i < 100; ++i) {
            EXPECT_EQ(Clock::now(), Instant{});
            this_fiber::yield();
          }
        });
        n.spawn([] {
          sleep_for(1ns);
          EXPECT_EQ(Clock::now(), Instant{1ns});
        });
      });
    });
  }
}

TEST(SimIo, SleepersWakeInOrderOfTheirInstants) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo io{{.seed = seed}};
    std::vector<int> order;
    io.run([&] {
      nursery([&](Nursery& n) {
        for (const int i : {5, 3, 1, 4, 2})
          n.spawn([&, i] {
            sleep_for(i * 1s);
            EXPECT_EQ(Clock::now(), Instant{i * 1s});
            order.push_back(i);
          });
      });
    });
    EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5));
    EXPECT_EQ(io.now(), Instant{5s});
  }
}

// Fibers of one instant become runnable in the order of arming; who of them runs first is a choice.
TEST(SimIo, TiesBecomeRunnableInOrderOfArming) {
  std::vector<int> order;
  std::vector<int> armed;
  SimIo io{{.seed = 0, .replay = "w1:0:0x1000"}};  // always the one that has been runnable longest
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn([&, i] {
          armed.push_back(i);
          sleep_until(Instant{1s});
          order.push_back(i);
        });
    });
  });
  EXPECT_EQ(order, armed);
  EXPECT_EQ(order.size(), 8U);
}

TEST(SimIo, AnEndlessSleepIsTheEndOfTime) {
  SimIo io;
  io.run([] {
    sleep_for(Duration::max());
    EXPECT_EQ(Clock::now(), Instant::max());
    sleep_for(1h);
    EXPECT_EQ(Clock::now(), Instant::max());
  });
}

// ── settle ──────────────────────────────────────────────────────────────────────────────────────

TEST(SimIo, SettleReturnsWhenEveryOtherFiberIsBlocked) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo io{{.seed = seed}};
    io.run([] {
      Event go;
      int blocked = 0;
      nursery([&](Nursery& n) {
        for (int i = 0; i < 5; ++i)
          n.spawn([&, i] {
            for (int k = 0; k < i * 3; ++k) this_fiber::yield();
            ++blocked;
            go.wait();
            ++blocked;
          });
        settle();
        EXPECT_EQ(blocked, 5);
        go.set();
        settle();
        EXPECT_EQ(blocked, 10);
      });
    });
  }
}

TEST(SimIo, SleepersCountAsBlockedAndTimeStandsStill) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo io{{.seed = seed}};
    io.run([] {
      bool woken = false;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          sleep_for(1ns);
          woken = true;
        });
        for (int i = 0; i < 5; ++i) settle();
        EXPECT_FALSE(woken);
        EXPECT_EQ(Clock::now(), Instant{});
        sleep_for(1ns);
        settle();
        EXPECT_TRUE(woken);
      });
    });
  }
}

TEST(SimIo, SettleWhenAloneReturnsAtOnce) {
  SimIo io;
  io.run([] {
    settle();
    settle();
    EXPECT_EQ(Clock::now(), Instant{});
  });
}

TEST(SimIo, SeveralSettlersReturnOneAfterAnother) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo io{{.seed = seed}};
    io.run([] {
      int active = 0;
      std::vector<int> asked;
      std::vector<int> settled;
      nursery([&](Nursery& n) {
        for (int i = 0; i < 4; ++i)
          n.spawn([&, i] {
            this_fiber::yield();
            asked.push_back(i);
            settle();
            EXPECT_EQ(active++, 0) << "the one before has blocked or ended first";
            settled.push_back(i);
            this_fiber::yield();
            this_fiber::yield();
            --active;
            sleep_for(1s);
          });
      });
      EXPECT_EQ(settled, asked) << "first come, first served";
    });
  }
}

TEST(SimIo, SettleIsACancelPoint) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo io{{.seed = seed}};
    io.run([] {
      CancelScope scope{Fiber::current().scope};
      Event settling;
      int cancelled = 0;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          const Entered entered{Fiber::current(), scope};
          settling.set();
          try {
            settle();
          } catch (const Cancelled&) {
            ++cancelled;
          }
          EXPECT_THROW(settle(), Cancelled);
        });
        settling.wait();
        scope.cancel();
      });
      EXPECT_EQ(cancelled, 1);
      settle();  // the one that was cancelled has left the list
    });
  }
}

TEST(SimIo, SettleUnderAnotherEngineIsRefused) {
  FiberIo io;
  io.run([] {
    EXPECT_THAT(text_of<std::logic_error>([] { settle(); }),
                AllOf(HasSubstr("settle()"), HasSubstr("SimIo")));
  });
}

// ── foreign threads ─────────────────────────────────────────────────────────────────────────────

TEST(SimIoDeathTest, AForeignWakeAborts) {
  EXPECT_DEATH(SimIo{}.run([] {
    Event event;
    nursery([&](Nursery& n) {
      n.spawn([&] { event.wait(); });
      settle();
      std::thread{[&] { event.set(); }}.join();
    });
  }),
               "weft: .*thread.*simulat");
}

TEST(SimIoDeathTest, AForeignSpawnAborts) {
  EXPECT_DEATH(SimIo{}.run([] {
    nursery([&](Nursery& n) { std::thread{[&] { n.spawn([] {}); }}.join(); });
  }),
               "weft: .*thread.*simulat");
}

TEST(SimIoDeathTest, AForeignCancelOfAParkedFiberAborts) {
  EXPECT_DEATH(SimIo{}.run([] {
    nursery([&](Nursery& n) {
      n.spawn([] { Event{}.wait(); });
      settle();
      std::thread{[&] { n.cancel(); }}.join();
    });
  }),
               "weft: .*thread.*simulat");
}

TEST(SimIo, AFiberMayWakeAPlainThread) {
  Event event;
  std::thread thread{[&] { event.wait(); }};
  SimIo{}.run([&] { event.set(); });
  thread.join();
}

TEST(SimIo, AnEventWithoutWaitersMayBeSetByAnyone) {
  SimIo{}.run([] {
    Event event;
    std::thread{[&] { event.set(); }}.join();
    event.wait();
  });
}

// ── the schedule ────────────────────────────────────────────────────────────────────────────────

std::string who_ran(SimIo& io) {
  std::string order;
  io.run([&] {
    nursery([&](Nursery& n) {
      for (const char who : {'a', 'b', 'c', 'd'})
        n.spawn([&order, who] {
          for (int i = 0; i < 3; ++i) {
            order.push_back(who);
            this_fiber::yield();
          }
        });
    });
  });
  return order;
}

TEST(SimIo, StepsCountChoices) {
  SimIo io;
  EXPECT_EQ(io.steps(), 0U);
  io.run([] {});
  EXPECT_EQ(io.steps(), 1U);
  const std::uint64_t hash = io.trace_hash();
  who_ran(io);
  EXPECT_GE(io.steps(), 17U);
  EXPECT_NE(io.trace_hash(), hash);
}

TEST(SimIo, AReplayReproducesTheOrder) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo original{{.seed = seed}};
    const std::string order = who_ran(original);
    SimIo replayed{{.seed = seed + 1'000, .replay = original.schedule()}};
    ASSERT_EQ(who_ran(replayed), order);
    ASSERT_EQ(replayed.trace_hash(), original.trace_hash());
    ASSERT_EQ(replayed.schedule(), original.schedule());
  }
}

// Fibers that race for the program's random numbers, and do what those say.
std::string who_drew_what(SimIo& sim) {
  std::string log;
  sim.run([&] {
    nursery([&](Nursery& n) {
      for (char name = 'a'; name < 'e'; ++name)
        n.spawn([&log, name] {
          for (int i = 0; i < 4; ++i) {
            const std::uint64_t number = io().random();
            log += name + std::to_string(number) + ' ';
            sleep_for(Duration{number % 3});
          }
        });
    });
  });
  return log;
}

TEST(SimIo, TheSeedDecidesRandomNumbers) {
  SimIo a{{.seed = 3}}, b{{.seed = 3}}, c{{.seed = 4}};
  const std::string log = who_drew_what(a);
  EXPECT_EQ(who_drew_what(b), log);
  EXPECT_NE(who_drew_what(c), log);
  EXPECT_EQ(a.trace_hash(), b.trace_hash());
}

TEST(SimIo, AReplayReproducesRandomNumbers) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo original{{.seed = seed}};
    const std::string log = who_drew_what(original);
    SimIo replayed{{.seed = seed + 1'000, .replay = original.schedule()}};
    ASSERT_EQ(who_drew_what(replayed), log);
    ASSERT_EQ(replayed.trace_hash(), original.trace_hash());
    ASSERT_EQ(replayed.schedule(), original.schedule());
  }
}

TEST(SimIo, TheScheduleCanBeReadWhileItRuns) {
  SimIo io{{.seed = 4}};
  io.run([&] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 5; ++i) n.spawn([] { this_fiber::yield(); });
    });
    EXPECT_THAT(io.schedule(), HasSubstr("w1:4:"));
    EXPECT_GT(io.steps(), 5U);
  });
}

}  // namespace
}  // namespace weft
