// Children that stay where they are: Migration::until_started and Migration::pinned.
#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;

int scaled(int count) {
  return std::max(1, static_cast<int>(count / ::weft::testing::time_scale()));
}

// The thread that runs this line. Not pthread_self(): compilers may remember what that returned.
[[gnu::noinline]] pid_t thread_here() { return ::gettid(); }

class Pinning : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, Pinning, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

// Waits of every kind, and the thread is the same after each.
void wait_in_many_ways(Event& shared, std::atomic<int>& moved) {
  const pid_t home = thread_here();
  const auto check = [&] { moved += thread_here() != home; };
  this_fiber::yield();
  check();
  shared.wait();  // set by anybody
  check();
  sleep_for(100us);
  check();
  nursery([&](Nursery& n) {  // children that are free, and may be anywhere
    for (int i = 0; i < 4; ++i)
      n.spawn([] {
        this_fiber::yield();
        sleep_for(10us);
      });
  });
  check();
  static_cast<void>(timeout(50us, [&] {
    Event never;
    never.wait();
  }));
  check();
  for (int i = 0; i < 20; ++i) {
    this_fiber::yield();
    check();
  }
}

TEST_P(Pinning, PinnedChildrenStayWhereTheyWereSpawned) {
  FiberIo{{.workers = GetParam()}}.run([] {
    std::atomic<int> moved{0}, ended{0};
    Event go;
    const int count = scaled(200);
    // Free fibers all over the place, each with pinned children of its own.
    nursery([&](Nursery& outer) {
      for (int f = 0; f < 4; ++f) {
        outer.spawn([&] {
          nursery({.name = "pinned", .migration = Migration::pinned}, [&](Nursery& n) {
            for (int i = 0; i < count; ++i) {
              const pid_t spawned_on = thread_here();
              n.spawn([&, spawned_on] {
                moved += thread_here() != spawned_on;
                wait_in_many_ways(go, moved);
                ++ended;
              });
            }
          });
        });
      }
      outer.spawn([&] {
        sleep_for(1ms);
        go.set();
      });
    });
    EXPECT_EQ(moved, 0);
    EXPECT_EQ(ended, 4 * count);
  });
}

TEST_P(Pinning, UntilStartedStaysWhereItRanFirst) {
  FiberIo{{.workers = GetParam()}}.run([] {
    std::atomic<int> moved{0}, ended{0};
    Event go;
    const int count = scaled(500);
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        nursery({.name = "settled", .migration = Migration::until_started}, [&](Nursery& n) {
          for (int i = 0; i < count; ++i)
            n.spawn([&] {
              wait_in_many_ways(go, moved);
              ++ended;
            });
        });
      });
      outer.spawn([&] {
        sleep_for(1ms);
        go.set();
      });
    });
    EXPECT_EQ(moved, 0);
    EXPECT_EQ(ended, count);
  });
}

