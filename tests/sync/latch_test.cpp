#include <weft/latch.hpp>

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
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

TEST(Latch, CountsDownToZeroOnce) {
  Latch latch{3};
  EXPECT_FALSE(latch.try_wait());
  latch.count_down();
  EXPECT_FALSE(latch.try_wait());
  EXPECT_THROW(latch.count_down(3), std::invalid_argument);
  latch.count_down(2);
  EXPECT_TRUE(latch.try_wait());
  latch.wait();
  EXPECT_TRUE(latch.wait(no_throw));
  EXPECT_TRUE(latch.wait_for(0s));
  EXPECT_THROW(latch.count_down(), std::invalid_argument);
  latch.count_down(0);
  EXPECT_TRUE(Latch{0}.try_wait());
}

TEST(Latch, WakesEverybodyAtZero) {
  const auto body = [] {
    Latch started{4}, go{1};
    std::atomic<int> ran{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&] {
          started.count_down();
          go.wait();
          ++ran;
        });
      started.wait();
      EXPECT_EQ(ran.load(), 0);
      go.count_down();
    });
    EXPECT_EQ(ran.load(), 4);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(Latch, ArriveAndWaitMeets) {
  const auto body = [] {
    Latch all{5};
    std::atomic<int> before{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i)
        n.spawn([&] {
          ++before;
          all.arrive_and_wait();
          EXPECT_EQ(before.load(), 5);
        });
    });
  };
  on_seeds(body, 50);
  on_workers({1U, 2U, 4U}, body);
  testing::on_blocking(body);
}

TEST(Latch, WaitIsACancelPoint) {
  on_both_engines([] {
    Latch latch{1};
    CancelScope scope{Fiber::current().scope};
    int ended = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(latch.wait(), Cancelled);
        EXPECT_FALSE(latch.wait(no_throw));
        EXPECT_THROW(static_cast<void>(latch.wait_for(1h)), Cancelled);
        EXPECT_FALSE(latch.wait_for(1h, no_throw));
        ++ended;
      });
      let_others_block();
      scope.cancel();
      let_others_block();
      EXPECT_EQ(ended, 1);
      latch.count_down();
    });
  });
}

TEST(Latch, TimedWaits) {
  on_seeds([] {
    Latch latch{1};
    const Instant before = Clock::now();
    EXPECT_FALSE(latch.wait_for(2ms));
    EXPECT_FALSE(latch.wait_until(before + 3ms, no_throw));
    EXPECT_EQ(Clock::now() - before, 3ms);
    nursery([&](Nursery& n) {
      n.spawn([&] {
        sleep_for(1ms);
        latch.count_down();
      });
      EXPECT_TRUE(latch.wait_until(before + 1h));
      EXPECT_EQ(Clock::now() - before, 4ms);
    });
    testing::expect_no_timer_left();
  }, 20);
}

TEST(Latch, AsAnArm) {
  on_both_engines([] {
    Latch latch{1};
    Event event;
    int handled = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto done = latch.on_done([&] { ++handled; });
        auto set = event.on_set();
        Waitable* const arms[] = {&done, &set};
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 0U);
        run_handler(done);
      });
      let_others_block();
      latch.count_down();
    });
    EXPECT_EQ(handled, 1);
    Latch named{1, "ready"};
    EXPECT_EQ(named.on_done().reason().verb, "latch wait");
    EXPECT_EQ(named.on_done().reason().name, "ready");
  });
}

TEST(Latch, MayDieWhileAForeignCountDownIsStillReturning) {
  on_workers({1U, 2U, 4U}, [] {
    for (int round = 0; round < 100; ++round) {
      std::optional<Latch> latch{std::in_place, 1U};
      std::thread other{[at = &*latch] { at->count_down(); }};
      latch->wait();
      latch.reset();
      other.join();
    }
  });
}

}  // namespace
}  // namespace weft
