// Counts every allocation of the program, to show where there are none. A program of its own,
// because it replaces operator new.
#include <weft/arch/sanitizer.hpp>
#include <weft/channel.hpp>
#include <weft/core/error.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include <support/frames.hpp>
#include <support/replaced_new.hpp>

namespace weft {
namespace {

using testing::allocations;
using testing::frames_in_use;
using testing::refuse_all;

using namespace std::chrono_literals;

constexpr int kRounds = 10'000;

// Each worker warms up by itself, and which one does what is chance; and threads cost allocations.
constexpr Options kOneWorker{.workers = 1};

// Runs `f` once to warm everything up, and returns how often its second run allocated.
template <class F>
std::uint64_t allocations_when_warm(F f) {
  f();
  const std::uint64_t before = allocations.load();
  f();
  return allocations.load() - before;
}

class NoMemory {
 public:
  NoMemory() { refuse_all.store(true); }
  ~NoMemory() { refuse_all.store(false); }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

class Allocation : public ::testing::Test {
 protected:
  void SetUp() override {
    if constexpr (arch::kTsan) GTEST_SKIP() << "ThreadSanitizer's operator new is not replaceable";
  }
};

TEST_F(Allocation, TheCounterCounts) {
  const std::uint64_t before = allocations.load();
  const auto box = std::make_unique<std::array<char, 64>>();
  EXPECT_EQ(allocations.load() - before, 1U);
}

TEST_F(Allocation, SpawnAndJoinAllocateNothing) {
  FiberIo io{kOneWorker};
  io.run([] {
    int ran = 0;
    EXPECT_EQ(allocations_when_warm([&] {
                for (int i = 0; i < kRounds; ++i)
                  nursery([&](Nursery& n) { n.spawn([&] { ++ran; }); });
              }),
              0U);
    EXPECT_EQ(ran, 2 * kRounds);
  });
}

TEST_F(Allocation, ChildrenThatLiveBesideEachOtherAllocateNothing) {
  FiberIo io{kOneWorker};
  io.run([] {
    int ran = 0;
    EXPECT_EQ(allocations_when_warm([&] {
                nursery([&](Nursery& n) {
                  for (int i = 0; i < 1'000; ++i) {
                    n.spawn([&] {
                      this_fiber::yield();
                      ++ran;
                    });
                  }
                });
              }),
              0U);
    EXPECT_EQ(ran, 2'000);
  });
}

TEST_F(Allocation, LargeFramesAndLiteralNamesAllocateNothing) {
  FiberIo io{kOneWorker};
  io.run([] {
    int sum = 0;
    EXPECT_EQ(allocations_when_warm([&] {
                for (int i = 0; i < kRounds; ++i)
                  nursery({.name = "nursery"}, [&](Nursery& n) {
                    n.spawn("child", [&sum, pad = std::array<char, 144>{}] { sum += 1 + pad[0]; });
                  });
              }),
              0U);
    EXPECT_EQ(sum, 2 * kRounds);
  });
}

TEST_F(Allocation, LargerCapturesCostOneBox) {
  FiberIo io{kOneWorker};
  io.run([] {
    int sum = 0;
    EXPECT_EQ(allocations_when_warm([&] {
                for (int i = 0; i < 100; ++i)
                  nursery([&](Nursery& n) {
                    n.spawn([&sum, pad = std::array<char, 161>{}] { sum += 1 + pad[0]; });
                  });
              }),
              100U);
    EXPECT_EQ(sum, 200);
  });
}

TEST_F(Allocation, OwnedNamesCostOneCopy) {
  FiberIo io{kOneWorker};
  io.run([] {
    const std::string name(100, 'n');
    EXPECT_EQ(allocations_when_warm([&] {
                for (int i = 0; i < 100; ++i)
                  nursery([&](Nursery& n) { n.spawn(name, [] {}); });
              }),
              100U);
  });
}

TEST_F(Allocation, ParksAndWakesAllocateNothing) {
  FiberIo io{kOneWorker};
  io.run([] {
    EXPECT_EQ(allocations_when_warm([] {
                Event ping, pong;
                nursery([&](Nursery& n) {
                  n.spawn([&] {
                    for (int i = 0; i < kRounds; ++i) {
                      ping.wait();
                      ping.reset();
                      pong.set();
                    }
                  });
                  for (int i = 0; i < kRounds; ++i) {
                    ping.set();
                    pong.wait();
                    pong.reset();
                  }
                });
              }),
              0U);
  });
}

TEST_F(Allocation, YieldsTimersAndSeveralArmsAllocateNothing) {
  FiberIo io{kOneWorker};
  io.run([] {
    EXPECT_EQ(allocations_when_warm([] {
                Event never;
                nursery([&](Nursery& n) {
                  for (int i = 0; i < 10; ++i)
                    n.spawn([&] {
                      for (int k = 0; k < 100; ++k) {
                        this_fiber::yield();
                        auto on_set = never.on_set();
                        Alarm soon{Clock::now() + 1us};
                        Waitable* const arms[] = {&on_set, &soon};
                        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 1U);
                      }
                    });
                });
              }),
              0U);
  });
}

TEST_F(Allocation, NestedNurseriesAllocateNothing) {
  FiberIo io{kOneWorker};
  io.run([] {
    struct Tree {
      static int count(int depth) {
        if (depth == 0) return 1;
        int left = 0;
        int right = 0;
        nursery([&](Nursery& n) {
          n.spawn([&] { left = count(depth - 1); });
          n.spawn([&] { right = count(depth - 1); });
        });
        return left + right;
      }
    };
    EXPECT_EQ(allocations_when_warm([] { EXPECT_EQ(Tree::count(10), 1'024); }), 0U);
  });
}

TEST_F(Allocation, SendsAndReceivesAllocateNothing) {
  FiberIo io{kOneWorker};
  io.run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{8}, SIZE_MAX}) {
      Channel<int> ch{capacity};
      EXPECT_EQ(allocations_when_warm([&] {
                  nursery([&](Nursery& n) {
                    n.spawn([&] {
                      for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(ch.tx.send(i));
                    });
                    for (int i = 0; i < kRounds; ++i) ASSERT_EQ(ch.rx.recv(), i);
                  });
                }),
                0U)
          << capacity;
    }
  });
}

TEST_F(Allocation, PostFromAWarmThreadAllocatesNothing) {
  FiberIo io{kOneWorker};
  std::uint64_t counted = 1;
  io.run([&] {
    Event done;
    int ran = 0;
    std::thread poster{[&] {
      const auto batch = [&] {
        for (int i = 0; i < 100; ++i)
          EXPECT_TRUE(io.post([&] {
            if (++ran % 100 == 0) done.set();
          }));
        done.wait();
        done.reset();
      };
      batch();
      counted = allocations_when_warm(batch);
      EXPECT_TRUE(io.post([&] { ++ran; }));
    }};
    while (ran != 301) sleep_for(10us);
    poster.join();
  });
  EXPECT_EQ(counted, 0U);
}

TEST_F(Allocation, ASecondRunOfAnEngineAllocatesNothing) {
  FiberIo io{kOneWorker};
  EXPECT_EQ(allocations_when_warm([&] {
              for (int i = 0; i < 100; ++i)
                io.run([] {
                  nursery([](Nursery& n) {
                    for (int k = 0; k < 10; ++k) n.spawn([] { this_fiber::yield(); });
                  });
                });
            }),
            0U);
}

// ── no memory ───────────────────────────────────────────────────────────────────────────────────

TEST_F(Allocation, ASpawnThatFindsNoMemoryThrowsAndNothingWasSpawned) {
  FiberIo io{kOneWorker};
  io.run([] {
    const auto captured = std::make_shared<int>(0);
    int ran = 0;
    bool refused = false;
    nursery([&](Nursery& n) {
      int spawned = 0;
      {
        const NoMemory none;
        try {  // until a queue would have to grow
          for (; spawned < 100'000; ++spawned) n.spawn([&ran] { ++ran; });
        } catch (const std::bad_alloc&) {
          refused = true;
        }
        try {
          n.spawn([captured, pad = std::array<char, 500>{}] { *captured += 1 + pad[0]; });
        } catch (const std::bad_alloc&) {
        }
      }
      EXPECT_EQ(captured.use_count(), 1);
      n.spawn([&ran] { ++ran; });  // memory is back
      ran -= spawned;
    });
    EXPECT_TRUE(refused);
    EXPECT_EQ(ran, 1);
  });
}

// Their queue cannot grow; they wait in a chain through their frames, and keep their order.
TEST_F(Allocation, ManyAreWokenWithoutMemoryAndRunInTheirOrder) {
  static constexpr int kFibers = 6'000;  // the queue begins with 2,048 places
  FiberIo{kOneWorker}.run([] {
    Event go;
    int waiting = 0;
    int ended = 0;
    int out_of_order = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < kFibers; ++i)
        n.spawn([&] {
          const int turn = waiting++;
          go.wait();
          if (ended++ != turn) ++out_of_order;
        });
      while (waiting < kFibers) this_fiber::yield();
      std::optional<NoMemory> none{std::in_place};
      go.set();
      while (ended < kFibers) this_fiber::yield();
      none.reset();
    });
    EXPECT_EQ(ended, kFibers);
    EXPECT_EQ(out_of_order, 0);
  });
}

TEST_F(Allocation, AnUnboundedChannelThatCannotGrowThrowsAndNothingWasSent) {
  FiberIo io{kOneWorker};
  io.run([] {
    constexpr int kSlots = 16;  // of the smallest buffer
    Channel<std::unique_ptr<int>> ch = unbounded<std::unique_ptr<int>>();
    for (int i = 0; i < kSlots; ++i) EXPECT_TRUE(ch.tx.send(std::make_unique<int>(i)));
    auto more = std::make_unique<int>(kSlots);
    {
      const NoMemory none;
      EXPECT_THROW(static_cast<void>(ch.tx.send(std::move(more))), std::bad_alloc);
      EXPECT_THROW(static_cast<void>(ch.tx.try_send(std::move(more))), std::bad_alloc);
      EXPECT_THROW(static_cast<void>(ch.tx.send_for(std::move(more), 1h)), std::bad_alloc);
      EXPECT_THROW(static_cast<void>(ch.tx.send(std::move(more), no_throw)), std::bad_alloc);
      EXPECT_EQ(ch.tx.size(), std::size_t{kSlots});
      EXPECT_EQ(**ch.rx.try_recv(), 0) << "and it is not locked";
    }
    ASSERT_TRUE(more);
    EXPECT_TRUE(ch.tx.send(std::move(more)));
    for (int i = 1; i <= kSlots; ++i) EXPECT_EQ(**ch.rx.recv(), i);
  });
}

TEST_F(Allocation, AChannelThatFindsNoMemoryIsNotMade) {
  const NoMemory none;
  EXPECT_THROW(Channel<int>{}, std::bad_alloc);
  EXPECT_THROW(Channel<int>{100}, std::bad_alloc);
}

// What it had until then, it gives back: sanitizers see that.
TEST_F(Allocation, AChannelThatFindsNoMemoryForItsBufferIsNotMade) {
  const std::uint64_t before = testing::allocations;
  testing::allowed = 1;
  EXPECT_THROW(Channel<int>{100}, std::bad_alloc);
  testing::allowed = -1;
  EXPECT_EQ(testing::allocations - before, 2U) << "the channel itself was there";
}

// Runs `io` when there is no memory: main runs, or an exception says why not, and nothing is lost.
template <class AnEngine>
void expect_to_survive_a_start_without_memory(AnEngine& io) {
  const std::size_t in_use = frames_in_use();
  bool ran = false;
  bool refused = false;
  {
    const NoMemory none;
    try {
      io.run([&] { ran = true; });
    } catch (const std::bad_alloc&) {
      refused = true;
    } catch (const OutOfStacks&) {
      refused = true;
    }
  }
  EXPECT_NE(ran, refused);
  EXPECT_EQ(frames_in_use(), in_use);
  EXPECT_THROW(static_cast<void>(weft::io()), std::logic_error) << "the thread is its own again";
  EXPECT_EQ(io.run([] { return 1; }), 1);
}

TEST_F(Allocation, ASimulationThatFindsNoMemoryToStartWithThrowsAndRecovers) {
  SimIo{}.run([] {});  // frames are there
  SimIo io;
  expect_to_survive_a_start_without_memory(io);
}

TEST_F(Allocation, AnEngineThatFindsNoMemoryToStartWithThrowsAndRecovers) {
  FiberIo{kOneWorker}.run([] {});  // frames are there
  FiberIo io{kOneWorker};
  expect_to_survive_a_start_without_memory(io);
  {
    const NoMemory none;
    EXPECT_THROW(FiberIo{kOneWorker}, std::bad_alloc);
    EXPECT_THROW(SimIo{}, std::bad_alloc);
  }
}

}  // namespace
}  // namespace weft
