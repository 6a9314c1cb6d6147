#include <weft/event.hpp>

#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_workers;

void on_every_engine(const std::function<void()>& f) {
  on_both_engines(f);
  on_workers({2U, 4U, 16U}, f);
}

TEST(Event, IsAFlag) {
  Event event;
  EXPECT_FALSE(event.is_set());
  event.set();
  EXPECT_TRUE(event.is_set());
  event.set();
  EXPECT_TRUE(event.is_set()) << "idempotent";
  event.reset();
  EXPECT_FALSE(event.is_set());
  event.reset();
  EXPECT_FALSE(event.is_set());
}

TEST(Event, WaitOnASetEventReturnsWithoutParking) {
  on_both_engines([] {
    Event event;
    event.set();
    int others = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] { ++others; });
      event.wait();
      event.wait();
      EXPECT_EQ(others, 0) << "nobody else has run";
      EXPECT_TRUE(event.is_set()) << "a wait does not consume it";
    });
  });
}

TEST(Event, WakesEveryWaiter) {
  on_both_engines([] {
    constexpr int kWaiters = 50;
    Event event;
    std::vector<int> woken(kWaiters, 0);
    nursery([&](Nursery& n) {
      for (int i = 0; i < kWaiters; ++i)
        n.spawn([&, i] {
          event.wait();
          ++woken[std::size_t(i)];
        });
      n.spawn([&] {
        let_others_block();
        EXPECT_THAT(woken, Each(0));
        event.set();
      });
    });
    EXPECT_THAT(woken, Each(1));
  });
}

TEST(Event, WakesInOrderOfArrival) {
  FiberIo{{.workers = 1}}.run([] {
    Event event;
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.spawn([&, i] {
          event.wait();
          order.push_back(i);
        });
        this_fiber::yield();  // it waits before the next is spawned
      }
      event.set();
    });
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
  });
}

// Many are woken a few hundred at a time: nobody goes before the others for that.
TEST(Event, WakesManyInTheOrderTheyCame) {
  for (const int count : {255, 256, 257, 258, 511, 512, 513, 1'000}) {
    on_workers({1U}, [count] {
      Event go;
      std::vector<int> order;
      nursery([&](Nursery& n) {
        for (int i = 0; i < count; ++i) {
          n.spawn([&go, &order, i] {
            go.wait();
            order.push_back(i);
          });
          this_fiber::yield();
        }
        go.set();
      });
      std::vector<int> expected(static_cast<std::size_t>(count));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(order, expected) << count;
    });
  }
}

TEST(Event, ResetDoesNotTakeBackAWaitThatHasEnded) {
  on_both_engines([] {
    Event event;
    bool woken = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        event.wait();
        woken = true;
      });
      let_others_block();
      event.set();
      event.reset();
    });
    EXPECT_TRUE(woken);
    EXPECT_FALSE(event.is_set());
  });
}

TEST(Event, OneOfSeveralArms) {
  on_both_engines([] {
    Event a, b;
    std::size_t won = 9;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto on_a = a.on_set();
        auto on_b = b.on_set();
        Waitable* const arms[] = {&on_a, &on_b};
        won = wait(std::span<Waitable* const>{arms});
      });
      let_others_block();
      b.set();
    });
    EXPECT_EQ(won, 1U);
    a.set();  // nobody is listed there any more
  });
}

TEST(Event, TheSameEventMayBeTwoArms) {
  on_both_engines([] {
    Event event;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto first = event.on_set();
        auto second = event.on_set();
        Waitable* const arms[] = {&first, &second};
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 0U);
      });
      let_others_block();
      event.set();
    });
  });
}

TEST(Event, AWaitThatWasCancelledLeavesTheList) {
  on_both_engines([] {
    Event event;
    CancelScope scope{Fiber::current().scope};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(event.wait(), Cancelled);
      });
      let_others_block();
      scope.cancel();
      let_others_block();
      event.set();  // would find a dead operation
    });
  });
}

TEST(Event, TimedWaitsLookOnceAndWaitAsLongAsTold) {
  testing::on_seeds([] {
    Event event;
    const Instant before = Clock::now();
    EXPECT_FALSE(event.wait_for(0s));
    EXPECT_FALSE(event.wait_for(5ms));
    EXPECT_EQ(Clock::now() - before, 5ms);
    EXPECT_FALSE(event.wait_until(before + 8ms, no_throw));
    EXPECT_EQ(Clock::now() - before, 8ms);
    nursery([&](Nursery& n) {
      n.spawn([&] {
        sleep_for(2ms);
        event.set();
      });
      EXPECT_TRUE(event.wait_for(1h));
    });
    EXPECT_EQ(Clock::now() - before, 10ms);
    EXPECT_TRUE(event.wait_for(-1s)) << "it is set";
    EXPECT_TRUE(event.wait_for(0s, no_throw));
    EXPECT_TRUE(event.wait_until(Instant::min()));
    testing::expect_no_timer_left();
  }, 20);
}

