// Options: program, environment, machine, in this order; and what is refused.
#include <weft/engine.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft {
namespace {

using ::testing::ElementsAre;

// An environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before, was_set_ = true;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (was_set_) ::setenv(name_, before_.c_str(), 1);
    else ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

class OptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"WEFT_WORKERS", "WEFT_MAX_WORKERS", "WEFT_SCALE_INTERVAL", "WEFT_TEMP_IDLE_TIMEOUT",
          "WEFT_STACK_BYTES", "WEFT_MAX_FIBERS", "WEFT_MAX_BLOCKING", "WEFT_ON_DEADLOCK",
          "WEFT_SHUTDOWN_REPORT_AFTER", "WEFT_STALL_REPORT_AFTER", "WEFT_DUMP_SIGNAL", "WEFT_IO",
          "WEFT_RING_ENTRIES"})
      ::unsetenv(name);
  }
};

std::string refusal(const Options& options) {
  try {
    static_cast<void>(resolve(options));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}
std::string refusal(const char* variable, const std::string& value) {
  const Variable set{variable, value};
  return refusal(Options{});
}

TEST_F(OptionsTest, TheDefaultIsAWorkerPerUsableCore) {
  EXPECT_EQ(resolve({}).workers, usable_cores());
  EXPECT_GE(usable_cores(), 1U);
  EXPECT_EQ(FiberIo{}.options().workers, usable_cores());
  EXPECT_EQ(resolve({}).stack_bytes, 256U * 1024);
  EXPECT_EQ(resolve({}).max_fibers, 0U);
  EXPECT_EQ(resolve({}).max_blocking, 64U);
  EXPECT_EQ(resolve({}).on_deadlock, OnDeadlock::automatic);
}

TEST_F(OptionsTest, TheEnvironmentReplacesDefaults) {
  const Variable workers{"WEFT_WORKERS", "3"};
  const Variable stack{"WEFT_STACK_BYTES", "128K"};
  const Variable most{"WEFT_MAX_FIBERS", "2M"};
  const Variable blocking{"WEFT_MAX_BLOCKING", "5"};
  const Variable deadlock{"WEFT_ON_DEADLOCK", "report"};
  const Options resolved = resolve({});
  EXPECT_EQ(resolved.max_blocking, 5U);
  EXPECT_EQ(resolved.workers, 3U);
  EXPECT_EQ(resolved.stack_bytes, 128U * 1024);
  EXPECT_EQ(resolved.max_fibers, 2U * 1024 * 1024);
  EXPECT_EQ(resolved.on_deadlock, OnDeadlock::report);
  FiberIo io;
  EXPECT_EQ(io.options().workers, 3U);
  EXPECT_EQ(io.run([] { return 4; }), 4);
}

TEST_F(OptionsTest, WhatTheProgramSetsStands) {
  const Variable workers{"WEFT_WORKERS", "3"};
  const Variable stack{"WEFT_STACK_BYTES", "128K"};
  const Variable most{"WEFT_MAX_FIBERS", "7"};
  const Variable deadlock{"WEFT_ON_DEADLOCK", "report"};
  const Options resolved = resolve({.workers = 2,
                                    .stack_bytes = 64 * 1024,
                                    .max_fibers = 9,
                                    .on_deadlock = OnDeadlock::raise});
  EXPECT_EQ(resolved.workers, 2U);
  EXPECT_EQ(resolved.stack_bytes, 64U * 1024);
  EXPECT_EQ(resolved.max_fibers, 9U);
  EXPECT_EQ(resolved.on_deadlock, OnDeadlock::raise);
}

TEST_F(OptionsTest, BlockingCallsNeedAThreadAndNotTooMany) {
  for (const unsigned most : {0U, 1025U})
    EXPECT_THAT(refusal({.max_blocking = most}),
                ::testing::HasSubstr("max_blocking is " + std::to_string(most) +
                                     ": must be 1 to 1024"));
  EXPECT_EQ(resolve({.max_blocking = 1}).max_blocking, 1U);
}

TEST_F(OptionsTest, AnEmptyVariableIsNone) {
  const Variable workers{"WEFT_WORKERS", ""};
  const Variable deadlock{"WEFT_ON_DEADLOCK", ""};
  EXPECT_EQ(resolve({}).workers, usable_cores());
  EXPECT_EQ(resolve({}).on_deadlock, OnDeadlock::automatic);
}

TEST_F(OptionsTest, ZeroWorkersInTheEnvironmentAreTheUsableCores) {
  const Variable workers{"WEFT_WORKERS", "0"};
  EXPECT_EQ(resolve({}).workers, usable_cores());
}

TEST_F(OptionsTest, NumbersMayHaveUnits) {
  const auto bytes = [](const char* text) {
    const Variable stack{"WEFT_STACK_BYTES", text};
    return resolve({}).stack_bytes;
  };
  EXPECT_EQ(bytes("65536"), 65'536U);
  EXPECT_EQ(bytes("64K"), 65'536U);
  EXPECT_EQ(bytes("1M"), 1'048'576U);
  EXPECT_EQ(bytes("1G"), 1'073'741'824U);
}

TEST_F(OptionsTest, EveryWayToDealWithADeadlockHasAName) {
  const auto named = [](const char* text) {
    const Variable deadlock{"WEFT_ON_DEADLOCK", text};
    return resolve({}).on_deadlock;
  };
  EXPECT_EQ(named("automatic"), OnDeadlock::automatic);
  EXPECT_EQ(named("report"), OnDeadlock::report);
  EXPECT_EQ(named("raise"), OnDeadlock::raise);
}

TEST_F(OptionsTest, EveryReactorHasAName) {
  const auto named = [](const char* text) {
    const Variable reactor{"WEFT_IO", text};
    return resolve({}).reactor;
  };
  EXPECT_EQ(named("auto"), ReactorKind::automatic);
  EXPECT_EQ(named("uring"), ReactorKind::uring);
  EXPECT_EQ(named("epoll"), ReactorKind::epoll);
  EXPECT_THAT(refusal("WEFT_IO", "kqueue"), ::testing::HasSubstr("auto, uring or epoll"));
  const Variable other{"WEFT_IO", "uring"};
  EXPECT_EQ(resolve({.reactor = ReactorKind::epoll}).reactor, ReactorKind::epoll);
}

TEST_F(OptionsTest, RingsHaveEntries) {
  EXPECT_EQ(resolve({}).ring_entries, 256U);
  EXPECT_EQ(resolve({.ring_entries = 2}).ring_entries, 2U);
  const Variable entries{"WEFT_RING_ENTRIES", "1K"};
  EXPECT_EQ(resolve({}).ring_entries, 1024U);
  for (const unsigned bad : {0U, 32'769U})
    EXPECT_THAT(refusal({.ring_entries = bad}), ::testing::HasSubstr("must be 1 to 32768")) << bad;
}

TEST_F(OptionsTest, SignalsHaveNamesAndNumbers) {
  const auto named = [](const char* text) {
    const Variable signal{"WEFT_DUMP_SIGNAL", text};
    return resolve({}).dump_signal;
  };
  EXPECT_EQ(resolve({}).dump_signal, 0);
  EXPECT_EQ(named("USR2"), SIGUSR2);
  EXPECT_EQ(named("SIGQUIT"), SIGQUIT);
  EXPECT_EQ(named("10"), 10);
  EXPECT_EQ(named("0"), 0);
  EXPECT_EQ(describe({.dump_signal = SIGUSR1}).back().value, "SIGUSR1");
  EXPECT_EQ(describe({.dump_signal = SIGRTMIN}).back().value, std::to_string(SIGRTMIN));
  for (const char* const bad : {"usr1", "SIG", "10x", "USR1 "})
    EXPECT_THAT(refusal("WEFT_DUMP_SIGNAL", bad), ::testing::HasSubstr("a signal's name")) << bad;
  for (const int bad : {SIGKILL, SIGSEGV, -1, 1000})
    EXPECT_THAT(refusal({.dump_signal = bad}), ::testing::HasSubstr("dump_signal is ")) << bad;
}

// ── refusals ────────────────────────────────────────────────────────────────────────────────────

TEST_F(OptionsTest, NumbersThatAreNoneAreRefused) {
  for (const std::string bad : {"many", "-1", "+1", " 1", "1 ", "1.5", "0x10", "1k", "1KB", "K",
                                "99999999999999999999999", "18446744073709551615K"})
    for (const char* variable : {"WEFT_WORKERS", "WEFT_STACK_BYTES", "WEFT_MAX_FIBERS"})
      EXPECT_EQ(refusal(variable, bad),
                std::string{"weft: "} + variable + " is \"" + bad +
                    "\", expected a whole number, or one followed by K, M or G");
}

TEST_F(OptionsTest, ANumberTooLargeForItsOptionIsRefused) {
  EXPECT_EQ(refusal("WEFT_WORKERS", "5G"),
            "weft: WEFT_WORKERS is \"5G\", expected a smaller number");
}

TEST_F(OptionsTest, TooManyWorkersAreRefused) {
  EXPECT_EQ(refusal(Options{.workers = 1'025}),
            "weft::Options::workers is 1025: must be 1 to 1024, or 0 for the usable cores");
  EXPECT_EQ(refusal("WEFT_WORKERS", "2000"),
            "weft::Options::workers is 2000: must be 1 to 1024, or 0 for the usable cores");
  EXPECT_EQ(refusal(Options{.workers = 1'024}), "accepted");
  EXPECT_THROW(FiberIo{Options{.workers = 1'025}}, std::invalid_argument);
}

TEST_F(OptionsTest, AnUnknownWayToDealWithADeadlockIsRefused) {
  for (const std::string bad : {"Raise", "abort", "raise ", "0"})
    EXPECT_EQ(refusal("WEFT_ON_DEADLOCK", bad),
              "weft: WEFT_ON_DEADLOCK is \"" + bad + "\", expected automatic, report or raise");
}

// A variable that makes no sense is not looked at when the program has said what it wants.
TEST_F(OptionsTest, ABadVariableOfAnOptionThatIsSetDoesNotMatter) {
  const Variable workers{"WEFT_WORKERS", "many"};
  EXPECT_EQ(resolve({.workers = 2}).workers, 2U);
  EXPECT_THROW(FiberIo{}, std::invalid_argument);
}

// ── the machine ─────────────────────────────────────────────────────────────────────────────────

// usable_cores() in a process that may use the first `cores` of our cores.
unsigned usable_with(unsigned cores) {
  const pid_t child = ::fork();
  if (child == 0) {
    cpu_set_t ours;
    cpu_set_t fewer;
    CPU_ZERO(&fewer);
    if (::sched_getaffinity(0, sizeof ours, &ours) != 0) ::_exit(255);
    unsigned taken = 0;
    for (std::size_t i = 0; i < CPU_SETSIZE && taken < cores; ++i)
      if (CPU_ISSET(i, &ours)) CPU_SET(i, &fewer), ++taken;
    if (::sched_setaffinity(0, sizeof fewer, &fewer) != 0) ::_exit(255);
    ::_exit(static_cast<int>(resolve({}).workers == usable_cores() ? usable_cores() : 254));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return static_cast<unsigned>(WEXITSTATUS(status));
}

TEST_F(OptionsTest, UsableCoresFollowTheAffinityMask) {
  cpu_set_t ours;
  ASSERT_EQ(::sched_getaffinity(0, sizeof ours, &ours), 0);
  const auto most = static_cast<unsigned>(CPU_COUNT(&ours));
  EXPECT_LE(usable_cores(), most);
  for (unsigned cores = 1; cores <= std::min(most, 8U); ++cores)
    EXPECT_EQ(usable_with(cores), std::min(cores, usable_cores())) << "a quota may allow less";
}

// ── as people see them ──────────────────────────────────────────────────────────────────────────

TEST_F(OptionsTest, EveryOptionIsDescribed) {
  std::vector<std::string> names, variables, values;
  for (const OptionLine& line : describe({.workers = 5, .on_deadlock = OnDeadlock::raise})) {
    names.emplace_back(line.name);
    variables.emplace_back(line.variable);
    values.push_back(line.value);
    EXPECT_FALSE(line.meaning.empty());
  }
  EXPECT_THAT(names,
              ElementsAre("workers", "max_workers", "scale_interval", "temp_idle_timeout",
                          "stack_bytes", "max_fibers", "max_blocking", "on_deadlock",
                          "shutdown_report_after", "stall_report_after", "reactor",
                          "ring_entries", "dump_signal"));
  EXPECT_THAT(variables,
              ElementsAre("WEFT_WORKERS", "WEFT_MAX_WORKERS", "WEFT_SCALE_INTERVAL",
                          "WEFT_TEMP_IDLE_TIMEOUT", "WEFT_STACK_BYTES", "WEFT_MAX_FIBERS",
                          "WEFT_MAX_BLOCKING", "WEFT_ON_DEADLOCK",
                          "WEFT_SHUTDOWN_REPORT_AFTER", "WEFT_STALL_REPORT_AFTER",
                          "WEFT_IO", "WEFT_RING_ENTRIES", "WEFT_DUMP_SIGNAL"));
  EXPECT_THAT(values, ElementsAre("5", "0", "10ms", "1s", "262144", "0", "64", "raise", "5s", "0s",
                                  "auto", "256", "none"));
}

// ── temporary workers ───────────────────────────────────────────────────────────────────────────

TEST_F(OptionsTest, TwiceTheWorkersAtMostButOneIsOne) {
  EXPECT_EQ(resolve({.workers = 3}).max_workers, 6U);
  EXPECT_EQ(resolve({.workers = 1}).max_workers, 1U) << "asked for: nothing else runs fibers";
  EXPECT_EQ(resolve({.workers = 1, .max_workers = 4}).max_workers, 4U);
  EXPECT_EQ(resolve({}).max_workers, 2 * resolve({}).workers);
  const Variable one{"WEFT_WORKERS", "1"};
  EXPECT_EQ(resolve({}).max_workers, 1U);
  const Variable three{"WEFT_MAX_WORKERS", "3"};
  EXPECT_EQ(resolve({}).max_workers, 3U);
}

TEST_F(OptionsTest, FewerThanTheWorkersIsRefused) {
  EXPECT_EQ(refusal({.workers = 4, .max_workers = 3}),
            "weft::Options::max_workers is 3: must be at least workers (4) and at most 2048, or 0 "
            "for twice workers");
  EXPECT_NE(refusal({.workers = 4, .max_workers = 5000}), "accepted");
}

TEST_F(OptionsTest, DurationsAreReadWithTheirUnits) {
  {
    const Variable interval{"WEFT_SCALE_INTERVAL", "250us"};
    const Variable timeout{"WEFT_TEMP_IDLE_TIMEOUT", "2s"};
    EXPECT_EQ(resolve({}).scale_interval, std::chrono::microseconds{250});
    EXPECT_EQ(resolve({}).temp_idle_timeout, std::chrono::seconds{2});
  }
  {
    const Variable plain{"WEFT_SCALE_INTERVAL", "7"};
    EXPECT_EQ(resolve({}).scale_interval, std::chrono::milliseconds{7});
  }
  for (const char* nonsense : {"soon", "-1ms", "5h", "99999999999999999999", "1e3s"})
    EXPECT_EQ(refusal("WEFT_SCALE_INTERVAL", nonsense),
              "weft: WEFT_SCALE_INTERVAL is \"" + std::string{nonsense} +
                  "\", expected a duration such as 10ms, 2s or 500us");
  EXPECT_NE(refusal({.temp_idle_timeout = std::chrono::seconds{-1}}), "accepted");
  EXPECT_NE(refusal({.shutdown_report_after = std::chrono::seconds{-1}}), "accepted");
  EXPECT_EQ(resolve({}).shutdown_report_after, std::chrono::seconds{5});
  const Variable at_once{"WEFT_SHUTDOWN_REPORT_AFTER", "0"};
  EXPECT_EQ(resolve({}).shutdown_report_after, Duration{});
  EXPECT_EQ(resolve({}).stall_report_after, Duration::zero()) << "off";
  const Variable stall{"WEFT_STALL_REPORT_AFTER", "50"};
  EXPECT_EQ(resolve({}).stall_report_after, std::chrono::milliseconds{50});
  EXPECT_EQ(resolve({.stall_report_after = std::chrono::seconds{2}}).stall_report_after,
            std::chrono::seconds{2});
  EXPECT_NE(refusal("WEFT_STALL_REPORT_AFTER", "soon"), "accepted");
  EXPECT_THAT(refusal({.stall_report_after = std::chrono::milliseconds{-1}}),
              ::testing::HasSubstr("stall_report_after is -1ms: must be a time"));
}

}  // namespace
}  // namespace weft
