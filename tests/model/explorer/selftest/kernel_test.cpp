// Sleeping, waking and spinning, and the lives of objects across executions.
#include <gtest/gtest.h>
#include <malloc.h>

#include <ctime>
#include <set>

#include "explorer/expect.hpp"
#include "explorer/selftest/programs.hpp"
#include "model_sync.hpp"

namespace weft::model {
namespace {

using namespace selftest;

TEST(Kernel, AWakeMayReachEitherSleeper) {
  struct State {
    Sync::Atomic<std::uint32_t> word{0};
    Sync::Atomic<std::uint32_t> woken{0};
  };
  std::set<Values> first_woken;
  const Result result = explore({.name = "wake one of two"}, [&](Program& p) {
    auto& s = p.make<State>();
    for (std::uint32_t id = 1; id <= 2; ++id)
      p.thread("sleeper", [&s, id] {
        while (s.word.load(relaxed) == 0) Sync::sleep(s.word, 0);
        std::uint32_t nobody = 0;
        s.woken.compare_exchange_strong(nobody, id);
        Sync::wake(s.word, 1);
      });
    p.thread("waker", [&s] {
      s.word.store(1, relaxed);
      Sync::wake(s.word, 1);
    });
    p.at_end([&s, &first_woken] { first_woken.insert({static_cast<int>(s.woken.load())}); });
  });
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(first_woken, (std::set<Values>{{1}, {2}}));
}

// Two of three: every pair is a possible one, and no third thread gets up.
TEST(Kernel, AWakeMayReachAnyPair) {
  struct State {
    Sync::Atomic<std::uint32_t> word{0};
    Sync::Atomic<int> up{0};
    int up_after_first_wake = 0;
  };
  std::set<Values> seen;
  const Result result = explore({.name = "wake two of three"}, [&](Program& p) {
    auto& s = p.make<State>();
    for (int id = 0; id < 3; ++id)
      p.thread("sleeper", [&s, id] {
        Sync::sleep(s.word, 0);
        s.up.fetch_or(1 << id);
      });
    p.thread("waker", [&s] {
      Sync::wake(s.word, 2);
      s.up_after_first_wake = s.up.load();
      s.word.store(1);
      Sync::wake(s.word, 3);
    });
    p.at_end([&s, &seen] { seen.insert({s.up_after_first_wake}); });
  });
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(seen, (std::set<Values>{{0}, {1}, {2}, {3}, {4}, {5}, {6}}));
}

struct Bell {
  Sync::Atomic<std::uint32_t> word{0};
  Sync::Atomic<std::uint32_t> data{0};

