// Foreign threads against a running engine: wakes, posts, cancellations. Each test is bounded by
// counts, which shrink with the time scale that sanitizer builds set.
#include <weft/engine.hpp>

#include <weft/core/cancel_scope.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::scaled;

// Each with several numbers of workers; what is counted is counted by fibers on any of them.
class Stress : public ::testing::TestWithParam<unsigned> {
 protected:
  // Runs of an engine cost a thread per worker.
  static int runs(int count) { return scaled(std::max(1, count / static_cast<int>(GetParam()))); }
};
INSTANTIATE_TEST_SUITE_P(Workers, Stress, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

TEST_P(Stress, ForeignThreadsSetEventsThatFibersWaitFor) {
  constexpr int kFibers = 20;
  constexpr int kThreads = 3;
  const int rounds = scaled(2'000);
  std::array<Event, 4> events;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random{std::uint32_t(t)};
      while (!stop.load(std::memory_order_relaxed)) {
        Event& event = events[random() % events.size()];
        event.set();
        if (random() % 2 == 0) event.reset();
      }
    });
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> done{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int f = 0; f < kFibers; ++f)
        n.spawn([&, f] {
          std::mt19937 random{std::uint32_t(f + 100)};
          for (int i = 0; i < rounds; ++i) {
            auto a = events[random() % events.size()].on_set();
            auto b = events[random() % events.size()].on_set();
            Alarm soon{Clock::now() + Duration{random() % 20'000}};
            Waitable* const arms[] = {&a, &b, &soon};
            ASSERT_LT(wait(std::span<Waitable* const>{arms}, random() % 3), 3U);
            if (i % 64 == 0) events[random() % events.size()].reset();
          }
          ++done;
        });
    });
  });
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kFibers);
}

// Strict alternation: a wake that is lost stops the test, one too many breaks the count.
TEST_P(Stress, PingPongBetweenAFiberAndAThread) {
  const int rounds = scaled(20'000);
  Event ping, pong;
  std::int64_t counter = 0;  // plain: handed back and forth by the events alone
  std::thread thread{[&] {
    for (int i = 0; i < rounds; ++i) {
      ping.wait();
      ping.reset();
      ++counter;
      pong.set();
    }
  }};
  FiberIo io{{.workers = GetParam()}};
  io.run([&] {
    for (int i = 0; i < rounds; ++i) {
      ++counter;
      ping.set();
      pong.wait();
      pong.reset();
    }
  });
  thread.join();
  EXPECT_EQ(counter, 2 * std::int64_t{rounds});
}

TEST_P(Stress, PostsFromManyThreadsAllRunOnce) {
  constexpr int kThreads = 3;
  const int posts = scaled(20'000);
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> ran{0};
  std::atomic<int> posting{kThreads};
  std::vector<std::thread> threads;
  io.run([&] {
    Event all_posted;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < posts; ++i) {
          ASSERT_TRUE(io.post([&ran, i] {
            if (i % 8 == 0) this_fiber::yield();
            ++ran;
          }));
        }
        if (posting.fetch_sub(1) == 1) all_posted.set();
      });
    all_posted.wait();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, kThreads * posts);
}

TEST_P(Stress, PostsRaceTheEndOfShortRuns) {
  const int count = runs(1'000);
  FiberIo io{{.workers = GetParam()}};
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> accepted{0};
  std::atomic<std::int64_t> ran{0};
  std::atomic<int> captures{0};
  struct Capture {
    explicit Capture(std::atomic<int>& count_in) : count(&count_in) { count->fetch_add(1); }
    Capture(Capture&& other) noexcept : count(other.count) { count->fetch_add(1); }
    ~Capture() { count->fetch_sub(1); }
    std::atomic<int>* count;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (!stop.load()) {
        const std::int64_t before = ran.load();
        if (!io.post([&, capture = Capture{captures}] { ran.fetch_add(1); })) continue;
        accepted.fetch_add(1);
        // Not before somebody's has run: whoever always posts another keeps run() from ending.
        while (ran.load() == before) std::this_thread::yield();
      }
    });
  for (int i = 0; i < count; ++i) io.run([] { this_fiber::yield(); });
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accepted.load(), ran.load());
  EXPECT_EQ(captures.load(), 0);
}

