// Part of every test program on the library: the runs under BlockingIo.
#include <weft/blocking_io.hpp>
#include <weft/core/error.hpp>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include <support/engines.hpp>
#include <support/needs_concurrency.hpp>

namespace weft::testing {
namespace {

// Among them "Instance/Suite.Test/Parameter" and "Suite/Type.Test".
std::string name_of(const ::testing::TestInfo& test) {
  return std::string{test.test_suite_name()} + '.' + test.name();
}

std::string without_parameter(const ::testing::TestInfo& test) {
  const std::string_view suite = test.test_suite_name();
  const std::string_view name = test.name();
  const std::size_t value = name.find('/');
  const bool typed = value == name.npos;
  return std::string{typed ? suite.substr(0, suite.find('/')) : suite.substr(suite.find('/') + 1)} +
         '.' + std::string{name.substr(0, value)};
}

std::optional<Need> need_of(const ::testing::TestInfo& test) {
  for (const std::string& name : {name_of(test), without_parameter(test)})
    for (const NeedsConcurrency& listed : kNeedConcurrency)
      if (listed.test == name) return listed.need;
  return std::nullopt;
}

bool is_run(Need need) {
  switch (need) {
    case Need::polls:
    case Need::real_time:
    case Need::no_way_out:
    case Need::foreign_spawn: return false;
    default: return true;
  }
}

bool raised_deadlock(const BlockingIo& engine) {
  try {
    engine.raise_deadlock();
  } catch (const Deadlock& last) {
    return !std::string_view{last.what()}.empty();
  }
}

constexpr int kTries = 20;  // some draw how much they do: with little, they might pass

struct Outcome {
  bool deadlock = false;
  std::string failures;
};

// Runs `f` with its failures kept from the test.
Outcome try_out(const std::function<void()>& f) {
  ::testing::TestPartResultArray results;
  Outcome outcome;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter{
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results};
    BlockingIo engine;
    try {
      engine.run(f);
    } catch (const std::exception& error) {
      outcome.failures = std::string{"run() throws: "} + error.what() + '\n';
    } catch (...) {
      outcome.failures = "run() throws\n";
    }
    outcome.deadlock = raised_deadlock(engine);
  }
  for (int i = 0; i < results.size(); ++i)
    if (results.GetTestPartResult(i).failed())
      outcome.failures += std::string{results.GetTestPartResult(i).message()} + '\n';
  return outcome;
}

// A test may have several bodies, and some would pass. At its end, one must have needed others.
class ListIsTrue : public ::testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (tried && !test.result()->Skipped() && !needed)
      ADD_FAILURE() << name_of(test) << " passes under BlockingIo: it is to be removed from "
                    << "tests/support/needs_concurrency.hpp";
    tried = needed = false;
  }

  bool tried = false;
  bool needed = false;
};

ListIsTrue& list_is_true() {
  static ListIsTrue* const listener = [] {
    auto* const added = new ListIsTrue;
    ::testing::UnitTest::GetInstance()->listeners().Append(added);
    return added;
  }();
  return *listener;
}

}  // namespace

void on_blocking(const std::function<void()>& f) {
  SCOPED_TRACE("BlockingIo");
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  const std::optional<Need> need = need_of(test);
  if (!need) return BlockingIo{}.run(f);
  if (!is_run(*need)) return;
  if (*need == Need::thread)
    return BlockingIo{{.on_deadlock = OnDeadlock::automatic}}.run(f);
  list_is_true().tried = true;
  int tries = 0;
  do {
    const Outcome outcome = try_out(f);
    if (outcome.failures.empty()) continue;
    list_is_true().needed = true;
    if (outcome.deadlock != (*need != Need::at_once))
      ADD_FAILURE() << name_of(test) << " ends " << (outcome.deadlock ? "in a" : "without a")
                    << " Deadlock; tests/support/needs_concurrency.hpp says otherwise.\n"
                    << outcome.failures;
  } while (!list_is_true().needed && ++tries < kTries);
}

}  // namespace weft::testing
