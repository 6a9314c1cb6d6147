// Temporary workers come and go by the hundred while fibers block, compute, sleep, are pinned, and
// are woken by threads. Bounded by counts, which shrink with the time scale; what is counted must
// be exact.
#include <weft/engine.hpp>

#include <weft/blocking.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::scaled;

struct Size {
  unsigned workers, max_workers;
};

class ElasticStress : public ::testing::TestWithParam<Size> {
 protected:
  // Hired as soon as somebody is stuck, gone as soon as there is nothing to do.
  [[nodiscard]] static Options options(Duration temp_idle_timeout = 20us) {
    return {.workers = GetParam().workers,
            .max_workers = GetParam().max_workers,
            .scale_interval = 0s,
            .temp_idle_timeout = temp_idle_timeout};
  }
};
INSTANTIATE_TEST_SUITE_P(Of, ElasticStress,
                         ::testing::Values(Size{1, 3}, Size{2, 4}, Size{4, 8}),
                         [](const auto& test) {
                           return std::to_string(test.param.workers) + "to" +
                                  std::to_string(test.param.max_workers);
                         });

// The thread that runs this line. Not pthread_self(): compilers may remember what that returned.
[[gnu::noinline]] pid_t thread_here() { return ::gettid(); }

void compute(unsigned spins) {
  for (unsigned i = 0; i < spins; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Blocks the worker, having said so: what waits behind us calls for another one.
void block_briefly() {
  const blocking_hint hint;
  ::usleep(50);
}

void expect_all_gone(const FiberIo& io) {
  const Statistics all = io.statistics();
  EXPECT_EQ(all.promotions, all.retirements) << to_string(all);
  EXPECT_EQ(all.workers, io.options().workers) << to_string(all);
}

// Every wake from outside finds its fiber, whose last worker may be going, gone, or back again.
TEST_P(ElasticStress, FibersAreSentToWorkersThatRetire) {
  FiberIo io{options()};
  constexpr std::size_t kFibers = 24;
  constexpr std::size_t kThreads = 2;
  const int rounds = scaled(1'200);
  std::array<Event, kFibers> go, done;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        for (std::size_t f = t; f < kFibers; f += kThreads) go[f].set();
        for (std::size_t f = t; f < kFibers; f += kThreads) {
          done[f].wait();
          done[f].reset();
        }
      }
    });
  std::atomic<std::int64_t> woken{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (std::size_t f = 0; f < kFibers; ++f)
        n.spawn([&, f] {
          for (int i = 0; i < rounds; ++i) {
            go[f].wait();
            go[f].reset();
            woken.fetch_add(1);
            const auto what = (f + static_cast<std::size_t>(i)) % 12;
            if (what == 0) block_briefly();
            if (what == 1) compute(5'000);
            if (what == 2) this_fiber::yield();
            if (what == 3) sleep_for(20us);
            done[f].set();
          }
        });
    });
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken.load(), std::int64_t{rounds} * std::int64_t{kFibers});
  expect_all_gone(io);
  if (rounds < 100) return;  // in so short a time perhaps nobody was needed
  EXPECT_GT(io.statistics().promotions, 0U) << to_string(io.statistics());
}

