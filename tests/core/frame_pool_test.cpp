#include <weft/core/frame_pool.hpp>

#include <weft/core/closure.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <support/frames.hpp>

namespace weft {
namespace {

using testing::frames_in_use;

std::uintptr_t address(const Fiber& fiber) { return reinterpret_cast<std::uintptr_t>(&fiber); }

std::vector<Fiber*> take(FrameCache& cache, FrameSize size, std::size_t count) {
  std::vector<Fiber*> frames;
  for (std::size_t i = 0; i < count; ++i) frames.push_back(&cache.take(size));
  return frames;
}

std::vector<Fiber*> every_frame() {
  std::vector<Fiber*> all;
  for_each_frame(
      [](Fiber& fiber, void* at) { static_cast<std::vector<Fiber*>*>(at)->push_back(&fiber); },
      &all);
  return all;
}

TEST(FramePool, FramesAreDistinctAlignedAndOfTheirSize) {
  FrameCache cache;
  for (const FrameSize size : {FrameSize::small, FrameSize::large}) {
    const std::size_t bytes = kFrameBytes[static_cast<std::size_t>(size)];
    std::vector<Fiber*> frames = take(cache, size, 1'000);
    std::sort(frames.begin(), frames.end());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_EQ(address(*frames[i]) % 64, 0U) << "a cache line";
      EXPECT_EQ(frames[i]->size_class, static_cast<std::uint8_t>(size));
      if (i > 0) {
        ASSERT_GE(address(*frames[i]) - address(*frames[i - 1]), bytes);
      }
    }
    for (Fiber* frame : frames) cache.give(*frame);
  }
}

TEST(FramePool, AFrameIsUsedAgainLastInFirstOut) {
  FrameCache cache;
  Fiber& a = cache.take(FrameSize::small);
  Fiber& b = cache.take(FrameSize::small);
  cache.give(a);
  cache.give(b);
  EXPECT_EQ(&cache.take(FrameSize::small), &b);
  EXPECT_EQ(&cache.take(FrameSize::small), &a);
  cache.give(a);
  cache.give(b);
}

TEST(FramePool, SizesDoNotMix) {
  FrameCache cache;
  Fiber& small = cache.take(FrameSize::small);
  Fiber& large = cache.take(FrameSize::large);
  cache.give(small);
  cache.give(large);
  EXPECT_EQ(&cache.take(FrameSize::large), &large);
  EXPECT_EQ(&cache.take(FrameSize::small), &small);
  cache.give(small);
  cache.give(large);
}

TEST(FramePool, AWarmPoolMakesNoNewFrames) {
  constexpr std::size_t kFrames = 10'000;
  for (int round = 0; round < 3; ++round) {
    FrameCache cache;  // gives everything back when it goes
    for (Fiber* frame : take(cache, FrameSize::small, kFrames)) cache.give(*frame);
  }
  const std::uint64_t made = frames_made();
  for (int round = 0; round < 20; ++round) {
    FrameCache cache;
    for (Fiber* frame : take(cache, FrameSize::small, kFrames)) cache.give(*frame);
  }
  EXPECT_EQ(frames_made(), made);
}

TEST(FramePool, FramesFlowBackFromWhoEndsToWhoSpawns) {
  constexpr std::size_t kFrames = 5'000;
  FrameCache spawner, ender;
  for (Fiber* frame : take(spawner, FrameSize::small, kFrames)) ender.give(*frame);
  const std::uint64_t made = frames_made();
  for (int round = 0; round < 50; ++round)
    for (Fiber* frame : take(spawner, FrameSize::small, kFrames)) ender.give(*frame);
  // The ender keeps at most a cache full to itself; the rest goes round.
  EXPECT_LE(frames_made() - made, 2 * 2'048U);
}

TEST(FramePool, EveryFrameThatWasEverMadeIsVisited) {
  FrameCache cache;
  const std::vector<Fiber*> small = take(cache, FrameSize::small, 40'000);  // several slabs
  const std::vector<Fiber*> large = take(cache, FrameSize::large, 20'000);
  const std::vector<Fiber*> all = every_frame();
  EXPECT_EQ(all.size(), frames_made());
  const std::set<Fiber*> distinct(all.begin(), all.end());
  EXPECT_EQ(distinct.size(), all.size());
  for (Fiber* frame : small) EXPECT_TRUE(distinct.contains(frame));
  for (Fiber* frame : large) EXPECT_TRUE(distinct.contains(frame));
  for (Fiber* frame : small) cache.give(*frame);
  for (Fiber* frame : large) cache.give(*frame);
}

TEST(FramePool, ThreadsShareOnePool) {
  constexpr std::size_t kFrames = 3'000;
  std::vector<std::vector<Fiber*>> taken(4);
  const auto round = [&] {
    std::vector<std::thread> threads;
    for (std::vector<Fiber*>& mine : taken)
      threads.emplace_back([&mine] {
        FrameCache cache;
        mine = take(cache, FrameSize::small, kFrames);
        for (Fiber* frame : mine) frame->on_stack.write(1);  // ours alone: TSan would object
        for (Fiber* frame : mine) cache.give(*frame);
      });
    for (std::thread& thread : threads) thread.join();
  };
  for (int i = 0; i < 3; ++i) round();
  const std::uint64_t made = frames_made();
  for (int i = 0; i < 10; ++i) round();
  EXPECT_LE(frames_made(), made + taken.size() * kFrames) << "at most as many as are out at once";
}

TEST(FramePool, S0_1_1_AnEngineGivesBackEveryFrame) {
  const auto run = [] {
    FiberIo io{{.workers = 1}};
    io.run([] {
      nursery([](Nursery& n) {
        for (int i = 0; i < 1'000; ++i) n.spawn([] { this_fiber::yield(); });
      });
    });
  };
  run();
  const std::size_t in_use = frames_in_use();
  const std::uint64_t made = frames_made();
  for (int i = 0; i < 20; ++i) run();
  EXPECT_EQ(frames_in_use(), in_use);
  EXPECT_EQ(frames_made(), made);
}

TEST(FramePool, S0_8_TicketsGoOnCountingThroughManyLives) {
  struct Seen {
    Fiber* fiber;
    Ticket ticket;
  };
  std::vector<Seen> waits;
  FiberIo io{{.workers = 1}};
  io.run([&] {
    for (int life = 0; life < 100; ++life) {
      Event go;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          go.wait();
          Fiber& self = Fiber::current();
          waits.push_back({&self, self.word.ticket()});
        });
        this_fiber::yield();  // it parks
        go.set();
      });
    }
  });
  std::set<std::pair<Fiber*, Ticket>> names;
  std::set<Fiber*> frames;
  for (const Seen& seen : waits) {
    EXPECT_TRUE(names.emplace(seen.fiber, seen.ticket).second) << "a ticket named two waits";
    frames.insert(seen.fiber);
  }
  EXPECT_LT(frames.size(), 10U) << "the lives did use the same frames";
}

}  // namespace
}  // namespace weft
