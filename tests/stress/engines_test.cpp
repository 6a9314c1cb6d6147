// Several engines at once, in several threads, with and without things in common.
#include <weft/engine.hpp>

#include <weft/core/error.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
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

// A tree of forks and joins with yields and sleeps in it; returns its number of leaves.
int tree(int depth, std::uint64_t seed) {
  if (depth == 0) {
    std::minstd_rand random{static_cast<std::uint32_t>(seed)};
    if (random() % 4 == 0) this_fiber::yield();
    if (random() % 16 == 0) sleep_for(Duration{random() % 10'000});
    return 1;
  }
  int left = 0;
  int right = 0;
  nursery([&, depth, seed](Nursery& n) {
    n.spawn([&, depth, seed] { left = tree(depth - 1, 2 * seed); });
    right = tree(depth - 1, 2 * seed + 1);
  });
  return left + right;
}

TEST_P(Stress, EnginesOfSeveralThreadsDoNotMix) {
  const int rounds = runs(20);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([=] {
      std::mt19937 random{t};
      for (int round = 0; round < rounds; ++round) {
        if (t % 2 == 0) {
          FiberIo io{{.workers = GetParam()}};
          EXPECT_EQ(io.run([&] { return tree(8, random()); }), 256);
        } else {
          SimIo io{{.seed = random()}};
          EXPECT_EQ(io.run([&] { return tree(8, random()); }), 256);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// A token goes round a ring of engines, one per thread; each has several fibers that pass it on.
TEST_P(Stress, ATokenGoesRoundARingOfEngines) {
  constexpr std::size_t kEngines = 3;
  const int rounds = scaled(3'000);
  std::array<Event, kEngines> turn;
  std::int64_t token = 0;  // plain: handed on by the events alone
  std::vector<std::thread> threads;
  for (std::size_t e = 0; e < kEngines; ++e)
    threads.emplace_back([&, e] {
      FiberIo io{{.workers = GetParam()}};
      io.run([&] {
        nursery([&](Nursery& n) {
          n.spawn([&] {  // company, so that the worker is sometimes busy
            for (int i = 0; i < rounds; ++i) this_fiber::yield();
          });
          for (int i = 0; i < rounds; ++i) {
            turn[e].wait();
            turn[e].reset();
            ++token;
            turn[(e + 1) % kEngines].set();
          }
        });
      });
    });
  turn[0].set();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(token, std::int64_t{rounds} * std::int64_t{kEngines});
}

TEST_P(Stress, OneEventWakesTheFibersOfManyEngines) {
  constexpr int kEngines = 3;
  constexpr int kFibers = 50;
  const int rounds = runs(100);
  for (int round = 0; round < rounds; ++round) {
    Event event;
    std::atomic<int> woken{0};
    std::vector<std::thread> threads;
    for (int e = 0; e < kEngines; ++e)
      threads.emplace_back([&] {
        FiberIo io{{.workers = GetParam()}};
        io.run([&] {
          nursery([&](Nursery& n) {
            for (int f = 0; f < kFibers; ++f)
              n.spawn([&] {
                event.wait();
                woken.fetch_add(1);
              });
          });
        });
      });
    for (int i = 0; i < round % 4; ++i) std::this_thread::yield();
    event.set();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(woken.load(), kEngines * kFibers);
  }
}

// A deadlock report looks at every frame there is, those of busy engines included.
TEST_P(Stress, DeadlockReportBesideABusyEngine) {
  const int reports = scaled(300);
  std::atomic<bool> stop{false};
  std::thread busy{[&] {
    FiberIo io{{.workers = GetParam()}};
    while (!stop.load())
      io.run([] {
        nursery([](Nursery& n) {
          for (int i = 0; i < 100; ++i) n.spawn("busy", [] { this_fiber::yield(); });
        });
      });
  }};
  std::thread churn{[&] {
    while (!stop.load())
      std::thread{[] {
        this_fiber::set_name(std::string{"a thread"});
        Event event;
        event.set();
        event.wait();
      }}.join();
  }};
  for (int i = 0; i < reports; ++i) {
    std::string text;
    try {
      SimIo{}.run([] {
        nursery({.name = "all"}, [](Nursery& n) {
          n.spawn("reader", [] { Event{"never"}.wait(); });
        });
      });
    } catch (const Deadlock& deadlock) {
      text = deadlock.what();
    }
    EXPECT_EQ(text.substr(0, text.rfind(':')),
              "deadlock: 2 fibers wait, and nobody is left to wake one\n"
              "  fiber #1 \"main\" on nursery join \"all\" for 0 s\n"
              "  fiber #2 \"reader\" on event wait \"never\" for 0 s, spawned at "
              "stress/engines_test.cpp");
  }
  stop.store(true);
  busy.join();
  churn.join();
}

TEST_P(Stress, AnEngineTravelsFromThreadToThread) {
  const int rounds = runs(300);
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> sum{0};
  for (int round = 0; round < rounds; ++round)
    std::thread{[&] {
      io.run([&] {
        nursery([&](Nursery& n) {
          for (int i = 0; i < 20; ++i)
            n.spawn([&, i] {
              if (i % 3 == 0) this_fiber::yield();
              if (i % 5 == 0) sleep_for(1us);
              ++sum;
            });
        });
      });
    }}.join();
  EXPECT_EQ(sum, 20 * rounds);
}

TEST_P(Stress, NestedEnginesInSeveralThreads) {
  const int rounds = runs(50);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 3; ++t)
    threads.emplace_back([=] {
      for (int round = 0; round < rounds; ++round) {
        FiberIo outer{{.workers = GetParam()}};
        const int leaves = outer.run([&] {
          std::atomic<int> total{0};
          nursery([&](Nursery& n) {
            for (std::uint32_t i = 0; i < 3; ++i)
              n.spawn([&, i] {
                std::mt19937 random{i + t};
                this_fiber::yield();
                total += FiberIo{{.workers = GetParam()}}.run([&] { return tree(4, random()); });
                this_fiber::yield();
                total += SimIo{{.seed = i}}.run([&] { return tree(4, random()); });
              });
          });
          return total.load();
        });
        EXPECT_EQ(leaves, 96);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