// Spawned, posted, woken and timed while workers are blocked one after the other.
TEST_P(ElasticStress, EveryFiberRunsOnce) {
  FiberIo io{options()};
  const int rounds = scaled(1'000);
  constexpr int kChildren = 12;
  std::atomic<int> ran{0};
  std::atomic<int> posted{0};
  std::atomic<int> accepted{0};
  std::atomic<bool> over{false};
  std::thread poster{[&] {
    while (!over.load()) {
      if (io.post([&] {
            posted.fetch_add(1);
            block_briefly();
          }))
        accepted.fetch_add(1);
      // Stops everybody meanwhile, if it can; nobody may come, and who goes is not waited for.
      io.inspect([](const EngineSight&, void*) {}, nullptr, 1s);
      std::this_thread::sleep_for(200us);
    }
  }};
  io.run([&] {
    for (int round = 0; round < rounds; ++round)
      nursery([&](Nursery& n) {
        for (int i = 0; i < kChildren; ++i)
          n.spawn([&, i] {
            if (i % 4 == 0) block_briefly();
            if (i % 4 == 1) this_fiber::yield();
            if (i % 4 == 2) sleep_for(Duration{1'000 * i});
            if (i % 4 == 3) nursery([&](Nursery& m) { m.spawn([] { compute(2'000); }); });
            ran.fetch_add(1);
          });
      });
  });
  over.store(true);
  poster.join();
  EXPECT_EQ(ran.load(), rounds * kChildren);
  EXPECT_EQ(posted.load(), accepted.load());
  expect_all_gone(io);
  if (rounds < 100) return;  // in so short a time perhaps nobody was needed
  EXPECT_GT(io.statistics().promotions, 0U) << to_string(io.statistics());
}

// The watcher starts their threads, and blocks signals; they do not.
TEST(ElasticSignals, AreNotBlockedOnTemporaryWorkers) {
  FiberIo io{{.workers = 1, .max_workers = 2, .scale_interval = 0s}};
  std::atomic<int> blocked{-1};
  io.run([&] {
    const pid_t usual = thread_here();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        if (thread_here() == usual) return;  // cannot be: that one is blocked till we have run
        sigset_t mask;
        ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        int count = 0;
        for (const int signal : {SIGSEGV, SIGTERM, SIGINT, SIGUSR1, SIGPROF})
          count += ::sigismember(&mask, signal);
        blocked.store(count);
      });
      const blocking_hint hint;
      while (blocked.load() < 0) ::usleep(100);
    });
  });
  EXPECT_EQ(blocked.load(), 0);
}

// Who is pinned to a temporary worker keeps it; who is not may be anywhere.
TEST_P(ElasticStress, PinnedFibersStayOnWorkersThatWouldGo) {
  FiberIo io{options()};
  const int runs = scaled(60);
  std::atomic<int> moved{0};
  std::atomic<int> ran{0};
  for (int run = 0; run < runs; ++run)
    io.run([&] {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 8; ++i)
          n.spawn([&, i] {
            if (i % 2 == 0) block_briefly();
            const auto how = i % 4 < 2 ? Migration::pinned : Migration::until_started;
            nursery({.migration = how}, [&](Nursery& pinned) {
              for (int k = 0; k < 2; ++k)
                pinned.spawn([&] {
                  const pid_t home = thread_here();
                  for (int turn = 0; turn < 4; ++turn) {
                    if (turn % 2 == 0) this_fiber::yield();
                    else sleep_for(30us);
                    moved += thread_here() != home;
                  }
                  ran.fetch_add(1);
                });
              this_fiber::yield();
            });
          });
      });
    });
  EXPECT_EQ(moved.load(), 0);
  EXPECT_EQ(ran.load(), runs * 16);
  expect_all_gone(io);
}

// A newcomer may still be on its way in, or about to sleep for an hour, when everything ends.
TEST_P(ElasticStress, NewcomersAreSentHome) {
  FiberIo io{options(1h)};
  const int runs = scaled(300);
  std::atomic<int> ran{0};
  for (int run = 0; run < runs; ++run)
    io.run([&] {
      nursery([&](Nursery& n) {
        for (unsigned i = 0; i < 2 * GetParam().max_workers; ++i)
          n.spawn([&] {
            block_briefly();
            ran.fetch_add(1);
          });
      });
    });
  EXPECT_EQ(ran.load(), runs * 2 * static_cast<int>(GetParam().max_workers));
  expect_all_gone(io);
}

// Timers fired by the watcher, and workers that come and go, are no deadlock; waiting for nobody
// is one, whoever came and went before.
TEST_P(ElasticStress, DeadlocksAreTrue) {
  Options raising = options();
  raising.on_deadlock = OnDeadlock::raise;
  FiberIo io{raising};
  const int rounds = scaled(12);
  std::atomic<int> woken{0};
  for (int round = 0; round < rounds; ++round)
    io.run([&] {
      Event late;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          late.wait();
          woken.fetch_add(1);
        });
        n.spawn([&] {
          sleep_for(2ms);
          late.set();
        });
        for (unsigned i = 0; i < GetParam().workers; ++i) n.spawn([] { ::usleep(9'000); });
      });
    });
  EXPECT_EQ(woken.load(), rounds);
  EXPECT_THROW(io.run([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 8; ++i) n.spawn([] { block_briefly(); });
    });
    Event{}.wait();
  }), Deadlock);
  expect_all_gone(io);
}

}  // namespace
}  // namespace weft
