// How many fibers there can be, and that what they used is used again.
#include <weft/engine.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/core/error.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr bool kSanitized = arch::kAsan || arch::kTsan;

std::size_t mappings() {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

std::size_t number_in(const char* path) {
  std::size_t number = 0;
  std::ifstream{path} >> number;
  return number;
}

std::size_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t available_bytes() {
  std::ifstream meminfo{"/proc/meminfo"};
  std::string name;
  for (std::size_t kilobytes = 0; meminfo >> name >> kilobytes;) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    meminfo.ignore(64, '\n');
  }
  return 0;
}

// As many as `wanted`, or as this machine has memory for.
int affordable(int wanted, std::size_t bytes_each) {
  const std::size_t most = available_bytes() / 2 / bytes_each;
  return most < static_cast<std::size_t>(wanted) ? static_cast<int>(most) : wanted;
}

TEST(Scale, AMillionParkedFibersOnStockSettings) {
  // ThreadSanitizer knows some 8,000 fibers at most.
  const int wanted = arch::kTsan ? 5'000 : arch::kAsan ? 20'000 : 1'000'000;
  const int count = affordable(wanted, kSanitized ? 64 * 1024 : 5 * 1024);
  FiberIo io{{.workers = 4}};
  std::atomic<int> woken{0};
  std::size_t maps = 0;
  std::size_t bytes = 0;
  io.run([&] {
    Event go, all_parked;
    std::atomic<int> parked{0};
    const std::size_t before = resident_bytes();
    nursery([&](Nursery& n) {
      for (int i = 0; i < count; ++i) {
        n.spawn([&] {
          if (parked.fetch_add(1) + 1 == count) all_parked.set();
          go.wait();
          woken.fetch_add(1);
        });
        if (i % 1'000 == 0) this_fiber::yield();
      }
      all_parked.wait();
      maps = mappings();
      bytes = resident_bytes() - before;
      go.set();
    });
  });
  EXPECT_EQ(woken.load(), count);
  EXPECT_LT(maps, number_in("/proc/sys/vm/max_map_count")) << "of " << count << " guarded stacks";
  std::printf("%d parked fibers: %zu mappings, %zu bytes resident each\n", count, maps,
              bytes / static_cast<std::size_t>(count));
  if constexpr (!kSanitized) {
    EXPECT_LT(bytes / static_cast<std::size_t>(count), 6U * 1024) << "a page, a frame, descriptors";
  }
  if (count != wanted) GTEST_SKIP() << "memory for " << count << " of " << wanted << " only";
}

// The window is what bounds memory, however many go through it.
TEST(Scale, TenMillionThroughAWindow) {
  constexpr int kWindow = 1'000;
  const int total = kSanitized ? 50'000 : 10'000'000;
  for (const unsigned workers : {1U, 4U}) {
    FiberIo io{{.workers = workers}};
    std::atomic<std::int64_t> ran{0};
    std::uint64_t made = 0;
    io.run([&] {
      const auto pass = [&](int count) {
        for (int done = 0; done < count; done += kWindow)
          nursery([&](Nursery& n) {
            for (int i = 0; i < kWindow; ++i) n.spawn([&] { ran.fetch_add(1); });
          });
      };
      pass(20 * kWindow);
      made = frames_made();
      pass(total - 20 * kWindow);
    });
    EXPECT_EQ(ran.load(), total);
    // Each worker keeps a cache of frames; beyond those nothing is made. One that computes long
    // may have had a deputy, which has a cache as well.
    EXPECT_LE(frames_made() - made, 2 * workers * 4'096U);
  }
}

// Parents that have a stack, each with a child that may not get one: that is the child's failure,
// and nobody else's.
TEST(Scale, StacksMaxRefusesOneMoreAndTheRestGoesOn) {
  constexpr int kMost = 2'000;
  constexpr int kParents = 1'200;  // far enough below: workers keep some idle stacks of their own
  for (const unsigned workers : {1U, 2U, 4U}) {
    FiberIo io{{.workers = workers, .stack_bytes = 64 * 1024, .max_fibers = kMost}};
    std::atomic<int> refused{0};
    std::atomic<int> ended{0};
    io.run([&] {
      Event all_begun, all_settled;
      std::atomic<int> begun{0};
      std::atomic<int> settled{0};
      const auto settle_one = [&] {
        if (settled.fetch_add(1) + 1 == kParents) all_settled.set();
      };
      const auto parent = [&] {
        if (begun.fetch_add(1) + 1 == kParents) all_begun.set();
        all_begun.wait();
        try {
          nursery([&](Nursery& n) {
            n.spawn([&] {
              settle_one();
              all_settled.wait();
              ended.fetch_add(1);
            });
            all_settled.wait();  // not in the join, where the child could run in place
          });
        } catch (const OutOfStacks& error) {
          EXPECT_THAT(error.what(), HasSubstr("2000 stacks that max_fibers allows"));
          refused.fetch_add(1);
          settle_one();
          all_settled.wait();
        }
      };
      nursery([&](Nursery& n) {
        for (int i = 0; i < kParents; ++i) n.spawn([&] { parent(); });
      });
    });
    EXPECT_EQ(ended.load() + refused.load(), kParents);
    EXPECT_GE(refused.load(), 2 * kParents - kMost) << "one of them may stand on the root's stack";
    EXPECT_GT(ended.load(), 0);
    EXPECT_EQ(io.run([] { return 5; }), 5) << "as good as before";
  }
}

TEST(Scale, StacksMaxIsExactWhereAllAreAliveAtOnce) {
  constexpr int kMost = 300;
  FiberIo io{{.workers = 1, .stack_bytes = 64 * 1024, .max_fibers = kMost}};
  int begun = 0;
  int cancelled = 0;
  EXPECT_THROW(io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2 * kMost; ++i) {
        n.spawn([&] {
          ++begun;
          try {
            Event{}.wait();
          } catch (const Cancelled&) {
            ++cancelled;
            throw;
          }
        });
        this_fiber::yield();
      }
    });
  }),
               OutOfStacks);
  EXPECT_EQ(begun, kMost - 1) << "the root has the other one";
  EXPECT_EQ(cancelled, begun) << "a failure like any other: the siblings are cancelled";
  EXPECT_EQ(io.run([] { return 5; }), 5);
}

