// Many fibers on several workers: trees, events, cancellation, threads, timers, and all of it mixed
// by a seed. Bounded by counts, which shrink with the time scale; what is counted must be exact.
#include <weft/engine.hpp>

#include <weft/core/cancel_scope.hpp>
#include <weft/core/error.hpp>
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

class WorkersStress : public ::testing::TestWithParam<unsigned> {
 protected:
  [[nodiscard]] static Options options() { return {.workers = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Of, WorkersStress, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

void compute(unsigned spins) {
  for (unsigned i = 0; i < spins; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// ── trees ───────────────────────────────────────────────────────────────────────────────────────

std::int64_t leaves(int depth, unsigned width, unsigned work) {
  if (depth == 0) {
    compute(work);
    return 1;
  }
  std::vector<std::int64_t> below(width, 0);
  nursery([&](Nursery& n) {
    for (unsigned i = 0; i < width; ++i)
      n.spawn([&below, i, depth, width, work] { below[i] = leaves(depth - 1, width, work); });
  });
  std::int64_t sum = 0;
  for (const std::int64_t count : below) sum += count;
  return sum;
}

TEST_P(WorkersStress, BinaryTrees) {
  FiberIo io{options()};
  const int depth = ::weft::testing::time_scale() > 1 ? 10 : 15;
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(io.run([=] { return leaves(depth, 2, 0); }), std::int64_t{1} << depth);
}

TEST_P(WorkersStress, WideTreesWithWork) {
  FiberIo io{options()};
  const int depth = ::weft::testing::time_scale() > 1 ? 3 : 4;
  std::int64_t expected = 1;
  for (int i = 0; i < depth; ++i) expected *= 10;
  EXPECT_EQ(io.run([=] { return leaves(depth, 10, 1'000); }), expected);
}

TEST_P(WorkersStress, ChildrenSpawnSiblingsFromEveryWorker) {
  FiberIo io{options()};
  struct Crawl {
    static void go(Nursery& n, std::atomic<int>& ran, int more) {
      ran.fetch_add(1);
      if (more == 0) return;
      n.spawn([&n, &ran, more] { go(n, ran, more - 1); });
      if (more % 3 == 0) this_fiber::yield();
      n.spawn([&n, &ran, more] { go(n, ran, more - 1); });
    }
  };
  const int depth = ::weft::testing::time_scale() > 1 ? 10 : 14;
  std::atomic<int> ran{0};
  io.run([&] { nursery([&](Nursery& n) { Crawl::go(n, ran, depth); }); });
  EXPECT_EQ(ran.load(), (1 << (depth + 1)) - 1);
}

// ── events between workers ──────────────────────────────────────────────────────────────────────

TEST_P(WorkersStress, ManyPairsPlayPingPong) {
  FiberIo io{options()};
  constexpr int kPairs = 32;
  const int rallies = scaled(1'000);
  struct Pair {
    Event ping, pong;
    std::int64_t hits = 0;  // plain: handed back and forth by the events alone
  };
  std::vector<Pair> pairs(kPairs);
  io.run([&] {
    nursery([&](Nursery& n) {
      for (Pair& pair : pairs) {
        n.spawn([&pair, rallies] {
          for (int i = 0; i < rallies; ++i) {
            pair.ping.wait();
            pair.ping.reset();
            ++pair.hits;
            pair.pong.set();
          }
        });
        n.spawn([&pair, rallies] {
          for (int i = 0; i < rallies; ++i) {
            ++pair.hits;
            if (i % 16 == 0) compute(2'000);
            pair.ping.set();
            pair.pong.wait();
            pair.pong.reset();
          }
        });
      }
    });
  });
  for (const Pair& pair : pairs) EXPECT_EQ(pair.hits, 2 * rallies);
}

TEST_P(WorkersStress, ATokenGoesRoundARing) {
  FiberIo io{options()};
  constexpr std::size_t kFibers = 50;
  const int laps = scaled(200);
  std::array<Event, kFibers> turn;
  std::int64_t token = 0;  // plain
  io.run([&] {
    nursery([&](Nursery& n) {
      for (std::size_t f = 0; f < kFibers; ++f)
        n.spawn([&, f] {
          for (int i = 0; i < laps; ++i) {
            turn[f].wait();
            turn[f].reset();
            ++token;
            turn[(f + 1) % kFibers].set();
          }
        });
      turn[0].set();
    });
  });
  EXPECT_EQ(token, std::int64_t{laps} * std::int64_t{kFibers});
}

TEST_P(WorkersStress, OneSetWakesACrowdEverywhere) {
  FiberIo io{options()};
  constexpr int kCrowd = 500;
  io.run([&] {
    for (int round = 0; round < scaled(30); ++round) {
      Event start;
      std::atomic<int> woken{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < kCrowd; ++i)
          n.spawn([&] {
            start.wait();
            compute(200);
            woken.fetch_add(1);
          });
        for (int i = 0; i < round % 5; ++i) this_fiber::yield();
        start.set();
      });
      ASSERT_EQ(woken.load(), kCrowd);
    }
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

// Each child either ran to its end, or was unwound, or never began; its captures are gone.
TEST_P(WorkersStress, CancelWhileOthersSteal) {
  FiberIo io{options()};
  constexpr int kChildren = 200;
  io.run([&] {
    for (int round = 0; round < scaled(100); ++round) {
      const auto token = std::make_shared<int>(0);
      std::atomic<int> begun{0};
      std::atomic<int> ended{0};
      std::atomic<int> unwound{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < kChildren; ++i)
          n.spawn([&, i, token] {
            begun.fetch_add(1);
            try {
              if (i % 4 == 0) sleep_for(Duration{i * 100});
              if (i % 4 == 1) this_fiber::yield();
              if (i % 4 == 2) nursery([](Nursery& m) { m.spawn([] { this_fiber::yield(); }); });
              if (i % 4 == 3) compute(500);
              ended.fetch_add(1);
            } catch (const Cancelled&) {
              unwound.fetch_add(1);
              throw;
            }
          });
        for (int i = 0; i < round % 7; ++i) this_fiber::yield();
        n.cancel();
      });
      ASSERT_EQ(begun.load(), ended.load() + unwound.load());
      ASSERT_EQ(token.use_count(), 1);
    }
  });
}

TEST_P(WorkersStress, FailuresCancelTreesOnAllWorkers) {
  FiberIo io{options()};
  struct Failure {
    int number;
  };
  for (int round = 0; round < scaled(40); ++round) {
    std::atomic<int> live{0};
    struct Alive {
      explicit Alive(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
      ~Alive() { count_.fetch_sub(1); }
      std::atomic<int>& count_;
    };
    try {
      io.run([&] {
        nursery([&](Nursery& n) {
          for (int i = 0; i < 20; ++i)
            n.spawn([&, i] {
              const Alive alive{live};
              nursery([&, i](Nursery& m) {
                for (int k = 0; k < 10; ++k)
                  m.spawn([&, i, k] {
                    const Alive inner{live};
                    this_fiber::yield();
                    if (i == 13 && k == 7) throw Failure{round};
                    Event{}.wait();
                  });
              });
            });
        });
      });
      ADD_FAILURE() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.number, round);
    }
    ASSERT_EQ(live.load(), 0);
  }
}

// ── threads ─────────────────────────────────────────────────────────────────────────────────────

TEST_P(WorkersStress, ForeignWakersOfParkedFibers) {
  FiberIo io{options()};
  constexpr std::size_t kFibers = 64;
  constexpr std::size_t kThreads = 2;
  const int rounds = scaled(300);
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
            done[f].set();
          }
        });
    });
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken.load(), std::int64_t{rounds} * std::int64_t{kFibers});
}

// More wakes at once than an inbox is meant to hold: the rest goes through the injector.
TEST_P(WorkersStress, ABurstOfForeignWakes) {
  FiberIo io{options()};
  const int crowd = scaled(3'000);
  for (int round = 0; round < 5; ++round) {
    Event start, waiting;
    std::atomic<int> parked{0};
    std::atomic<int> woken{0};
    std::thread waker{[&] {
      waiting.wait();
      start.set();
    }};
    io.run([&] {
      nursery([&](Nursery& n) {
        for (int i = 0; i < crowd; ++i)
          n.spawn([&] {
            if (parked.fetch_add(1) + 1 == crowd) waiting.set();
            start.wait();
            woken.fetch_add(1);
          });
      });
    });
    waker.join();
    ASSERT_EQ(woken.load(), crowd);
  }
}

TEST_P(WorkersStress, ABurstOfPosts) {
  FiberIo io{options()};
  const int posts = scaled(20'000);  // several times the injector's ring
  std::atomic<int> ran{0};
  std::thread poster;
  io.run([&] {
    Event all_posted;
    poster = std::thread{[&] {
      for (int i = 0; i < posts; ++i) ASSERT_TRUE(io.post([&] { ran.fetch_add(1); }));
      all_posted.set();
    }};
    all_posted.wait();
  });
  poster.join();
  EXPECT_EQ(ran.load(), posts);
}

// ── timers ──────────────────────────────────────────────────────────────────────────────────────

TEST_P(WorkersStress, ManySleepersAndFibersThatCompute) {
  FiberIo io{options()};
  std::atomic<int> woken{0};
  const int sleepers = scaled(1'000);
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < sleepers; ++i)
        n.spawn([&, i] {
          for (int k = 0; k < 4; ++k) {
            const Instant due = Clock::now() + Duration{(i * 7'919 + k * 104'729) % 2'000'000};
            sleep_until(due);
            ASSERT_GE(Clock::now(), due);
            if (i % 10 == 0) compute(5'000);
          }
          woken.fetch_add(1);
        });
    });
  });
  EXPECT_EQ(woken.load(), sleepers);
}

// The alarm is often disarmed by another worker than the one that armed it, or just as it fires.
TEST_P(WorkersStress, AlarmsRaceEvents) {
  FiberIo io{options()};
  constexpr std::size_t kPairs = 20;
  const int rounds = scaled(200);
  std::atomic<std::int64_t> by_event{0};
  std::atomic<std::int64_t> by_alarm{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (std::size_t p = 0; p < kPairs; ++p)
        n.spawn([&, p] {
          std::minstd_rand random{static_cast<std::uint32_t>(p + 1)};
          for (int i = 0; i < rounds; ++i) {
            Event event;
            nursery([&](Nursery& m) {
              const auto spins = static_cast<unsigned>(random() % 2'000);
              m.spawn([&event, spins] {
                compute(spins);
                event.set();
              });
              auto set = event.on_set();
              Alarm alarm{Clock::now() + Duration{random() % 5'000}};
              Waitable* const arms[] = {&set, &alarm};
              (wait(std::span<Waitable* const>{arms}) == 0 ? by_event : by_alarm).fetch_add(1);
            });
          }
        });
    });
  });
  EXPECT_EQ(by_event.load() + by_alarm.load(), std::int64_t{rounds} * std::int64_t{kPairs});
}

// ── all of it ───────────────────────────────────────────────────────────────────────────────────

class Mix {
 public:
  explicit Mix(std::uint32_t seed) : seed_(seed) {}

  // Returns when everything that was begun has ended.
  void run() {
    nursery([&](Nursery& n) {
      for (std::uint32_t i = 0; i < 16; ++i) spawn(n, seed_ * 16 + i, 3);
    });
    EXPECT_EQ(begun_.load(), ended_.load());
    EXPECT_EQ(token_.use_count(), 1);
  }

 private:
  void spawn(Nursery& n, std::uint32_t seed, int depth) {
    n.spawn([this, &n, seed, depth, token = token_] {
      begun_.fetch_add(1);
      struct End {
        std::atomic<int>& count;
        ~End() { count.fetch_add(1); }
      } end{ended_};
      std::minstd_rand random{seed + 1};
      for (int step = 0; step < 12; ++step) act(n, random, depth);
    });
  }

  void act(Nursery& n, std::minstd_rand& random, int depth) {
    Event& event = events_[random() % events_.size()];
    switch (random() % 8) {
      case 0: return this_fiber::yield();
      case 1: return compute(static_cast<unsigned>(random() % 3'000));
      case 2: return event.set();
      case 3: return event.reset();
      case 4: return sleep_for(Duration{random() % 50'000});
      case 5: {
        auto set = event.on_set();
        Alarm alarm{Clock::now() + Duration{random() % 100'000}};
        Waitable* const arms[] = {&set, &alarm};
        EXPECT_LT(wait(std::span<Waitable* const>{arms}), 2U);
        return;
      }
      case 6:
        try {
          if (depth > 0) spawn(n, static_cast<std::uint32_t>(random()), depth - 1);
        } catch (const NurseryClosed&) {
          // Cancelled meanwhile, and we have not come to a wait yet.
        }
        return;
      default:
        if (depth > 0)
          nursery([&](Nursery& inner) {
            for (int i = 0; i < 3; ++i)
              spawn(inner, static_cast<std::uint32_t>(random()), depth - 1);
            if (random() % 4 == 0) inner.cancel();
          });
    }
  }

  const std::uint32_t seed_;
  std::array<Event, 4> events_;
  std::shared_ptr<int> token_ = std::make_shared<int>(0);
  std::atomic<int> begun_{0};
  std::atomic<int> ended_{0};
};

TEST_P(WorkersStress, RandomMixes) {
  FiberIo io{options()};
  for (int seed = 0; seed < scaled(25); ++seed) {
    SCOPED_TRACE(seed);
    Mix mix{static_cast<std::uint32_t>(seed)};
    io.run([&] { mix.run(); });
  }
}

}  // namespace
}  // namespace weft
