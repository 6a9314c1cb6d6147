// WEFT_SIM_TEST: tests that pass, and in processes of their own tests that fail, whose reports are
// read and whose replay lines are given to a shell.
#include <weft/gtest.hpp>

#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <support/child_process.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::TestPartResult;
using ::testing::TestPartResultArray;

int occurrences(std::string_view text, std::string_view of) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(of, at)) != std::string_view::npos; at += of.size())
    ++count;
  return count;
}

// Two that read, give way and write.
int count_carelessly() {
  int count = 0;
  const auto increment = [&count] {
    const int seen = count;
    this_fiber::yield();
    count = seen + 1;
  };
  nursery([&](Nursery& n) {
    n.spawn("left", increment);
    n.spawn("right", increment);
  });
  return count;
}

int count_carefully() {
  int count = 0;
  Mutex guard;
  const auto increment = [&] {
    const std::scoped_lock lock{guard};
    const int seen = count;
    this_fiber::yield();
    count = seen + 1;
  };
  nursery([&](Nursery& n) {
    n.spawn("left", increment);
    n.spawn("right", increment);
  });
  return count;
}

// ── tests that pass ─────────────────────────────────────────────────────────────────────────────

WEFT_SIM_TEST(Plain, IsSimulated) {
  EXPECT_EQ(io().kind(), "SimIo");
  const Instant begin = Clock::now();
  sleep_for(1h);
  EXPECT_EQ(Clock::now() - begin, 1h);
  ASSERT_EQ(count_carefully(), 2);
}

WEFT_SIM_TEST(Plain, TakesOptions, .runs = 20, .schedule = Schedule::pct, .depth = 2,
              .stack_bytes = 64 * 1024) {
  EXPECT_EQ(count_carefully(), 2);
}

WEFT_SIM_TEST(Plain, CanBeExhaustive, .runs = 0, .schedule = Schedule::exhaustive,
              .preemptions = 1) {
  EXPECT_EQ(count_carefully(), 2);
}

TEST(Plain, SharesTheSuiteWithOthers) { EXPECT_THROW(static_cast<void>(io()), std::logic_error); }

// A suite may be called as a class that is no fixture, and as a function.
struct Loom {};
[[maybe_unused]] void shuttle() {}
WEFT_SIM_TEST(Loom, IsNoFixture, .runs = 2) { EXPECT_TRUE((std::is_empty_v<Loom>)); }
WEFT_SIM_TEST(shuttle, IsAFunction, .runs = 2) { shuttle(); }

struct Fixture : ::testing::Test {
  static void SetUpTestSuite() {
    suites_set_up++;
    try {
      static_cast<void>(sim_test({}, [] {}));
    } catch (const std::logic_error&) {
      refused = true;
    }
  }

  Fixture() : wheel{"wheel"} { inside = inside && io_kind() == expected_kind; }
  ~Fixture() override { inside = inside && io_kind() == expected_kind; }

  static std::string_view io_kind() {
    try {
      return io().kind();
    } catch (const std::logic_error&) {
      return "none";
    }
  }

  static inline int suites_set_up = 0;
  static inline bool refused = false;
  static inline bool inside = true;
  static inline std::string_view expected_kind = "SimIo";

  Event wheel;
  int touched = 0;
  bool set_up = false;

 private:  // as some write it
  void SetUp() override {
    yield_if_inside();
    set_up = true;
  }
  void TearDown() override { yield_if_inside(); }
  static void yield_if_inside() {
    if (io_kind() == "SimIo") this_fiber::yield();
  }
};

WEFT_SIM_TEST(Fixture, IsMadeAnewInEachRun, .runs = 50) {
  EXPECT_EQ(++touched, 1);
  EXPECT_TRUE(set_up);
  EXPECT_TRUE(inside);
  EXPECT_EQ(suites_set_up, 1);
  nursery([&](Nursery& n) {
    n.spawn([&] { wheel.wait(); });
    n.spawn([&] { wheel.set(); });
  });
}

TEST_F(Fixture, SharesTheSuiteWithOthers) {
  EXPECT_TRUE(set_up);
  EXPECT_TRUE(refused) << "sim_test() outside of a test";
}

class Numbered : public ::testing::TestWithParam<int> {};
TEST_P(Numbered, TellsTheNumberToEachRun) {
  const Report report = sim_test({.runs = 20, .print = false}, [] {
    EXPECT_EQ(count_carefully(), 2);
    EXPECT_GE(GetParam(), 1);
  });
  EXPECT_EQ(report.name, "All/Numbered.TellsTheNumberToEachRun/" + std::to_string(GetParam() - 1));
  EXPECT_EQ(report.runs, 20U);
}
INSTANTIATE_TEST_SUITE_P(All, Numbered, ::testing::Values(1, 2));

