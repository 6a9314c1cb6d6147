#include <weft/semaphore.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/latch.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

TEST(Semaphore, CountsPermits) {
  Semaphore semaphore{2};
  EXPECT_EQ(semaphore.available(), 2U);
  EXPECT_TRUE(semaphore.try_acquire());
  semaphore.acquire();
  EXPECT_EQ(semaphore.available(), 0U);
  EXPECT_FALSE(semaphore.try_acquire());
  semaphore.release();
  EXPECT_TRUE(semaphore.acquire(no_throw));
  semaphore.release(5);
  EXPECT_EQ(semaphore.available(), 5U) << "more than it began with";
  semaphore.release(0);
  EXPECT_EQ(semaphore.available(), 5U);
}

TEST(Semaphore, NeverMoreAtATimeThanPermits) {
  const auto body = [] {
    Semaphore slots{3};
    std::atomic<int> active{0}, done{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 12; ++i)
        n.spawn([&] {
          for (int k = 0; k < 10; ++k) {
            const auto permit = slots.permit();
            EXPECT_LE(++active, 3);
            this_fiber::yield();
            --active;
            ++done;
          }
        });
    });
    EXPECT_EQ(done.load(), 120);
    EXPECT_EQ(slots.available(), 3U);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(Semaphore, AsManyAtATimeAsPermits) {
  const auto body = [] {
    Semaphore slots{3};
    Latch all_three{3};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          const auto permit = slots.permit();
          all_three.arrive_and_wait();  // a deadlock, were there fewer
        });
    });
    EXPECT_EQ(slots.available(), 3U);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(Semaphore, FirstComeFirstServed) {
  on_workers({1U}, [] {
    Semaphore semaphore{0};
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.spawn([&, i] {
          semaphore.acquire();
          order.push_back(i);
        });
        this_fiber::yield();
      }
      semaphore.release(2);
      EXPECT_FALSE(semaphore.try_acquire()) << "both are given away";
      this_fiber::yield();
      EXPECT_THAT(order, ElementsAre(0, 1));
      semaphore.release(4);
      EXPECT_TRUE(semaphore.try_acquire()) << "one is left over";
    });
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
  });
}

TEST(Semaphore, PermitGoesBackOnEveryPath) {
  on_both_engines([] {
    Semaphore semaphore{1};
    {
      Semaphore::Permit permit = semaphore.permit();
      EXPECT_TRUE(permit);
      EXPECT_EQ(semaphore.available(), 0U);
      Semaphore::Permit other = std::move(permit);
      EXPECT_FALSE(permit);  // moved from, and says so
      EXPECT_TRUE(other);
      EXPECT_EQ(semaphore.available(), 0U);
      other = Semaphore::Permit{};
      EXPECT_EQ(semaphore.available(), 1U);
      Semaphore::Permit third = semaphore.permit(no_throw);
      EXPECT_TRUE(third);
      third.release();
      third.release();
      EXPECT_EQ(semaphore.available(), 1U);
    }
    EXPECT_EQ(semaphore.available(), 1U);
    EXPECT_FALSE(timeout(1ms, [&] {
      const auto permit = semaphore.permit();
      sleep_for(1h);
    }));
    EXPECT_EQ(semaphore.available(), 1U);
    try {
      const auto permit = semaphore.permit();
      throw 1;
    } catch (int) {
    }
    EXPECT_EQ(semaphore.available(), 1U);
  });
}

TEST(Semaphore, AcquireIsACancelPoint) {
  on_both_engines([] {
    Semaphore semaphore{0};
    CancelScope scope{Fiber::current().scope};
    int ended = 0;
    nursery([&](Nursery& n) {
      const auto in_scope = [&](auto f) {
        n.spawn([&, f] {
          const Entered entered{Fiber::current(), scope};
          f();
          ++ended;
        });
      };
      in_scope([&] { EXPECT_THROW(semaphore.acquire(), Cancelled); });
      in_scope([&] { EXPECT_FALSE(semaphore.acquire(no_throw)); });
      in_scope([&] { EXPECT_FALSE(semaphore.permit(no_throw)); });
      in_scope([&] { EXPECT_THROW(static_cast<void>(semaphore.try_acquire_for(1h)), Cancelled); });
      in_scope([&] { EXPECT_FALSE(semaphore.try_acquire_for(1h, no_throw)); });
      let_others_block();
      EXPECT_EQ(ended, 0);
      scope.cancel();
      let_others_block();
      EXPECT_EQ(ended, 5);
      semaphore.release();
      in_scope([&] { EXPECT_THROW(semaphore.acquire(), Cancelled) << "though there is one"; });
      in_scope([&] { EXPECT_FALSE(semaphore.acquire(no_throw)); });
      in_scope([&] { EXPECT_THROW(static_cast<void>(semaphore.try_acquire_for(0s)), Cancelled); });
      in_scope([&] {
        EXPECT_TRUE(semaphore.try_acquire()) << "which does not look";
        semaphore.release();
      });
    });
    EXPECT_EQ(semaphore.available(), 1U) << "none is lost";
  });
}