// Spawned on one worker, ended on another: frames and stacks must find their way back.
TEST(Scale, NothingGrowsOverManyRounds) {
  FiberIo io{{.workers = 4, .stack_bytes = 64 * 1024}};
  const int fibers = kSanitized ? 500 : 5'000;
  const auto round = [&] {
    std::atomic<int> ended{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < fibers; ++i)
        n.spawn([&, i] {
          if (i % 2 == 0) this_fiber::yield();
          if (i % 7 == 0) sleep_for(Duration{i % 1'000 * 100});
          if (i % 50 == 0) nursery([](Nursery& m) { m.spawn([] { this_fiber::yield(); }); });
          ended.fetch_add(1);
        });
    });
    EXPECT_EQ(ended.load(), fibers);
  };
  io.run([&] {
    for (int i = 0; i < 5; ++i) round();  // until every worker has its share of everything
    const std::uint64_t made = frames_made();
    const std::size_t maps = mappings();
    for (int i = 0; i < 20; ++i) round();
    // A worker that had few so far may still fill its cache; growth with every round would be 20
    // times the fibers of one.
    EXPECT_LE(frames_made() - made, 2 * 4U * 4'096);
    if constexpr (!kSanitized) {
      EXPECT_LE(mappings(), maps + 32) << "and deputies have stacks and arenas of their own";
    }
  });
}

// The same from outside: frames taken by foreign threads come back to the pool.
TEST(Scale, NothingGrowsOverManyPosts) {
  FiberIo io{{.workers = 4, .stack_bytes = 64 * 1024}};
  const int posts = kSanitized ? 500 : 5'000;
  std::uint64_t made = 0;
  io.run([&] {
    for (int i = 0; i < 25; ++i) {
      if (i == 5) made = frames_made();
      std::atomic<int> ran{0};
      Event done;
      std::thread poster{[&] {
        for (int k = 0; k < posts; ++k)
          EXPECT_TRUE(io.post([&] {
            if (ran.fetch_add(1) + 1 == posts) done.set();
          }));
        done.wait();  // what we have refers to this block
      }};
      done.wait();
      poster.join();
    }
  });
  EXPECT_LE(frames_made() - made, 2 * 4U * 4'096);
}

}  // namespace
}  // namespace weft