  void ring(std::memory_order order) {
    data.store(1, relaxed);
    word.store(1, order);
    Sync::wake(word, 1);
  }
};

TEST(Kernel, SpuriousWakesOnlyWhenAsked) {
  const auto program = [](Program& p) {
    auto& s = p.make<Bell>();
    p.thread("sleeper", [&s] {
      Sync::sleep(s.word, 0);
      check(s.word.load(seq_cst) == 1, "woken for a reason");
    });
    p.thread("ringer", [&s] { s.ring(seq_cst); });
  };
  const Result tame = explore({.name = "sleep without a loop"}, program);
  EXPECT_FALSE(tame.failed) << tame.report;
  EXPECT_TRUE(tame.complete);
  EXPECT_TRUE(expect_bug({.name = "sleep without a loop, spurious", .spurious_wakes = true},
                         program, Failure::assertion));
}

// A sleep() that ends tells the sleeper nothing; only its own acquiring load does.
TEST(Kernel, WakingAcquiresNothing) {
  EXPECT_TRUE(expect_bug(
      {.name = "woken without acquire"},
      [](Program& p) {
        auto& s = p.make<Bell>();
        p.thread("sleeper", [&s] {
          Sync::sleep(s.word, 0);
          check(s.data.load(relaxed) == 1, "the data came with the wake");
        });
        p.thread("ringer", [&s] { s.ring(release); });
      },
      Failure::assertion));
  const Result good =
      explore({.name = "woken, then acquired", .spurious_wakes = true}, [](Program& p) {
        auto& s = p.make<Bell>();
        p.thread("sleeper", [&s] {
          while (s.word.load(acquire) == 0) Sync::sleep(s.word, 0);
          check(s.data.load(relaxed) == 1, "the data came with the word");
        });
        p.thread("ringer", [&s] { s.ring(release); });
      });
  EXPECT_FALSE(good.failed) << good.report;
  EXPECT_TRUE(good.complete);
}

TEST(Kernel, ATimedSleepIsNoDeadlock) {
  std::set<Values> rounds;
  const Result result = explore({.name = "timed sleep"}, [&](Program& p) {
    auto& s = p.make<SleepyWorker>();
    static std::timespec second{1, 0};
    auto& count = p.make<int>(0);
    p.thread("sleeper", [&s, &count] {
      for (int i = 0; i < 2 && s.bell.load(acquire) == 0; ++i) {
        Sync::sleep(s.bell, 0, &second);
        ++count;
      }
    });
    p.thread("waker", [&s] {
      s.bell.store(1, release);
      Sync::wake(s.bell, 1);
    });
    p.at_end([&count, &rounds] { rounds.insert({count}); });
  });
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(rounds, (std::set<Values>{{0}, {1}, {2}}));
}

TEST(Kernel, OnlyTheLowHalfOfAWideWordIsCompared) {
  const Result result = explore({.name = "64-bit word"}, [](Program& p) {
    struct State {
      Sync::Atomic<std::uint64_t> word{0x5'0000'0001};
    };
    auto& s = p.make<State>();
    p.thread("sleeper", [&s] { Sync::sleep(s.word, 0x7'0000'0001); });
  });
  EXPECT_EQ(result.kind, Failure::deadlock);
}

// Three spinning threads, each waiting for the next: stale reads and starvation must not hang it.
TEST(Spin, WaitingLoopsEnd) {
  for (const Mode mode : {Mode::dpor, Mode::bound, Mode::pct, Mode::random}) {
    const Result result =
        explore({.name = "spin chain", .mode = mode, .max_executions = 2'000}, [](Program& p) {
          struct State {
            Sync::Atomic<int> stage[4];
          };
          auto& s = p.make<State>();
          s.stage[0].store(1, relaxed);
          for (int i = 3; i > 0; --i)
            p.thread("link", [&s, i] {
              while (s.stage[i - 1].load(acquire) == 0) Sync::spin();
              s.stage[i].store(1, release);
            });
        });
    EXPECT_FALSE(result.failed) << result.report;
    EXPECT_EQ(result.complete, mode == Mode::dpor || mode == Mode::bound);
  }
}

// A back-off that gives up is not a wait: with eager_spins the code after it is reached.
TEST(Spin, BoundedBackOffNeedsEagerSpins) {
  std::set<Values> seen;
  const auto program = [&](Program& p) {
    auto& s = p.make<Litmus>();
    p.thread("patient", [&s] {
      for (int round = 0; round < 3; ++round) {
        s.r[0] = s.x.load(acquire);
        if (s.r[0] != 0) return;
        Sync::spin();
      }
      s.r[1] = s.x.exchange(2);
    });
    p.thread("other", [&s] { s.x.exchange(1); });
    p.at_end([&s, &seen] { seen.insert({s.r[0], s.r[1]}); });
  };
  EXPECT_TRUE(explore({.name = "back-off, as a wait"}, program).complete);
  EXPECT_EQ(seen, (std::set<Values>{{1, -1}}));
  EXPECT_TRUE(explore({.name = "back-off, eager", .eager_spins = 3}, program).complete);
  EXPECT_EQ(seen, (std::set<Values>{{0, 0}, {0, 1}, {1, -1}}));
}

constinit Sync::Atomic<int> g_static{41};

TEST(Life, StaticObjectsStartEveryExecutionAfresh) {
  const Result result = explore({.name = "static"}, [](Program& p) {
    p.thread("one", [] { g_static.fetch_add(1); });
    p.thread("two", [] { g_static.fetch_add(1); });
    p.at_end([] { check(g_static.load() == 43, "started from 41"); });
  });
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_EQ(result.executions, 2U);
  EXPECT_EQ(g_static.load(), 41);
  g_static.store(50);
  EXPECT_EQ(g_static.exchange(41), 50);
}

TEST(Life, ExecutionsLeaveNothingOnTheHeap) {
  const auto heap_in_use = [] {
    const auto result = explore({.name = "heap", .quiet = true}, sleepy_worker<seq_cst, seq_cst>);
    EXPECT_FALSE(result.failed);
    return mallinfo2().uordblks;
  };
  const std::size_t before = heap_in_use();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(heap_in_use(), before);
}

}  // namespace
}  // namespace weft::model
