#include <weft/rate_limiter.hpp>

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
#include <thread>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::let_others_block;
using testing::on_seeds;

TEST(RateLimiter, GivesTheBurstAtOnceAndThenOneByOne) {
  SimIo{}.run([] {
    RateLimiter limiter{{.tokens = 10, .period = 1s, .burst = 3}};
    const Instant start = Clock::now();
    std::vector<long> at;
    for (int i = 0; i < 6; ++i) {
      limiter.acquire();
      at.push_back(static_cast<long>((Clock::now() - start) / 1ms));
    }
    EXPECT_THAT(at, ElementsAre(0, 0, 0, 100, 200, 300));
    testing::expect_no_timer_left();
  });
}

TEST(RateLimiter, SavesUpNoMoreThanTheBurst) {
  SimIo{}.run([] {
    RateLimiter limiter{{.tokens = 10, .period = 1s, .burst = 2}};
    limiter.acquire(2);
    sleep_for(150ms);
    EXPECT_TRUE(limiter.try_acquire());
    EXPECT_FALSE(limiter.try_acquire());
    sleep_for(50ms);
    EXPECT_TRUE(limiter.try_acquire()) << "the half that had come already counts";
    sleep_for(1h);
    EXPECT_TRUE(limiter.try_acquire(2));
    EXPECT_FALSE(limiter.try_acquire());
  });
}

TEST(RateLimiter, TheBurstIsAPeriodsWorthUnlessSaid) {
  SimIo{}.run([] {
    RateLimiter limiter{{.tokens = 5}};
    EXPECT_TRUE(limiter.try_acquire(5));
    EXPECT_FALSE(limiter.try_acquire());
    const Instant before = Clock::now();
    limiter.acquire(5);
    EXPECT_EQ(Clock::now() - before, 1s);
  });
}

TEST(RateLimiter, TheLongRunIsExact) {
  SimIo{}.run([] {
    RateLimiter limiter{{.tokens = 3, .period = 1s, .burst = 1}};  // a third of a second each
    const Instant start = Clock::now();
    for (int i = 0; i <= 3'000; ++i) limiter.acquire();
    EXPECT_EQ(Clock::now() - start, 1'000s);
    RateLimiter fast{{.tokens = 7'000'000, .period = 1s, .burst = 1}};
    const Instant again = Clock::now();
    for (int i = 0; i <= 7'000; ++i) fast.acquire();
    EXPECT_EQ(Clock::now() - again, 1ms);
  });
}

TEST(RateLimiter, FirstComeFirstServed) {
  on_seeds([] {
    RateLimiter limiter{{.tokens = 10, .period = 1s, .burst = 4}};
    limiter.acquire(4);
    std::vector<int> order;
    nursery([&](Nursery& n) {
      const auto wants = [&](int name, std::uint64_t tokens) {
        n.spawn([&, name, tokens] {
          limiter.acquire(tokens);
          order.push_back(name);
        });
        settle();
      };
      wants(1, 4);
      wants(2, 1);
      wants(3, 2);
      sleep_for(200ms);
      EXPECT_TRUE(order.empty());
      EXPECT_FALSE(limiter.try_acquire()) << "there are tokens, but others came before";
    });
    EXPECT_THAT(order, ElementsAre(1, 2, 3)) << "a large wish is not overtaken by small ones";
  }, 30);
}

TEST(RateLimiter, ACancelledWaiterTakesNoToken) {
  on_seeds([] {
    RateLimiter limiter{{.tokens = 10, .period = 1s, .burst = 5}};
    limiter.acquire(5);
    const Instant start = Clock::now();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_FALSE(timeout(250ms, [&] { limiter.acquire(5); })); });
      settle();
      n.spawn([&] {
        EXPECT_FALSE(timeout(50ms, [&] { limiter.acquire(); })) << "still in line";
      });
      n.spawn([&] {
        static_cast<void>(cancel_scope([&](CancelScope& scope) {
          scope.cancel();
          EXPECT_FALSE(limiter.acquire(no_throw));
          EXPECT_FALSE(limiter.acquire(2, no_throw));
          EXPECT_FALSE(limiter.try_acquire_for(1h, 1, no_throw));
          EXPECT_THROW(static_cast<void>(limiter.try_acquire_for(1h)), Cancelled);
          EXPECT_THROW(limiter.acquire(), Cancelled);
        }));
      });
      settle();
      limiter.acquire(2);
      EXPECT_EQ(Clock::now() - start, 250ms) << "what came meanwhile is there";
    });
    testing::expect_no_timer_left();
  }, 30);
}

TEST(RateLimiter, TimedFormsSayNoAsSoonAsTheyKnow) {
  on_seeds([] {
    RateLimiter limiter{{.tokens = 10, .period = 1s, .burst = 1}};
    EXPECT_TRUE(limiter.try_acquire_for(0s));
    const Instant before = Clock::now();
    EXPECT_FALSE(limiter.try_acquire_for(99ms));
    EXPECT_FALSE(limiter.try_acquire_until(before + 50ms, 1, no_throw));
    EXPECT_EQ(Clock::now(), before);
    EXPECT_TRUE(limiter.try_acquire_for(100ms));
    EXPECT_EQ(Clock::now() - before, 100ms);
    nursery([&](Nursery& n) {
      n.spawn([&] { limiter.acquire(); });
      settle();
      EXPECT_FALSE(limiter.try_acquire_until(before + 150ms)) << "behind another";
      EXPECT_TRUE(limiter.try_acquire_for(1h, 1, no_throw));
    });
    EXPECT_EQ(Clock::now() - before, 300ms);
  }, 30);
}

TEST(RateLimiter, RefusesWhatCannotBe) {
  using Options = RateLimiter::Options;
  EXPECT_THROW(RateLimiter{Options{.tokens = 0}}, std::invalid_argument);
  EXPECT_THROW((RateLimiter{Options{.tokens = 1, .period = 0s}}), std::invalid_argument);
  EXPECT_THROW((RateLimiter{Options{.tokens = 1, .period = -1s}}), std::invalid_argument);
  EXPECT_THROW((RateLimiter{Options{.tokens = 1'000'000'000'000, .period = 24h}}),
               std::invalid_argument);
  EXPECT_THROW(RateLimiter{Options{.tokens = ~std::uint64_t{0}}}, std::invalid_argument);
  RateLimiter limiter{{.tokens = 10, .burst = 2}};
  EXPECT_THROW(limiter.acquire(3), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(limiter.try_acquire(3)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(limiter.acquire(3, no_throw)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(limiter.try_acquire_for(1s, 3)), std::invalid_argument);
  EXPECT_TRUE(limiter.try_acquire(2)) << "none the worse";
}

// Real time, so only a bound that holds however slow the machine is.
TEST(RateLimiter, NeverFasterThanToldOnRealWorkersAndThreads) {
  RateLimiter limiter{{.tokens = 1'000, .period = 100ms, .burst = 5, .name = "api"}};
  std::atomic<int> taken{0};
  const auto take = [&] {
    for (int i = 0; i < 20; ++i) {
      limiter.acquire();
      ++taken;
    }
  };
  const Instant before = Clock::now();
  std::thread thread{take};
  FiberIo{{.workers = 4}}.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 6; ++i) n.spawn(take);
    });
  });
  thread.join();
  EXPECT_EQ(taken.load(), 140);
  EXPECT_GE(Clock::now() - before, (140 - 5) * 100us);
}

}  // namespace
}  // namespace weft