template <class T>
class Typed : public ::testing::Test {};
using Types = ::testing::Types<int, std::string>;
TYPED_TEST_SUITE(Typed, Types);
TYPED_TEST(Typed, MovesThroughAChannel) {
  const Report report = sim_test({.runs = 20, .print = false}, [] {
    Channel<TypeParam> channel{1};
    EXPECT_TRUE(channel.tx.send(TypeParam{}));
    EXPECT_EQ(channel.rx.recv(), TypeParam{});
  });
  EXPECT_TRUE(report);
}

// ── tests that fail, seen from inside ───────────────────────────────────────────────────────────

// What sim_test() reported, which must be one failure.
template <class F>
std::string failure_of(const ExploreOptions& options, F f) {
  TestPartResultArray parts;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter{
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &parts};
    static_cast<void>(sim_test(options, f));
  }
  if (parts.size() != 1 || !parts.GetTestPartResult(0).nonfatally_failed())
    return std::to_string(parts.size()) + " results";
  return parts.GetTestPartResult(0).message();
}

TEST(Failing, IsReportedOnceHoweverManyRunsAndAssertionsFail) {
  const std::string failure = failure_of({.runs = 100, .max_failures = 0}, [] {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(count_carelessly(), 2) << "lost an update";
  });
  EXPECT_EQ(occurrences(failure, "lost an update"), 1) << failure;
  EXPECT_NE(failure.find("gtest_adapter_test.cpp:"), std::string::npos) << failure;
}

TEST(Failing, ForgetsOneRunsAssertionsInTheNext) {
  int run = 0;
  const std::string failure =
      failure_of({.runs = 3, .max_failures = 0, .shrink = false, .twice = 0}, [&run] {
        if (++run == 2) ADD_FAILURE() << "in the second";
      });
  EXPECT_NE(failure.find("in the second"), std::string::npos) << failure;
  EXPECT_NE(failure.find("3 runs"), std::string::npos) << failure;
  EXPECT_NE(failure.find("1 fail"), std::string::npos) << failure;
}

TEST(Failing, ByAnAssertionOfTheUsersOwn) {
  bool asked = false;
  const std::string failure = failure_of({.runs = 1,
                                          .shrink = false,
                                          .assertion =
                                              [&asked] {
                                                asked = true;
                                                return std::string{"a broken invariant"};
                                              }},
                                         [] {});
  EXPECT_TRUE(asked);
  EXPECT_NE(failure.find("a broken invariant"), std::string::npos) << failure;
}

TEST(Failing, LeavesTheReporterAsItWas) {
  static_cast<void>(failure_of({.runs = 5}, [] { ADD_FAILURE(); }));
  EXPECT_NONFATAL_FAILURE(ADD_FAILURE() << "seen", "seen");
  EXPECT_THROW(static_cast<void>(sim_test({.stack_bytes = 1}, [] {})), std::invalid_argument);
  EXPECT_NONFATAL_FAILURE(ADD_FAILURE() << "seen", "seen");
}

