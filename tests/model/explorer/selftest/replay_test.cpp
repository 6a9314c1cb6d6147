// Replay strings, traces and minimisation.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "explorer/explore.hpp"
#include "explorer/selftest/programs.hpp"
#include "model_sync.hpp"

namespace weft::model {
namespace {

using namespace selftest;

Result replay(const std::string& text, const std::function<Result()>& run) {
  setenv("WEFT_REPLAY", text.c_str(), 1);
  Result result = run();
  unsetenv("WEFT_REPLAY");
  return result;
}

TEST(Replay, RepeatsTheSameTrace) {
  for (const Mode mode : {Mode::dpor, Mode::bound, Mode::pct, Mode::random}) {
    const auto run = [mode] {
      return explore({.name = "two-word latch", .mode = mode}, two_word_latch);
    };
    const Result found = run();
    ASSERT_TRUE(found.failed);
    const Result again = replay(found.replay, run);
    EXPECT_EQ(again.executions, 1U);
    EXPECT_EQ(again.kind, found.kind);
    EXPECT_EQ(again.report, found.report);
  }
}

TEST(Replay, RefusesWhatDoesNotFit) {
  const auto run = [] { return explore({.name = "two-word latch"}, two_word_latch); };
  EXPECT_EQ(replay("two-word latch:a?", run).kind, Failure::replay);
  EXPECT_EQ(replay("two-word latch:a=", run).kind, Failure::replay);
  EXPECT_EQ(replay("two-word latch:ef", run).kind, Failure::replay);
  EXPECT_EQ(replay("two-word latch:a9000", run).kind, Failure::replay);
  EXPECT_EQ(replay("another model:ab", run).kind, Failure::deadlock) << "not for this model";
}

TEST(Replay, TracesNameStoresAndLines) {
  const Result result = explore({.name = "stale read"}, [](Program& p) {
    auto& s = p.make<Litmus>();
    name(&s.x, "flag");
    p.thread("writer", [&s] {
      s.x.store(1, relaxed);
      s.y.store(1, relaxed);
    });
    p.thread("reader", [&s] {
      if (s.y.load(relaxed) == 1) check(s.x.load(relaxed) == 1, "the flag is seen");
    });
  });
  EXPECT_EQ(result.kind, Failure::assertion);
  EXPECT_NE(result.report.find("flag.store 1 relaxed   as #1"), std::string::npos) << result.report;
  EXPECT_NE(result.report.find("flag.load relaxed = 0   from #0 of main (programs.hpp:"),
            std::string::npos)
      << result.report;
  EXPECT_NE(result.report.find(", newest is #1"), std::string::npos) << result.report;
}

TEST(Replay, TheReportHasTheFewestPreemptions) {
  const auto program = [](Program& p) {
    auto& s = p.make<Litmus>();
    for (int i = 0; i < 2; ++i)
      p.thread("adder", [&s] {
        for (int k = 0; k < 4; ++k) s.x.store(s.x.load(seq_cst) + 1, seq_cst);
      });
    p.at_end([&s] { check(s.x.load() == 8, "no update is lost"); });
  };
  const Result result = explore({.name = "lost update", .mode = Mode::random}, program);
  EXPECT_EQ(result.kind, Failure::assertion);
  EXPECT_EQ(result.replay, "lost update:a7b8a");
}

}  // namespace
}  // namespace weft::model