// The poster is the last to leave, without anything to run, just as the worker goes to sleep.
TEST_P(Stress, PostsThatThrowRaceTheEndOfRun) {
  const int rounds = runs(20'000);
  struct Throws {
    explicit Throws(std::atomic<bool>& admitted_in) : admitted(&admitted_in) {}
    Throws(Throws&& other) : admitted(other.admitted) {
      admitted->store(true);
      throw 1;
    }
    void operator()() const {}
    std::atomic<bool>* admitted;
  };
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> round{0};
  std::atomic<bool> admitted{false};
  std::thread poster{[&] {
    for (int mine = 1; mine <= rounds; ++mine) {
      while (round.load() < mine) std::this_thread::yield();
      EXPECT_THROW(io.post(Throws{admitted}), int);
    }
  }};
  std::mt19937 random{1};
  for (int now = 1; now <= rounds; ++now) {
    admitted.store(false);
    const auto spins = random() % 6'000;  // about as long as a throw takes
    io.run([&] {
      round.store(now);
      while (!admitted.load()) std::this_thread::yield();
      for (auto i = spins; i > 0; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
    });
  }
  poster.join();
}

TEST_P(Stress, ForeignThreadsSpawnIntoANursery) {
  constexpr int kThreads = 3;
  const int spawns = scaled(10'000);
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> ran{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      std::atomic<int> spawning{kThreads};
      Event all_spawned;
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&] {
          for (int i = 0; i < spawns; ++i) n.spawn([&ran] { ++ran; });
          if (spawning.fetch_sub(1) == 1) all_spawned.set();
        });
      all_spawned.wait();
      for (std::thread& thread : threads) thread.join();
    });
  });
  EXPECT_EQ(ran, kThreads * spawns);
}

// A scope is cancelled by another thread at any moment of its fibers' lives.
TEST_P(Stress, ForeignCancelRacesParksAndScopes) {
  const int rounds = scaled(300);
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> cancelled{0};
  io.run([&] {
    for (int round = 0; round < rounds; ++round) {
      CancelScope scope{Fiber::current().scope};
      Event started;
      std::thread canceller{[&, round] {
        started.wait();
        for (int i = 0; i < round % 4; ++i) std::this_thread::yield();
        scope.cancel();
      }};
      nursery([&](Nursery& n) {
        for (int f = 0; f < 3; ++f)
          n.spawn([&, f] {
            const Entered entered{Fiber::current(), scope};
            try {
              started.set();
              for (;;) {
                CancelScope inner{&scope, f == 2 ? Shield::present : Shield::absent};
                const Entered deeper{Fiber::current(), inner};
                if (f == 0) this_fiber::yield();
                else sleep_for(Duration{1'000});
                if (f == 2) {
                  EXPECT_FALSE(inner.cancelled());
                  if (scope.cancelled()) return;
                }
              }
            } catch (const Cancelled&) {
              ++cancelled;
            }
          });
      });
      canceller.join();
    }
  });
  EXPECT_EQ(cancelled, 2 * rounds);
}

TEST_P(Stress, EnginesComeAndGoWhileTheirWakersAreStillInside) {
  const int rounds = runs(1'000);
  for (int round = 0; round < rounds; ++round) {
    auto event = std::make_unique<Event>();
    std::thread waker;
    {
      FiberIo io{{.workers = GetParam()}};
      io.run([&] {
        waker = std::thread{[at = event.get()] { at->set(); }};
        event->wait();
        event.reset();
      });
    }
    waker.join();
  }
}

TEST_P(Stress, ShortLivedThreadsWaitForAFiber) {
  const int rounds = scaled(1'000);
  FiberIo io{{.workers = GetParam()}};
  io.run([&] {
    for (int round = 0; round < rounds; ++round) {
      Event to_thread, to_fiber;
      std::thread thread{[&] {
        to_thread.wait();
        to_fiber.set();
      }};
      to_thread.set();
      to_fiber.wait();
      thread.join();
    }
  });
}

}  // namespace
}  // namespace weft
