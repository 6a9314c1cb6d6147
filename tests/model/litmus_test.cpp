// Litmus tests: does the explorer produce exactly what the C++ memory model allows, no more and no
// less? The counts are exact: a change in one is a change in what a "complete" model proves.
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <vector>

#include "explorer/explore.hpp"
#include "explorer/selftest/axioms.hpp"
#include "explorer/selftest/programs.hpp"
#include "explorer/selftest/random_program.hpp"
#include "model_sync.hpp"

namespace weft::model {
namespace {

using namespace selftest;

using Body = void (*)(Litmus&);

struct Explored {
  Result result;
  std::set<Values> outcomes;
  [[nodiscard]] bool can_be(const Values& values) const { return outcomes.contains(values); }
};

// Runs one thread per body; the outcome is the first `reported` values.
Explored explore_litmus(const char* name, std::vector<Body> bodies, std::size_t reported) {
  Explored explored;
  explored.result = explore({.name = name}, [&](Program& p) {
    auto& s = p.make<Litmus>();
    for (const Body body : bodies) p.thread("thread", [&s, body] { body(s); });
    p.at_end([&s, &explored, reported] { explored.outcomes.emplace(s.r, s.r + reported); });
  });
  EXPECT_FALSE(explored.result.failed) << explored.result.report;
  EXPECT_TRUE(explored.result.complete);
  return explored;
}

template <std::memory_order kStore, std::memory_order kLoad, bool kFence = false>
Explored store_buffering(const char* name) {
  return explore_litmus(name,
                        {[](Litmus& s) {
                           s.x.store(1, kStore);
                           if (kFence) Sync::fence(seq_cst);
                           s.r[0] = s.y.load(kLoad);
                         },
                         [](Litmus& s) {
                           s.y.store(1, kStore);
                           if (kFence) Sync::fence(seq_cst);
                           s.r[1] = s.x.load(kLoad);
                         }},
                        2);
}

TEST(Memory, StoreBufferingIsVisibleBelowSeqCst) {
  const Explored weak = store_buffering<relaxed, relaxed>("SB relaxed");
  EXPECT_EQ(weak.outcomes.size(), 4U);
  EXPECT_EQ(weak.result.executions, 8U);
  const Explored acquire_release = store_buffering<release, acquire>("SB release acquire");
  EXPECT_EQ(acquire_release.outcomes.size(), 4U);
  EXPECT_EQ(acquire_release.result.executions, 8U);
}

TEST(Memory, StoreBufferingIsExcludedBySeqCst) {
  const Explored strong = store_buffering<seq_cst, seq_cst>("SB seq_cst");
  EXPECT_EQ(strong.outcomes, (std::set<Values>{{0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(strong.result.executions, 3U);
  const Explored fenced = store_buffering<relaxed, relaxed, true>("SB seq_cst fences");
  EXPECT_EQ(fenced.outcomes, (std::set<Values>{{0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(fenced.result.executions, 6U);
}

template <std::memory_order kStore, std::memory_order kLoad, bool kFences = false>
Explored message_passing(const char* name) {
  return explore_litmus(name,
                        {[](Litmus& s) {
                           s.x.store(1, relaxed);
                           if (kFences) Sync::fence(release);
                           s.y.store(1, kStore);
                         },
                         [](Litmus& s) {
                           s.r[0] = s.y.load(kLoad);
                           if (kFences) Sync::fence(acquire);
                           s.r[1] = s.x.load(relaxed);
                         }},
                        2);
}

TEST(Memory, MessagePassingNeedsReleaseAndAcquire) {
  EXPECT_TRUE((message_passing<relaxed, relaxed>("MP relaxed").can_be({1, 0})));
  EXPECT_TRUE((message_passing<release, relaxed>("MP release only").can_be({1, 0})));
  EXPECT_TRUE((message_passing<relaxed, acquire>("MP acquire only").can_be({1, 0})));
  const Explored good = message_passing<release, acquire>("MP release acquire");
  EXPECT_EQ(good.outcomes, (std::set<Values>{{0, 0}, {0, 1}, {1, 1}}));
  const Explored fenced = message_passing<relaxed, relaxed, true>("MP fences");
  EXPECT_EQ(fenced.outcomes, (std::set<Values>{{0, 0}, {0, 1}, {1, 1}}));
}

template <std::memory_order kStore, std::memory_order kLoad>
Explored independent_reads(const char* name) {
  return explore_litmus(
      name,
      {[](Litmus& s) { s.x.store(1, kStore); }, [](Litmus& s) { s.y.store(1, kStore); },
       [](Litmus& s) {
         s.r[0] = s.x.load(kLoad);
         s.r[1] = s.y.load(kLoad);
       },
       [](Litmus& s) {
         s.r[2] = s.y.load(kLoad);
         s.r[3] = s.x.load(kLoad);
       }},
      4);
}

TEST(Memory, IndependentReadersAgreeOnlyUnderSeqCst) {
  EXPECT_TRUE((independent_reads<release, acquire>("IRIW release acquire").can_be({1, 0, 1, 0})));
  const Explored strong = independent_reads<seq_cst, seq_cst>("IRIW seq_cst");
  EXPECT_FALSE(strong.can_be({1, 0, 1, 0}));
  EXPECT_EQ(strong.outcomes.size(), 15U);
}

// A relaxed store that one seq_cst load has seen cannot be missed by a later one: loads, too, have
// their place in the single total order.
TEST(Memory, SeqCstLoadsAreOrderedAmongThemselves) {
  const Explored seen = explore_litmus("SC loads",
                                       {[](Litmus& s) { s.x.store(1, relaxed); },
                                        [](Litmus& s) {
                                          s.r[0] = s.x.load(seq_cst);
                                          s.r[1] = s.y.load(seq_cst);
                                        },
                                        [](Litmus& s) {
                                          s.y.store(1, seq_cst);
                                          s.r[2] = s.x.load(seq_cst);
                                        }},
                                       3);
  EXPECT_FALSE(seen.can_be({1, 0, 0}));
  EXPECT_EQ(seen.outcomes.size(), 7U);
}

TEST(Memory, ReadsOfOneLocationNeverGoBack) {
  const Explored corr = explore_litmus("CoRR",
                                       {[](Litmus& s) {
                                          s.x.store(1, relaxed);
                                          s.x.store(2, relaxed);
                                        },
                                        [](Litmus& s) {
                                          s.r[0] = s.x.load(relaxed);
                                          s.r[1] = s.x.load(relaxed);
                                        }},
                                       2);
  EXPECT_EQ(corr.outcomes, (std::set<Values>{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}}));
  const Explored cowr = explore_litmus("CoWR",
                                       {[](Litmus& s) {
                                          s.x.store(1, relaxed);
                                          s.r[0] = s.x.load(relaxed);
                                        },
                                        [](Litmus& s) { s.x.store(2, relaxed); }},
                                       1);
  EXPECT_EQ(cowr.outcomes, (std::set<Values>{{1}, {2}}));
}

// The two declared limits. C++ allows {1, 1} in both; the explorer does not produce it.
TEST(Memory, LimitLoadBufferingIsNotProduced) {
  const Explored lb = explore_litmus("LB",
                                     {[](Litmus& s) {
                                        s.r[0] = s.x.load(relaxed);
                                        s.y.store(1, relaxed);
                                      },
                                      [](Litmus& s) {
                                        s.r[1] = s.y.load(relaxed);
                                        s.x.store(1, relaxed);
                                      }},
                                     2);
  EXPECT_EQ(lb.outcomes, (std::set<Values>{{0, 0}, {0, 1}, {1, 0}}));
}

TEST(Memory, LimitModificationOrderIsExecutionOrder) {
  std::set<Values> finals;
  const Result result = explore({.name = "2+2W"}, [&](Program& p) {
    auto& s = p.make<Litmus>();
    p.thread("one", [&s] {
      s.x.store(1, relaxed);
      s.y.store(2, relaxed);
    });
    p.thread("two", [&s] {
      s.y.store(1, relaxed);
      s.x.store(2, relaxed);
    });
    p.at_end([&s, &finals] { finals.insert({s.x.load(), s.y.load()}); });
  });
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(finals, (std::set<Values>{{1, 2}, {2, 1}, {2, 2}}));
}

// Publishes plain data through `x`; a middle thread touches x in between.
Result through_the_middle(const char* name, void (*middle)(Sync::Atomic<int>&), int last_value) {
  struct State {
    Sync::Atomic<int> x{0};
    Sync::Var<int> data{0};
  };
  return explore({.name = name}, [&](Program& p) {
    auto& s = p.make<State>();
    p.thread("writer", [&s] {
      s.data.write(7);
      s.x.store(1, release);
    });
    p.thread("middle", [&s, middle] { middle(s.x); });
    p.thread("reader", [&s, last_value] {
      if (s.x.load(acquire) == last_value) check(s.data.read() == 7, "the data arrived");
    });
  });
}

TEST(Memory, ReadModifyWritesContinueAReleaseSequence) {
  const Result kept = through_the_middle(
      "release sequence", [](Sync::Atomic<int>& x) { x.fetch_add(10, relaxed); }, 11);
  EXPECT_TRUE(kept.complete);
  EXPECT_FALSE(kept.failed) << kept.report;
  const Result broken = through_the_middle(
      "release sequence broken by a store",
      [](Sync::Atomic<int>& x) {
        if (x.load(relaxed) == 1) x.store(11, relaxed);
      },
      11);
  EXPECT_EQ(broken.kind, Failure::race);
}

// C++20 no longer lets a later relaxed store of the same thread continue the sequence.
TEST(Memory, AStoreOfTheSameThreadEndsTheReleaseSequence) {
  const Result result = explore({.name = "release sequence, same thread"}, [](Program& p) {
    struct State {
      Sync::Atomic<int> x{0};
      Sync::Var<int> data{0};
    };
    auto& s = p.make<State>();
    p.thread("writer", [&s] {
      s.data.write(7);
      s.x.store(1, release);
      s.x.store(2, relaxed);
    });
    p.thread("reader", [&s] {
      if (s.x.load(acquire) == 2) (void)s.data.read();
    });
  });
  EXPECT_EQ(result.kind, Failure::race);
}

TEST(Memory, WeakCompareExchangeFailsSpuriouslyOnlyWhenAsked) {
  std::set<Values> outcomes;
  const auto program = [&](Program& p) {
    auto& s = p.make<Litmus>();
    p.thread("one", [&s] {
      int expected = 0;
      int tries = 1;
      while (!s.x.compare_exchange_weak(expected, 1)) ++tries;
      s.r[0] = tries;
    });
    p.at_end([&s, &outcomes] { outcomes.insert({s.r[0]}); });
  };
  EXPECT_EQ(explore({.name = "weak CAS, tame"}, program).executions, 1U);
  EXPECT_EQ(outcomes, (std::set<Values>{{1}}));
  EXPECT_EQ(explore({.name = "weak CAS", .weak_cas = true}, program).executions, 3U);
  EXPECT_EQ(outcomes, (std::set<Values>{{1}, {2}, {3}}));
}

// Like any load, a failing compare-exchange may read an old value.
TEST(Memory, AFailedCompareExchangeMayReadAnOldValue) {
  const Explored cas = explore_litmus("stale CAS",
                                      {[](Litmus& s) {
                                         s.x.store(5, relaxed);
                                         s.x.store(0, relaxed);
                                         s.y.store(1, relaxed);
                                       },
                                       [](Litmus& s) {
                                         s.r[0] = s.y.load(relaxed);
                                         int expected = 0;
                                         s.x.compare_exchange_strong(expected, 9, relaxed);
                                         s.r[1] = expected;
                                       }},
                                      2);
  EXPECT_TRUE(cas.can_be({1, 5})) << "newest is 0, and yet the exchange may fail on 5";
  EXPECT_TRUE(cas.can_be({1, 0}));
}

// Thousands of random programs against the axioms of the standard, spelled out independently.
TEST(Memory, AgreesWithTheAxiomsOfTheStandard) {
  std::size_t outcomes = 0;
  for (std::uint64_t seed = 1; seed <= 8'000; ++seed) {
    const RandomProgram program = litmus_program(seed);
    Outcomes explored;
    const Result result = outcomes_of(program, {.name = "axioms"}, explored);
    ASSERT_TRUE(result.complete) << "seed " << seed;
    ASSERT_EQ(explored, Axioms(program).outcomes()) << "seed " << seed;
    outcomes += explored.size();
  }
  EXPECT_EQ(outcomes, 124'481U);
}

}  // namespace
}  // namespace weft::model
