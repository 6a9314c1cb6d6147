#include <weft/barrier.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

TEST(Barrier, AllMeetInEachPhase) {
  const auto body = [] {
    constexpr int kFibers = 5;
    constexpr int kPhases = 20;
    std::atomic<int> completions{0};
    Barrier barrier{kFibers, [&] { ++completions; }};
    std::vector<std::atomic<int>> arrivals(kPhases);
    nursery([&](Nursery& n) {
      for (int i = 0; i < kFibers; ++i)
        n.spawn([&] {
          for (std::size_t phase = 0; phase < kPhases; ++phase) {
            ++arrivals[phase];
            barrier.arrive_and_wait();
            EXPECT_EQ(arrivals[phase].load(), kFibers);
            EXPECT_GE(completions.load(), static_cast<int>(phase) + 1);
          }
        });
    });
    EXPECT_EQ(completions.load(), kPhases);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(Barrier, TheCompletionFunctionRunsAloneAndMayWait) {
  everywhere([] {
    int steps = 0;  // plain: the phases order it
    Barrier barrier{3, [&] {
                      this_fiber::yield();
                      ++steps;
                      this_fiber::yield();
                    }};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          for (int phase = 1; phase <= 5; ++phase) {
            barrier.arrive_and_wait();
            EXPECT_EQ(steps, phase);
            barrier.arrive_and_wait();
            EXPECT_EQ(steps, ++phase);
          }
        });
    });
  });
}

TEST(Barrier, AnExceptionOfTheCompletionFunctionLeavesTheLastCall) {
  on_both_engines([] {
    int calls = 0;
    Barrier barrier{2, [&] {
                      if (++calls == 1) throw std::runtime_error{"tired"};
                    }};
    int thrown = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i)
        n.spawn([&] {
          try {
            barrier.arrive_and_wait();
          } catch (const std::runtime_error&) {
            ++thrown;
          }
          barrier.arrive_and_wait();
        });
    });
    EXPECT_EQ(thrown, 1);
    EXPECT_EQ(calls, 2);
  });
}

TEST(Barrier, WhoDropsIsNotExpectedAgain) {
  on_both_engines([] {
    Barrier barrier{3};
    EXPECT_EQ(barrier.expected(), 3U);
    int met = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i)
        n.spawn([&] {
          for (int phase = 0; phase < 3; ++phase) barrier.arrive_and_wait();
          ++met;
        });
      let_others_block();
      EXPECT_EQ(met, 0);
      barrier.arrive_and_drop();  // ends the first phase, and takes no part in the others
      EXPECT_EQ(barrier.expected(), 2U);
    });
    EXPECT_EQ(met, 2);
    barrier.arrive_and_drop();
    barrier.arrive_and_drop();
    EXPECT_EQ(barrier.expected(), 0U);
    EXPECT_THROW(barrier.arrive_and_wait(), std::logic_error) << "nobody is expected";
    EXPECT_THROW(barrier.arrive_and_drop(), std::logic_error);
  });
}

TEST(Barrier, ACancelledWaiterHasNotArrived) {
  on_both_engines([] {
    Barrier barrier{2};
    CancelScope scope{Fiber::current().scope};
    int through = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(barrier.arrive_and_wait(), Cancelled);
        EXPECT_THROW(barrier.arrive_and_wait(), Cancelled) << "at once";
        EXPECT_FALSE(barrier.arrive_and_wait_for(1h, no_throw));
      });
      let_others_block();
      scope.cancel();
      let_others_block();
      n.spawn([&] {
        barrier.arrive_and_wait();
        ++through;
      });
      let_others_block();
      EXPECT_EQ(through, 0) << "it is alone";
      EXPECT_TRUE(barrier.arrive_and_wait(no_throw));
    });
    EXPECT_EQ(through, 1);
  });
}

TEST(Barrier, ATimedWaiterThatGivesUpMayComeAgain) {
  on_seeds([] {
    Barrier barrier{2};
    const Instant before = Clock::now();
    EXPECT_FALSE(barrier.arrive_and_wait_for(5ms));
    EXPECT_EQ(Clock::now() - before, 5ms);
    EXPECT_FALSE(barrier.arrive_and_wait_until(before + 6ms, no_throw));
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(barrier.arrive_and_wait_for(1h, no_throw)); });
      EXPECT_TRUE(barrier.arrive_and_wait_until(before + 1h));
    });
    testing::expect_no_timer_left();
  }, 30);
}

// Some are cancelled all the time, and come again. Nobody passes alone.
TEST(Barrier, CancelsDoNotDisturbTheCount) {
  const auto body = [] {
    constexpr int kPhases = 10;
    Barrier barrier{3};
    std::vector<std::atomic<int>> arrivals(kPhases);
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&, i] {
          for (std::size_t phase = 0; phase < kPhases; ++phase) {
            ++arrivals[phase];
            if (i == 0)
              while (!timeout(1us, [&] { barrier.arrive_and_wait(); })) this_fiber::yield();
            else if (i == 1)
              while (!barrier.arrive_and_wait_for(1us)) this_fiber::yield();
            else
              barrier.arrive_and_wait();
            EXPECT_EQ(arrivals[phase].load(), 3);
          }
        });
    });
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U}, body);
  testing::on_blocking(body);
}

TEST(Barrier, AmongThreadsAndFibers) {
  Barrier barrier{4};
  std::atomic<int> count{0};
  const auto meet = [&] {
    for (int phase = 1; phase <= 50; ++phase) {
      ++count;
      barrier.arrive_and_wait();
      EXPECT_GE(count.load(), 4 * phase);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(meet);
  FiberIo{{.workers = 2}}.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i) n.spawn(meet);
    });
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count.load(), 200);
}

TEST(Barrier, IsNamedInReports) {
  const std::string text = testing::text_of<Deadlock>([] {
    SimIo{}.run([] {
      Barrier barrier{2, "start line"};
      barrier.arrive_and_wait();
    });
  });
  EXPECT_THAT(text, HasSubstr("on barrier wait \"start line\""));
}

}  // namespace
}  // namespace weft