TEST(Event, TimedWaitsAreCancelPoints) {
  on_both_engines([] {
    Event event;
    CancelScope scope{Fiber::current().scope};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(static_cast<void>(event.wait_for(1h)), Cancelled);
        EXPECT_FALSE(event.wait_for(1h, no_throw));
      });
      let_others_block();
      scope.cancel();
    });
  });
}

TEST(Event, TimedWaitOfAThread) {
  Event event;
  EXPECT_FALSE(event.wait_for(1us));
  std::thread setter{[&] { event.set(); }};
  EXPECT_TRUE(event.wait_for(1h));
  setter.join();
}

TEST(Event, MayDieAsSoonAsAWaitHasReturned) {
  on_every_engine([] {
    for (int round = 0; round < 50; ++round) {
      auto event = std::make_unique<Event>();
      nursery([&](Nursery& n) {
        n.spawn([&] {
          event->wait();
          event.reset();
        });
        n.spawn([at = event.get()] { at->set(); });
      });
      EXPECT_EQ(event, nullptr);
    }
  });
}

TEST(Event, MayDieWhileAForeignSetIsStillReturning) {
  on_every_engine([] {
    if (io().kind() == "SimIo") return;  // where no thread may interfere
    for (int round = 0; round < 100; ++round) {
      std::optional<Event> event{std::in_place};
      std::thread setter{[at = &*event] { at->set(); }};
      event->wait();
      event.reset();
      setter.join();
    }
  });
}

TEST(Event, SetFromAThreadWakesFibersOfSeveralEngines) {
  Event event, ready;
  std::vector<std::thread> threads;
  std::vector<std::atomic<int>> woken(3);
  for (std::size_t i = 0; i < woken.size(); ++i)
    threads.emplace_back([&, i] {
      FiberIo io{{.workers = 2}};
      io.run([&] {
        nursery([&](Nursery& n) {
          for (int k = 0; k < 4; ++k)
            n.spawn([&, i] {
              event.wait();
              ++woken[i];
            });
        });
      });
    });
  event.set();
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& count : woken) EXPECT_EQ(count.load(), 4);
}

TEST(Event, ReasonNamesTheEventForReports) {
  Event plain;
  Event named{"inbox full"};
  Event owned{std::string{"number "} + "5"};
  EXPECT_EQ(plain.on_set().reason().verb, "event wait");
  EXPECT_EQ(plain.on_set().reason().name, "");
  EXPECT_EQ(named.on_set().reason().name, "inbox full");
  EXPECT_EQ(owned.on_set().reason().name, "number 5");
  EXPECT_EQ(named.on_set().reason().object, &named);
  EXPECT_FALSE(named.on_set().reason().is_join);
}

TEST(Event, PingPongOfTwoFibers) {
  on_every_engine([] {
    Event ping, pong;
    int rallies = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < 1'000; ++i) {
          ping.wait();
          ping.reset();
          pong.set();
        }
      });
      n.spawn([&] {
        for (int i = 0; i < 1'000; ++i) {
          ping.set();
          pong.wait();
          pong.reset();
          ++rallies;
        }
      });
    });
    EXPECT_EQ(rallies, 1'000);
  });
}

// Many are woken a few hundred at a time. Whoever waited when it was set goes on, also if it is
// reset in the middle of that.
TEST(Event, SetAndResetRaceOverManyWaiters) {
  static constexpr int kWaiters = 2000;
  // Each of the other workers may have one that has counted itself, and comes after the reset; of
  // four there may be eight, for a while.
  static constexpr int kLate = 7;
  on_workers({2U, 4U}, [] {
    for (int round = 0; round < 10; ++round) {
      Event event;
      std::atomic<int> waiting{0};
      std::atomic<int> woken{0};
      std::atomic<bool> setting{false};
      nursery([&](Nursery& n) {
        for (int i = 0; i < kWaiters; ++i)
          n.spawn([&] {
            ++waiting;
            event.wait();
            ++woken;
          });
        while (waiting != kWaiters) this_fiber::yield();
        std::thread setter{[&] {
          setting = true;
          event.set();
        }};
        while (!setting) std::this_thread::yield();
        while (!event.is_set()) std::this_thread::yield();
        event.reset();
        setter.join();
        EXPECT_FALSE(event.is_set());
        while (woken < kWaiters - kLate) this_fiber::yield();
        event.set();
      });
      EXPECT_EQ(woken.load(), kWaiters);
    }
  });
}

// The last of many destroys it, while set() has not returned.
TEST(Event, MayBeDestroyedByTheLastOfManyWaiters) {
  constexpr int kWaiters = 1000;
  on_workers({2U, 4U}, [] {
    for (int round = 0; round < 20; ++round) {
      auto event = std::make_unique<Event>();
      std::atomic<int> parked{0};
      std::atomic<int> left{kWaiters};
      nursery([&](Nursery& n) {
        for (int i = 0; i < kWaiters; ++i)
          n.spawn([&] {
            ++parked;
            event->wait();
            if (--left == 0) event.reset();
          });
        while (parked != kWaiters) this_fiber::yield();
        let_others_block();
        event->set();
      });
      EXPECT_EQ(event, nullptr);
    }
  });
}

}  // namespace
}  // namespace weft
