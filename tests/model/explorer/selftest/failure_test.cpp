// Every kind of failure is detected, and its innocent twin is not.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "explorer/expect.hpp"
#include "explorer/selftest/programs.hpp"
#include "model_sync.hpp"

namespace weft::model {
namespace {

using namespace selftest;

struct Published {
  Sync::Atomic<int> ready{0};
  Sync::Var<int> data{0};
};

template <std::memory_order kStore>
void publish(Program& p) {
  auto& s = p.make<Published>();
  p.thread("writer", [&s] {
    s.data.write(1);
    s.ready.store(1, kStore);
  });
  p.thread("reader", [&s] {
    if (s.ready.load(acquire) == 1) check(s.data.read() == 1);
  });
  p.at_end([&s] { check(s.data.read() == 1, "the end sees everything"); });
}

TEST(Failures, RacesOnPlainData) {
  EXPECT_TRUE(expect_bug({.name = "relaxed publication"}, publish<relaxed>, Failure::race));
  const Result good = explore({.name = "release publication"}, publish<release>);
  EXPECT_FALSE(good.failed) << good.report;
  EXPECT_TRUE(good.complete);
}

// A race is a matter of order, not of the schedule: one execution is enough, whatever it is.
TEST(Failures, ARaceIsFoundInEitherOrder) {
  const auto program = [](Program& p) {
    auto& s = p.make<Published>();
    p.thread("one", [&s] {
      s.ready.store(1);
      s.data.write(1);
    });
    p.thread("two", [&s] {
      s.ready.store(2);
      (void)s.data.read();
    });
  };
  EXPECT_TRUE(expect_bug({.name = "race", .max_executions = 1}, program, Failure::race));
}

TEST(Failures, Deadlock) {
  struct State {
    Sync::Lock a, b;
  };
  const Result result = explore({.name = "lock order"}, [](Program& p) {
    auto& s = p.make<State>();
    name(&s.a, "a");
    name(&s.b, "b");
    p.thread("one", [&s] {
      s.a.lock();
      s.b.lock();
      s.b.unlock();
      s.a.unlock();
    });
    p.thread("two", [&s] {
      s.b.lock();
      s.a.lock();
      s.a.unlock();
      s.b.unlock();
    });
  });
  EXPECT_EQ(result.kind, Failure::deadlock);
  EXPECT_NE(result.report.find("one        waits for b, held by two"), std::string::npos)
      << result.report;
  EXPECT_NE(result.report.find("two        waits for a, held by one"), std::string::npos)
      << result.report;
}

TEST(Failures, DeadlockNamesTheSleeperAndItsWord) {
  const Result result = explore({.name = "lost wake"}, sleepy_worker<release, acquire>);
  EXPECT_EQ(result.kind, Failure::deadlock);
  EXPECT_NE(result.report.find("worker     asleep on"), std::string::npos) << result.report;
  EXPECT_NE(result.report.find("(saw 0, now 0) at programs.hpp:"), std::string::npos)
      << result.report;
}

TEST(Failures, Livelock) {
  const auto for_ever = [](Program& p) {
    auto& s = p.make<Litmus>();
    p.thread("waiter", [&s] {
      while (s.x.load() == 0) Sync::spin();
    });
    p.thread("other", [&s] { s.y.store(1); });
  };
  EXPECT_TRUE(expect_bug({.name = "spins for ever"}, for_ever, Failure::livelock));
  const auto ping_pong = [](Program& p) {
    auto& s = p.make<Litmus>();
    p.thread("one", [&s] {
      for (;;) s.x.fetch_add(1);
    });
  };
  EXPECT_TRUE(expect_bug({.name = "never ends", .max_steps = 100}, ping_pong, Failure::livelock));
}

struct Node {
  Sync::Atomic<int> word{0};
  Sync::Var<int> data{0};
};

TEST(Failures, Leak) {
  const Result result = explore(
      {.name = "leak"}, [](Program& p) { p.thread("one", [] { make<Node>()->word.store(1); }); });
  EXPECT_EQ(result.kind, Failure::leak);
  EXPECT_NE(result.report.find("Node"), std::string::npos) << result.report;
}

// Hands a node from one thread to another, which destroys it.
template <std::memory_order kHandOver, bool kTouchAfterwards>
void hand_over(Program& p) {
  struct State {
    Sync::Atomic<Node*> box{nullptr};
  };
  auto& s = p.make<State>();
  p.thread("giver", [&s] {
    Node* const node = make<Node>();
    node->word.store(1, relaxed);
    s.box.store(node, kHandOver);
    if (kTouchAfterwards) node->word.store(2, relaxed);
  });
  p.thread("taker", [&s] {
    Node* node = s.box.load(acquire);
    for (; node == nullptr; node = s.box.load(acquire)) Sync::spin();
    destroy(node);
  });
}

TEST(Failures, UseAfterFree) {
  EXPECT_TRUE(expect_bug({.name = "touched after hand-over"}, hand_over<release, true>,
                         Failure::use_after_free));
  const Result good = explore({.name = "handed over"}, hand_over<release, false>);
  EXPECT_FALSE(good.failed) << good.report;
  EXPECT_TRUE(good.complete);
  EXPECT_TRUE(expect_bug({.name = "handed over relaxed"}, hand_over<relaxed, false>,
                         Failure::use_after_free));
  EXPECT_TRUE(expect_bug(
      {.name = "destroyed twice"},
      [](Program& p) {
        p.thread("one", [] {
          Node* const node = make<Node>();
          destroy(node);
          destroy(node);
        });
      },
      Failure::use_after_free));
}

// A node on a stack is watched as well: its destructor ends its life, whatever the memory says.
TEST(Failures, UseOfADeadStackObject) {
  struct State {
    Sync::Atomic<Node*> box{nullptr};
  };
  EXPECT_TRUE(expect_bug(
      {.name = "dangling stack node"},
      [](Program& p) {
        auto& s = p.make<State>();
        p.thread("waiter", [&s] {
          Node node;
          s.box.store(&node, release);
          s.box.store(nullptr, release);  // unpublished, but a waker may have it already
        });
        p.thread("waker", [&s] {
          if (Node* const node = s.box.load(acquire)) node->word.store(1);
        });
      },
      Failure::use_after_free));
}

// Nobody but its maker has touched it: to end its life one must still have seen it begin.
template <std::memory_order kStore>
void made_and_ended(Program& p) {
  using Value = Sync::Var<int>;
  struct State {
    alignas(Value) std::byte room[sizeof(Value)];
    Sync::Atomic<Value*> made{nullptr};
  };
  auto& s = p.make<State>();
  p.thread("maker", [&s] { s.made.store(::new (s.room) Value{1}, kStore); });
  p.thread("breaker", [&s] {
    if (Value* const value = s.made.load(acquire)) std::destroy_at(value);
  });
}

TEST(Failures, EndOfWhatNeedNotHaveBegun) {
  EXPECT_TRUE(expect_bug({.name = "made, told relaxed, ended"}, made_and_ended<relaxed>,
                         Failure::use_after_free));
  const Result good = explore({.name = "made, told, ended"}, made_and_ended<release>);
  EXPECT_FALSE(good.failed) << good.report;
}

TEST(Failures, AbandonedLock) {
  struct State {
    Sync::Lock lock;
  };
  EXPECT_TRUE(expect_bug(
      {.name = "thread ends with a lock"},
      [](Program& p) {
        auto& s = p.make<State>();
        p.thread("one", [&s] { s.lock.lock(); });
      },
      Failure::abandoned_lock));
  EXPECT_TRUE(expect_bug(
      {.name = "held lock destroyed"},
      [](Program& p) {
        p.thread("one", [] {
          State* const s = make<State>();
          s->lock.lock();
          destroy(s);
        });
      },
      Failure::abandoned_lock));
  EXPECT_TRUE(expect_bug(
      {.name = "unlocked twice"},
      [](Program& p) {
        auto& s = p.make<State>();
        p.thread("one", [&s] {
          s.lock.lock();
          s.lock.unlock();
          s.lock.unlock();
        });
      },
      Failure::lock_misuse));
  EXPECT_TRUE(expect_bug(
      {.name = "locked twice"},
      [](Program& p) {
        auto& s = p.make<State>();
        p.thread("one", [&s] {
          s.lock.lock();
          s.lock.lock();
        });
      },
      Failure::deadlock));
}

TEST(Failures, EscapedException) {
  EXPECT_TRUE(expect_bug(
      {.name = "exception"},
      [](Program& p) { p.thread("one", [] { throw std::runtime_error("out"); }); },
      Failure::exception));
}

TEST(Failures, FullTablesAreSaid) {
  EXPECT_TRUE(expect_bug(
      {.name = "too many Atomics"},
      [](Program& p) {
        struct State {
          Sync::Atomic<int> word[1000];
        };
        p.make<State>();
      },
      Failure::limit));
  EXPECT_TRUE(expect_bug(
      {.name = "too many threads"},
      [](Program& p) {
        for (int i = 0; i < 16; ++i) p.thread("thread", [] {});
      },
      Failure::limit));
  const Result steps = explore({.name = "too many steps", .max_steps = 1'000'000}, [](Program&) {});
  EXPECT_EQ(steps.kind, Failure::limit);
}

TEST(Failures, ProgramsThatDoNotRepeatThemselves) {
  static int runs = 0;
  runs = 0;
  EXPECT_TRUE(expect_bug(
      {.name = "not deterministic"},
      [](Program& p) {
        auto& s = p.make<Litmus>();
        const bool odd = ++runs % 2 == 1;
        p.thread("one", [&s, odd] {
          s.x.store(1);
          if (odd) s.x.store(2);
        });
        p.thread("two", [&s] { s.x.store(3); });
        p.thread("three", [&s] { s.x.store(3); });
      },
      Failure::replay));
}

}  // namespace
}  // namespace weft::model
