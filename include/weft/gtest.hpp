// WEFT_SIM_TEST: a GoogleTest test that is run under many simulated schedules.
//
//   WEFT_SIM_TEST(Bank, KeepsMoney) {
//     Account account{100};
//     weft::nursery([&](weft::Nursery& n) {
//       n.spawn("withdraw", [&] { account.withdraw(10); });
//       n.spawn("deposit", [&] { account.deposit(10); });
//     });
//     EXPECT_EQ(account.balance(), 100);
//   }
//
// With options: WEFT_SIM_TEST(Bank, KeepsMoney, .runs = 5000, .schedule = weft::Schedule::pct).
//
// The body is what weft::explore() calls for each run; <weft/explore.hpp> says which runs fail.
// EXPECT_*, ASSERT_*, FAIL() and ADD_FAILURE(), in the body and in every fiber below it, make their
// run fail; ASSERT_* and FAIL() leave the function they stand in, not the run. The test then fails
// once, with the first failure found: what it says, the schedule made smaller, the last events, and
// the line that replays it. GTEST_SKIP() skips the test, unless some run fails.
//
// With WEFT_REPLAY='Suite.Name@w1:…' the test runs that schedule alone. Its assertions are reported
// as in any other test, and all of its events are printed.
//
// If Suite is a class derived from testing::Test, it is the fixture, as with TEST_F, with which it
// may share the suite. It is made, set up, torn down and destroyed in each run, inside of the
// simulation; SetUpTestSuite() comes once, before all. As Suite is looked up as a class, it cannot
// be the name of a template, an alias, an enumeration or a namespace. Tests with parameters, and
// typed ones, call sim_test() below.
//
// No operation of weft's inside SCOPED_TRACE, EXPECT_NO_FATAL_FAILURE and its kin, if several
// fibers use them (with .preempt = false: no wait): GoogleTest has a stack of them for each thread,
// fibers share one, and each operation may be overtaken. HasFailure() and its kin know nothing of a
// run.
//
// This header needs GoogleTest, which the library itself does not.
#pragma once

#include <weft/explore.hpp>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <errno.h>

#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weft {

namespace detail::gtest {

// Where a test part stands and what it says, as GoogleTest would begin it.
inline std::string to_text(const ::testing::TestPartResult& part) {
  std::string text;
  if (part.file_name() != nullptr)
    text = part.file_name() + (":" + std::to_string(part.line_number())) + ": ";
  return text + part.message();
}

// Takes the place of GoogleTest's reporter on this thread while runs are made, and keeps what the
// run under way reported first.
class RunAssertions final : public ::testing::ScopedFakeTestPartResultReporter {
 public:
  RunAssertions() : ScopedFakeTestPartResultReporter(INTERCEPT_ONLY_CURRENT_THREAD, nullptr) {
    current() = this;
  }
  ~RunAssertions() override { current() = nullptr; }

  void ReportTestPartResult(const ::testing::TestPartResult& part) override {
    if (part.failed() && failure_.empty()) failure_ = to_text(part);
    if (part.skipped()) why_skipped_ = part.message();
    over_ = over_ || part.fatally_failed() || part.skipped();
  }

  void begin_run() { failure_.clear(), over_ = false; }
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  // Set if any run was skipped.
  [[nodiscard]] const std::optional<std::string>& why_skipped() const noexcept {
    return why_skipped_;
  }
  // After SetUp(): whether it asked for the body not to be run.
  [[nodiscard]] static bool body_is_off() {
    if (current() != nullptr) return current()->over_;
    return ::testing::Test::HasFatalFailure() || ::testing::Test::IsSkipped();
  }

 private:
  // Runs are made on one thread, one after another; null in a replay.
  static RunAssertions*& current() noexcept {
    static RunAssertions* it = nullptr;
    return it;
  }

  std::string failure_;
  std::optional<std::string> why_skipped_;
  bool over_ = false;
};

// For a replay, in which assertions go their usual way: the first that failed, from `begin` on.
inline std::string first_failure(const ::testing::TestResult& result, int begin) {
  for (int i = begin; i < result.total_part_count(); ++i)
    if (result.GetTestPartResult(i).failed()) return to_text(result.GetTestPartResult(i));
  return {};
}

// A word as the shell takes it.
inline std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return text + "'";
}

// The command that runs the test of that name alone.
inline std::string command_for(const std::string& name) {
  std::string command = quoted(program_invocation_name) + " " + quoted("--gtest_filter=" + name);
  if (name.find("DISABLED_") != std::string::npos) command += " --gtest_also_run_disabled_tests";
  return command;
}

// Whether WEFT_REPLAY is set, and means the test of that name or all.
inline bool is_replayed(std::string_view name) {
  const char* const set = std::getenv("WEFT_REPLAY");
  if (set == nullptr || *set == '\0') return false;
  const std::string_view text{set};
  const std::size_t at = text.rfind('@');
  return at == std::string_view::npos || text.substr(0, at) == name;
}

inline void skip(const std::string& why) { GTEST_SKIP() << why; }

