// Does each search cover what it claims to cover, and find what it must find?
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "explorer/explore.hpp"
#include "explorer/selftest/programs.hpp"
#include "explorer/selftest/random_program.hpp"
#include "model_sync.hpp"

namespace weft::model {
namespace {

using namespace selftest;

TEST(Search, ThreeThreadsOfTwoReadModifyWritesHaveNinetyOrders) {
  const Result result = explore({.name = "3 x 2 RMW"}, [](Program& p) {
    auto& s = p.make<Litmus>();
    for (int i = 0; i < 3; ++i)
      p.thread("adder", [&s] {
        s.x.fetch_add(1, relaxed);
        s.x.fetch_add(1, relaxed);
      });
    p.at_end([&s] { check(s.x.load() == 6, "all six were added"); });
  });
  EXPECT_TRUE(result.complete);
  EXPECT_FALSE(result.failed);
  EXPECT_EQ(result.executions, 90U);
  EXPECT_EQ(result.pruned, 0U);
  EXPECT_EQ(result.steps, 540U);
  EXPECT_EQ(result.max_depth, 6U);
}

TEST(Search, IndependentThreadsNeedOneExecution) {
  const Result result = explore({.name = "12 independent threads"}, [](Program& p) {
    struct State {
      Sync::Atomic<int> word[12];
    };
    auto& s = p.make<State>();
    for (int i = 0; i < 12; ++i)
      p.thread("thread", [&s, i] {
        for (int k = 0; k < 25; ++k) s.word[i].store(k);
      });
  });
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.executions, 1U);
}

struct Comparison {
  std::uint64_t reduced = 0;  // executions that DPOR needed
  std::uint64_t all = 0;
  unsigned failures = 0;  // programs that deadlock or spin for ever
};

// Plain depth-first search without any reduction must find the same outcomes as DPOR.
template <std::size_t kOps>
Comparison compare_searches(std::uint64_t programs, const Op (&ops)[kOps]) {
  Comparison sum;
  for (std::uint64_t seed = 1; seed <= programs; ++seed) {
    const auto shape = seed % 2 == 0 ? Shape{2, 3} : Shape{3, 2};
    const auto program = random_program(seed, shape, ops);
    Options reduced{.name = "dpor"};
    reduced.weak_cas = seed % 3 == 0;
    reduced.spurious_wakes = seed % 5 == 0;
    Options unreduced = reduced;
    unreduced.mode = Mode::bound;
    unreduced.bound = 1'000'000;
    Outcomes by_dpor;
    Outcomes by_force;
    const Result dpor = outcomes_of(program, reduced, by_dpor);
    const Result force = outcomes_of(program, unreduced, by_force);
    EXPECT_EQ(dpor.kind, force.kind) << "seed " << seed;
    if (dpor.failed) {
      ++sum.failures;
      continue;
    }
    EXPECT_EQ(by_dpor, by_force) << "seed " << seed;
    sum.reduced += dpor.executions;
    sum.all += force.executions;
  }
  return sum;
}

TEST(Search, DporAgreesWithExhaustiveSearch) {
  const Comparison sum = compare_searches(
      400, {Op::load, Op::store, Op::store, Op::exchange, Op::fence, Op::compare_exchange,
            Op::locked_add, Op::try_lock, Op::lock_both, Op::choose});
  EXPECT_EQ(sum.failures, 0U);
  EXPECT_EQ(sum.reduced, 3'270U);
  EXPECT_EQ(sum.all, 224'116U);
}

TEST(Search, DporAgreesWithExhaustiveSearchOnWaits) {
  const Comparison sum = compare_searches(
      400, {Op::load, Op::store, Op::store, Op::store, Op::exchange, Op::compare_exchange,
            Op::locked_add, Op::sleep, Op::wake, Op::wake, Op::await});
  EXPECT_EQ(sum.failures, 163U);
  EXPECT_EQ(sum.reduced, 2'777U);
  EXPECT_EQ(sum.all, 1'142'726U);
}

struct Detection {
  Mode mode;
  unsigned parameter;  // bound or depth
  std::uint64_t executions;
};

void expect_detections(const char* name, void (*program)(Program&),
                       const std::vector<Detection>& detections) {
  for (const Detection& expected : detections) {
    const Result result = explore({.name = name,
                                   .mode = expected.mode,
                                   .bound = expected.parameter,
                                   .depth = expected.parameter,
                                   .max_executions = 10'000},
                                  program);
    EXPECT_EQ(result.kind, Failure::deadlock) << name;
    EXPECT_EQ(result.executions, expected.executions) << name;
  }
}

TEST(Search, EveryModeFindsTheStoreBufferLostWake) {
  expect_detections("worker sleep, acquire release", sleepy_worker<release, acquire>,
                    {{Mode::dpor, 0, 3},
                     {Mode::bound, 0, 3},
                     {Mode::bound, 2, 3},
                     {Mode::pct, 2, 4},
                     {Mode::pct, 3, 6},
                     {Mode::random, 0, 1}});
  const Result good = explore({.name = "worker sleep, seq_cst"}, sleepy_worker<seq_cst, seq_cst>);
  EXPECT_TRUE(good.complete);
  EXPECT_FALSE(good.failed) << good.report;
  EXPECT_EQ(good.executions, 13U);
  EXPECT_GT(good.sleeps, 0U);
}

TEST(Search, EveryModeFindsTheTwoWordLatch) {
  expect_detections("two-word latch", two_word_latch,
                    {{Mode::dpor, 0, 12},
                     {Mode::bound, 1, 6},
                     {Mode::bound, 2, 13},
                     {Mode::pct, 2, 46},
                     {Mode::pct, 3, 4},
                     {Mode::random, 0, 2}});
}

TEST(Search, TheBoundIsABound) {
  // The latch needs the fiber to be stopped between look and store: one pre-emption.
  const Result none = explore(
      {.name = "two-word latch, no pre-emption", .mode = Mode::bound, .bound = 0}, two_word_latch);
  EXPECT_FALSE(none.failed);
  EXPECT_TRUE(none.complete);
  EXPECT_EQ(none.coverage, Coverage::bound);
}

TEST(Search, TheBudgetIsSaid) {
  const auto many = [](Program& p) {
    auto& s = p.make<Litmus>();
    for (int i = 0; i < 3; ++i)
      p.thread("adder", [&s] {
        s.x.fetch_add(1);
        s.x.fetch_add(1);
      });
  };
  const Result few = explore({.name = "budget", .max_executions = 50}, many);
  EXPECT_FALSE(few.complete);
  EXPECT_EQ(few.coverage, Coverage::budget);
  EXPECT_EQ(few.executions, 50U);
  const Result sampled =
      explore({.name = "budget", .mode = Mode::random, .max_executions = 200}, many);
  EXPECT_FALSE(sampled.complete);
  EXPECT_EQ(sampled.executions, 200U);
}

TEST(Search, ChooseExploresEveryValue) {
  std::set<Values> seen;
  const Result result = explore({.name = "choose"}, [&](Program& p) {
    auto& s = p.make<Litmus>();
    s.r[2] = static_cast<int>(choose(2));
    p.thread("one", [&s] { s.r[0] = static_cast<int>(choose(3)); });
    p.thread("two", [&s] { s.r[1] = static_cast<int>(choose(2)); });
    p.at_end([&s, &seen] { seen.insert({s.r[0], s.r[1], s.r[2]}); });
  });
  EXPECT_EQ(seen.size(), 12U);
  EXPECT_EQ(result.executions, 12U);
}

}  // namespace
}  // namespace weft::model