TEST(Semaphore, TimedFormsTryOnceAndWaitAsLongAsTold) {
  on_seeds([] {
    Semaphore semaphore{1};
    EXPECT_TRUE(semaphore.try_acquire_for(-1s));
    EXPECT_FALSE(semaphore.try_acquire_for(0s));
    const Instant before = Clock::now();
    EXPECT_FALSE(semaphore.try_acquire_for(5ms));
    EXPECT_EQ(Clock::now() - before, 5ms);
    EXPECT_FALSE(semaphore.try_acquire_until(before + 7ms, no_throw));
    EXPECT_EQ(Clock::now() - before, 7ms);
    nursery([&](Nursery& n) {
      n.spawn([&] {
        sleep_for(3ms);
        semaphore.release();
      });
      EXPECT_TRUE(semaphore.try_acquire_until(before + 1h));
      EXPECT_EQ(Clock::now() - before, 10ms);
    });
    testing::expect_no_timer_left();
  }, 30);
}

TEST(Semaphore, CancelsAndTimeoutsLoseNoPermit) {
  const auto body = [] {
    Semaphore semaphore{2};
    std::atomic<int> got{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn([&, i] {
          for (int k = 0; k < 20; ++k) {
            static_cast<void>(timeout(std::chrono::microseconds{k % 4}, [&] {
              const auto permit = semaphore.permit();
              ++got;
              this_fiber::yield();
            }));
            if (!semaphore.try_acquire_for(std::chrono::microseconds{i})) continue;
            this_fiber::yield();
            semaphore.release();
          }
        });
    });
    EXPECT_EQ(semaphore.available(), 2U);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(Semaphore, AsAnArm) {
  on_both_engines([] {
    Semaphore semaphore{0};
    Event event;
    int handled = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto acquire = semaphore.on_acquire([&] { ++handled; });
        static_assert(Arm<decltype(acquire)>);
        auto set = event.on_set();
        Waitable* const arms[] = {&acquire, &set};
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 1U);
        EXPECT_EQ(semaphore.available(), 0U);
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}.first(1)), 0U);
        run_handler(acquire);
        const Semaphore::Permit adopted{semaphore};
      });
      let_others_block();
      event.set();
      let_others_block();
      semaphore.release();
    });
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(semaphore.available(), 1U);
  });
}

TEST(Semaphore, BetweenThreadsAndFibers) {
  Semaphore there{0}, back{0};
  std::thread thread{[&] {
    for (int i = 0; i < 500; ++i) {
      there.acquire();
      back.release();
    }
  }};
  FiberIo{{.workers = 2}}.run([&] {
    for (int i = 0; i < 500; ++i) {
      there.release();
      back.acquire();
    }
  });
  thread.join();
  EXPECT_EQ(there.available() + back.available(), 0U);
  EXPECT_FALSE(there.try_acquire_for(1us)) << "on a plain thread, too";
}

TEST(Semaphore, MayDieWhileAForeignReleaseIsStillReturning) {
  on_workers({1U, 2U, 4U}, [] {
    for (int round = 0; round < 100; ++round) {
      std::optional<Semaphore> semaphore{std::in_place, 0U};
      std::thread other{[at = &*semaphore] { at->release(); }};
      semaphore->acquire();
      semaphore.reset();
      other.join();
    }
  });
}

TEST(Semaphore, ReasonNamesIt) {
  Semaphore plain{1};
  Semaphore named{1, "slots"};
  EXPECT_EQ(plain.on_acquire().reason().verb, "semaphore acquire");
  EXPECT_EQ(plain.on_acquire().reason().name, "");
  EXPECT_EQ(named.on_acquire().reason().name, "slots");
  EXPECT_EQ(named.on_acquire().reason().object, &named);
}

}  // namespace
}  // namespace weft