inline Report sim_test(ExploreOptions options, const std::function<void()>& f) {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) throw std::logic_error{"weft::sim_test() is called outside of a test"};
  const std::string full_name = std::string{test->test_suite_name()} + "." + test->name();
  if (options.name.empty()) options.name = full_name;
  if (options.command.empty()) options.command = command_for(full_name);
  const bool print = std::exchange(options.print, false);  // by GoogleTest, if anything fails

  const bool replays = is_replayed(options.name);
  std::optional<RunAssertions> ours;
  if (!replays) ours.emplace();
  const int begin = test->result()->total_part_count();
  options.assertion = [&, others = std::move(options.assertion)] {
    std::string failure = ours ? ours->failure() : first_failure(*test->result(), begin);
    return failure.empty() && others ? others() : failure;
  };
  Report report = weft::explore(options, [&] {
    if (ours) ours->begin_run();
    f();
  });
  const std::optional<std::string> why_skipped = ours ? ours->why_skipped() : std::nullopt;
  ours.reset();

  const bool is_said = replays && !first_failure(*test->result(), begin).empty();
  if (report.first && !is_said)
    ADD_FAILURE_AT(test->file(), test->line()) << to_string(*report.first) << to_string(report);
  else if (why_skipped)
    skip(*why_skipped);
  else if (print && !GTEST_FLAG_GET(brief))
    std::fprintf(stderr, "weft: %s\n", to_string(report).c_str());
  return report;
}

// ── what WEFT_SIM_TEST is made of ───────────────────────────────────────────────────────────────

template <class T>
concept FixtureClass = sizeof(T) != 0 && std::derived_from<T, ::testing::Test>;

// The base of a test in the suite T: a class that the macro may only just have declared.
template <class T>
using FixtureOf = std::conditional_t<FixtureClass<T>, T, ::testing::Test>;

// What a fixture may have overridden in private.
struct FixtureDoors : ::testing::Test {
  static constexpr auto kSetUp = &FixtureDoors::SetUp;
  static constexpr auto kTearDown = &FixtureDoors::TearDown;
};

// A test's object as one run has it.
template <class Fixture>
class SimRun : public Fixture {
 public:
  // As GoogleTest does: TearDown() comes in any case.
  void run_once() {
    std::exception_ptr failure;
    attempt(failure, [this] {
      (this->*FixtureDoors::kSetUp)();
      if (!RunAssertions::body_is_off()) TestBody();
    });
    attempt(failure, [this] { (this->*FixtureDoors::kTearDown)(); });
    if (failure) std::rethrow_exception(failure);
  }

 private:
  void TestBody() override = 0;

  template <class F>
  static void attempt(std::exception_ptr& failure, F f) {
    try {
      f();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
};

// A test's object as GoogleTest has it.
class SimTest final : public ::testing::Test {
 public:
  SimTest(const ExploreOptions& options, void (*run)()) : options_(options), run_(run) {}

 private:
  void TestBody() override { static_cast<void>(sim_test(options_, run_)); }

  const ExploreOptions& options_;
  void (*const run_)();
};

class SimTestFactory final : public ::testing::internal::TestFactoryBase {
 public:
  SimTestFactory(ExploreOptions options, void (*run)()) : options_(std::move(options)), run_(run) {}
  ::testing::Test* CreateTest() override { return new SimTest{options_, run_}; }

 private:
  const ExploreOptions options_;
  void (*const run_)();
};

// By the function below TEST_F, as the public one wants objects of the fixture's own class, made
// outside of the simulation.
template <class Run, class Fixture>
bool register_sim_test(const char* suite, const char* name, const char* file, int line,
                       ExploreOptions options) {
  namespace internal = ::testing::internal;
  using Suite = internal::SuiteApiResolver<Fixture>;
  const internal::TypeId id = std::is_same_v<Fixture, ::testing::Test>
                                  ? internal::GetTestTypeId()
                                  : internal::GetTypeId<Fixture>();
  void (*const run)() = [] { std::make_unique<Run>()->run_once(); };
  internal::MakeAndRegisterTestInfo(
      suite, name, nullptr, nullptr, internal::CodeLocation(file, line), id,
      Suite::GetSetUpCaseOrSuite(file, line), Suite::GetTearDownCaseOrSuite(file, line),
      new SimTestFactory{std::move(options), run});
  return true;
}

}  // namespace detail::gtest

// Explores `f` as the running test: what WEFT_SIM_TEST does, for tests with parameters, typed ones,
// and those with something to do before or after. Each run must make anew what it changes: the
// test's own object is one for all of them. Throws what explore() throws, and std::logic_error
// outside of a test.
//
//   TEST_P(Bank, KeepsMoney) {
//     weft::sim_test({.runs = 500}, [] { Account account{GetParam()}; ... });
//   }
template <std::invocable<> F>
Report sim_test(ExploreOptions options, F f) {
  return detail::gtest::sim_test(std::move(options), [&f] { static_cast<void>(f()); });
}

}  // namespace weft

// The class has the name that TEST would give it, for FRIEND_TEST. The pragma: a fixture may be a
// struct, too.
#define WEFT_SIM_TEST(Suite, Name, ...)                                                         \
  _Pragma("GCC diagnostic push")                                                                \
      _Pragma("GCC diagnostic ignored \"-Wmismatched-tags\"") class Suite##_##Name##_Test final \
      : public ::weft::detail::gtest::SimRun<::weft::detail::gtest::FixtureOf<class Suite>> {   \
    void TestBody() override;                                                                   \
    static const bool registered_;                                                              \
  };                                                                                            \
  const bool Suite##_##Name##_Test::registered_ =                                               \
      ::weft::detail::gtest::register_sim_test<Suite##_##Name##_Test,                           \
                                               ::weft::detail::gtest::FixtureOf<class Suite>>(  \
          #Suite, #Name, __FILE__, __LINE__, ::weft::ExploreOptions{__VA_ARGS__});              \
  _Pragma("GCC diagnostic pop") void Suite##_##Name##_Test::TestBody()