// Work that computes is shared out before it starts, and not after.
TEST(Pinning, UntilStartedChildrenSpreadOverTheWorkers) {
  FiberIo{{.workers = 2}}.run([] {
    std::atomic<int> elsewhere{0};
    const pid_t here = thread_here();
    while (elsewhere == 0) {
      nursery({.name = "settled", .migration = Migration::until_started}, [&](Nursery& n) {
        for (int i = 0; i < 64; ++i)
          n.spawn([&] {
            const pid_t first = thread_here();
            for (int spins = 0; spins < 20'000; ++spins)
              std::atomic_signal_fence(std::memory_order_seq_cst);
            this_fiber::yield();
            EXPECT_EQ(thread_here(), first);
            elsewhere += first != here;
          });
      });
    }
  });
}

TEST_P(Pinning, WakesFromForeignThreadsComeHome) {
  FiberIo{{.workers = GetParam()}}.run([] {
    std::vector<std::unique_ptr<Event>> events;
    const int count = scaled(300);
    for (int i = 0; i < count; ++i) events.push_back(std::make_unique<Event>());
    std::atomic<int> moved{0}, parked{0};
    std::thread waker;
    nursery({.name = "pinned", .migration = Migration::pinned}, [&](Nursery& n) {
      for (int i = 0; i < count; ++i)
        n.spawn([&, i] {
          const pid_t home = thread_here();
          ++parked;
          events[static_cast<std::size_t>(i)]->wait();
          moved += thread_here() != home;
        });
      waker = std::thread{[&] {
        while (parked < count) std::this_thread::yield();
        for (auto& event : events) event->set();
      }};
    });
    waker.join();
    EXPECT_EQ(moved, 0);
  });
}

// Spawned by a thread that is no worker: where it ran first, it stays.
TEST_P(Pinning, SpawnedByAThread) {
  FiberIo io{{.workers = GetParam()}};
  io.run([] {
    std::atomic<int> moved{0}, ended{0};
    Event go;
    go.set();
    nursery({.name = "pinned", .migration = Migration::pinned}, [&](Nursery& n) {
      Event spawned;
      std::thread spawner{[&] {
        for (int i = 0; i < 20; ++i)
          n.spawn([&] {
            wait_in_many_ways(go, moved);
            ++ended;
          });
        spawned.set();
      }};
      spawned.wait();
      spawner.join();
    });
    EXPECT_EQ(moved, 0);
    EXPECT_EQ(ended, 20);
  });
}

// A pinned fiber that joins does not call its children in place: they could take its stack along.
TEST_P(Pinning, JoinsOfChildrenThatWander) {
  FiberIo{{.workers = GetParam()}}.run([] {
    std::atomic<int> moved{0};
    nursery({.name = "pinned", .migration = Migration::pinned}, [&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn([&] {
          const pid_t home = thread_here();
          for (int round = 0; round < scaled(50); ++round) {
            nursery([&](Nursery& inner) {
              for (int child = 0; child < 3; ++child)
                inner.spawn([] {
                  for (int turn = 0; turn < 3; ++turn) this_fiber::yield();
                });
            });
            moved += thread_here() != home;
          }
        });
    });
    EXPECT_EQ(moved, 0);
  });
}

// Pinned fibers that yield for ever starve nobody, and are starved by nobody.
TEST(Pinning, TakesTurnsWithTheOthers) {
  FiberIo{{.workers = 1}}.run([] {
    int pinned_turns = 0, free_turns = 0;
    bool stop = false;
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        nursery({.name = "pinned", .migration = Migration::pinned}, [&](Nursery& n) {
          for (int i = 0; i < 5; ++i)
            n.spawn([&] {
              while (!stop) {
                ++pinned_turns;
                this_fiber::yield();
              }
            });
        });
      });
      outer.spawn([&] {
        for (int i = 0; i < 1'000; ++i) {
          ++free_turns;
          this_fiber::yield();
        }
        stop = true;
      });
    });
    EXPECT_EQ(free_turns, 1'000);
    EXPECT_GT(pinned_turns, 500);
    EXPECT_LT(pinned_turns, 20'000);
  });
}

TEST_P(Pinning, CancelledAndFailingChildrenEndAtHome) {
  FiberIo{{.workers = GetParam()}}.run([] {
    std::atomic<int> moved{0}, unwound{0};
    const auto body = [&](Nursery& n) {
      for (int i = 0; i < 50; ++i)
        n.spawn([&] {
          struct Unwound {
            std::atomic<int>&moved, &unwound;
            pid_t home = thread_here();
            ~Unwound() {
              moved += thread_here() != home;
              ++unwound;
            }
          } guard{moved, unwound};
          Event never;
          never.wait();
        });
      n.spawn([] {
        this_fiber::yield();
        throw std::runtime_error{"enough"};
      });
    };
    EXPECT_THROW(nursery({.name = "pinned", .migration = Migration::pinned}, body),
                 std::runtime_error);
    EXPECT_EQ(moved, 0);
    EXPECT_LE(unwound, 50) << "those that had not started never ran";
  });
}

TEST(Pinning, MeansNothingInTheSimulator) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    SimIo{{.seed = seed}}.run([] {
      std::atomic<int> ended{0};
      for (const Migration policy : {Migration::pinned, Migration::until_started})
        nursery({.name = "any", .migration = policy}, [&](Nursery& n) {
          for (int i = 0; i < 10; ++i)
            n.spawn([&] {
              sleep_for(1ms);
              ++ended;
            });
          EXPECT_TRUE(n.try_spawn([&] { ++ended; }));
        });
      EXPECT_EQ(ended, 22);
    });
}

}  // namespace
}  // namespace weft