TEST(Failing, WordsAreQuotedForTheShell) {
  EXPECT_EQ(detail::gtest::quoted("./a_test"), "./a_test");
  EXPECT_EQ(detail::gtest::quoted("a test"), "'a test'");
  EXPECT_EQ(detail::gtest::quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(detail::gtest::quoted("--gtest_filter=A.*"), "'--gtest_filter=A.*'");
}

// ── tests that fail, seen from outside ──────────────────────────────────────────────────────────

WEFT_SIM_TEST(Victims, DISABLED_LosesAnUpdate) {
  EXPECT_EQ(count_carelessly(), 2) << "lost an update";
}

WEFT_SIM_TEST(Victims, DISABLED_AssertsInAChild) {
  Event first{"first"};
  bool begun = false;
  nursery([&](Nursery& n) {
    n.spawn("checker", [&] {
      ASSERT_TRUE(begun) << "the checker came first";
      ADD_FAILURE() << "never reached in the same run";
    });
    n.spawn("beginner", [&] { begun = true; });
  });
}

WEFT_SIM_TEST(Victims, DISABLED_Throws, .schedule = Schedule::pct) {
  if (count_carelessly() != 2) throw std::runtime_error{"money is gone"};
}

WEFT_SIM_TEST(Victims, DISABLED_Deadlocks) {
  Mutex left{"left"};
  Mutex right{"right"};
  const auto both = [](Mutex& one, Mutex& other) {
    const std::scoped_lock first{one};
    const std::scoped_lock second{other};
  };
  nursery([&](Nursery& n) {
    n.spawn("lefty", [&] { both(left, right); });
    n.spawn("righty", [&] { both(right, left); });
  });
}

WEFT_SIM_TEST(Victims, DISABLED_NeverEnds, .runs = 3, .max_steps = 2000, .shrink_runs = 5) {
  bool done = false;
  nursery([&](Nursery& n) {
    n.spawn("spinner", [&] {
      while (!done) this_fiber::yield();
    });
  });
}

struct Broken : ::testing::Test {
  void SetUp() override { ASSERT_EQ(count_carelessly(), 2) << "no wheel"; }
  void TearDown() override { EXPECT_TRUE(true); }
};
WEFT_SIM_TEST(Broken, DISABLED_Fixture) { throw std::runtime_error{"the body ran all the same"}; }

struct Victim {
  const char* name;
  std::vector<const char*> words;  // of the report, and of the replay

  friend void PrintTo(const Victim& victim, std::ostream* out) { *out << victim.name; }
};

class Reports : public ::testing::TestWithParam<Victim> {};

TEST_P(Reports, OnceAndWithALineThatShowsItAgain) {
  const std::string name = GetParam().name;
  const testing::ChildResult found =
      testing::run_child({testing::sibling_program("gtest_adapter_test"),
                          "--gtest_also_run_disabled_tests", "--gtest_filter=" + name});
  EXPECT_EQ(found.exit_code, 1) << found.output;
  EXPECT_EQ(occurrences(found.output, ": Failure\n"), 1) << found.output;
  EXPECT_NE(found.output.find("seed"), std::string::npos) << found.output;
  for (const char* const word : GetParam().words)
    EXPECT_NE(found.output.find(word), std::string::npos) << word << '\n' << found.output;

  const std::size_t at = found.output.find("WEFT_REPLAY='" + name + "@w1:");
  ASSERT_NE(at, std::string::npos) << found.output;
  const std::string line = found.output.substr(at, found.output.find('\n', at) - at);
  EXPECT_NE(line.find("--gtest_filter=" + name), std::string::npos) << line;

  const testing::ChildResult again = testing::run_child({"/bin/sh", "-c", line});
  EXPECT_EQ(again.exit_code, 1) << line << '\n' << again.output;
  EXPECT_NE(again.output.find("1 test from 1 test suite ran"), std::string::npos) << again.output;
  EXPECT_EQ(occurrences(again.output, ": Failure\n"), 1) << again.output;
  for (const char* const word : GetParam().words)
    EXPECT_NE(again.output.find(word), std::string::npos) << word << '\n' << again.output;
}

INSTANTIATE_TEST_SUITE_P(
    All, Reports,
    ::testing::Values(
        Victim{"Victims.DISABLED_LosesAnUpdate", {"lost an update", "\"left\""}},
        Victim{"Victims.DISABLED_AssertsInAChild", {"the checker came first"}},
        Victim{"Victims.DISABLED_Throws", {"exception: money is gone"}},
        Victim{"Victims.DISABLED_Deadlocks", {"deadlock: ", "\"lefty\"", "\"righty\""}},
        Victim{"Victims.DISABLED_NeverEnds", {"step limit: after 2000 steps", "\"spinner\""}},
        Victim{"Broken.DISABLED_Fixture", {"no wheel"}}),
    [](const ::testing::TestParamInfo<Victim>& victim) {
      const std::string_view name = victim.param.name;
      return std::string{name.substr(name.rfind('_') + 1)};
    });

WEFT_SIM_TEST(Victims, DISABLED_Skips) { GTEST_SKIP() << "not on this loom"; }

TEST(Skipping, SkipsTheTest) {
  const testing::ChildResult run = testing::run_child(
      {testing::sibling_program("gtest_adapter_test"), "--gtest_also_run_disabled_tests",
       "--gtest_filter=Victims.DISABLED_Skips"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(occurrences(run.output, "not on this loom"), 1) << run.output;
  EXPECT_NE(run.output.find("1 test, listed below"), std::string::npos) << run.output;
}

// ── replaying ───────────────────────────────────────────────────────────────────────────────────

testing::ChildResult replayed(const std::string& schedule, const std::string& name) {
  return testing::run_child({testing::sibling_program("gtest_adapter_test"),
                             "--gtest_also_run_disabled_tests", "--gtest_filter=" + name},
                            {"WEFT_REPLAY=" + schedule});
}

TEST(Replaying, IsForTheTestThatIsNamed) {
  const testing::ChildResult run =
      replayed("Victims.DISABLED_Throws@w1:0:1.1", "Plain.TakesOptions");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("20 runs"), std::string::npos) << run.output;
}

TEST(Replaying, PassesIfThatScheduleDoes) {
  const testing::ChildResult run = replayed("w1:0:*", "Plain.TakesOptions");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("1 run,"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("#2 \"left\""), std::string::npos) << run.output;
}

TEST(Replaying, OfAnotherProgramsScheduleFails) {
  const testing::ChildResult run = replayed("w1:0:7.7.7", "Plain.TakesOptions");
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_NE(run.output.find("that of another program"), std::string::npos) << run.output;
}

TEST(Replaying, OfWhatIsNoScheduleFails) {
  const testing::ChildResult run = replayed("Plain.TakesOptions@w0", "Plain.TakesOptions");
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_NE(run.output.find("not a schedule"), std::string::npos) << run.output;
}

TEST(Replaying, SkipsWhatSkips) {
  const testing::ChildResult run = replayed("w1:0:*", "Victims.DISABLED_Skips");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(occurrences(run.output, "not on this loom"), 1) << run.output;
  EXPECT_NE(run.output.find("1 test, listed below"), std::string::npos) << run.output;
}

}  // namespace
}  // namespace weft
