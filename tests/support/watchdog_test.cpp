#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <system_error>

#include <support/child_process.hpp>
#include <support/watchdog.hpp>

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using weft::testing::ChildResult;
using weft::testing::run_child;
using weft::testing::sibling_program;

namespace {

ChildResult run_victim(const std::string& filter, const std::string& limit,
                       const std::string& scale = "1", const std::string& dump_limit = "30") {
  return run_child({sibling_program("watchdog_victim"), "--gtest_filter=" + filter},
                   {"WEFT_TEST_LIMIT=" + limit, "WEFT_TEST_TIME_SCALE=" + scale,
                    "WEFT_TEST_DUMP_LIMIT=" + dump_limit});
}

}  // namespace

TEST(Watchdog, HungTestIsNamedDumpedAndAborted) {
  const ChildResult victim = run_victim("Hang.WithACallback", "1");
  EXPECT_EQ(victim.signal, SIGABRT);
  const std::size_t name = victim.output.find("Hang.WithACallback exceeded its limit of 1 s");
  const std::size_t process = victim.output.find("state of the process");
  const std::size_t state = victim.output.find("state of this test");
  const std::size_t end = victim.output.find("aborting Hang.WithACallback");
  ASSERT_NE(end, std::string::npos) << victim.output;
  EXPECT_LT(name, process) << victim.output;
  EXPECT_LT(process, state) << victim.output;
  EXPECT_LT(state, end) << victim.output;
}

TEST(Watchdog, HungEngineIsDumped) {
  const ChildResult victim = run_victim("Hang.InsideAnEngine", "3");
  EXPECT_EQ(victim.signal, SIGABRT);
  EXPECT_THAT(victim.output, HasSubstr("  worker 0 sleep"));
  EXPECT_THAT(victim.output, ContainsRegex("#1 \"main\" parked on timer for [0-9.]+ m?s, run at "
                                           "support/watchdog_victim.cpp:[0-9]+"));
  EXPECT_THAT(victim.output, HasSubstr("nursery \"stuck\" open"));
  EXPECT_THAT(victim.output, ContainsRegex("\"patient\" parked on event wait "
                                           "\"what never comes\" for [0-9.]+ m?s, spawned at "
                                           "support/watchdog_victim.cpp:[0-9]+"));
}

TEST(Watchdog, HungSimulationIsDumped) {
  const ChildResult victim = run_victim("Hang.InsideASimulation", "3");
  EXPECT_EQ(victim.signal, SIGABRT);
  EXPECT_THAT(victim.output, HasSubstr("#1 \"main\" running on worker 0, and does not give way"));
  EXPECT_THAT(victim.output, HasSubstr("\"patient\" parked on event wait \"what never comes\""));
}

TEST(Watchdog, CallbackThatThrowsDoesNotStopTheNext) {
  const ChildResult victim = run_victim("Hang.AfterACallbackThatThrows", "1");
  EXPECT_EQ(victim.signal, SIGABRT);
  EXPECT_THAT(victim.output, HasSubstr("threw: nothing to see"));
  EXPECT_THAT(victim.output, HasSubstr("state of this test"));
}

TEST(Watchdog, CallbackThatHangsIsCutShort) {
  const ChildResult victim = run_victim("Hang.InTheCallbackToo", "1", "1", "1");
  EXPECT_EQ(victim.signal, SIGABRT);
  EXPECT_THAT(victim.output, HasSubstr("Hang.InTheCallbackToo exceeded"));
  EXPECT_THAT(victim.output, HasSubstr("hangs as well"));
}

TEST(Watchdog, CallbacksOfAFinishedTestAreForgotten) {
  const ChildResult victim = run_victim("Forget.*", "1");
  EXPECT_EQ(victim.signal, SIGABRT);
  EXPECT_THAT(victim.output, HasSubstr("Forget.BHangs exceeded"));
  EXPECT_THAT(victim.output, HasSubstr("state of the process"));
  EXPECT_THAT(victim.output, Not(HasSubstr("state of a finished test")));
}

TEST(Watchdog, LimitIsPerTestNotPerProgram) {
  const ChildResult victim = run_victim("*Slow*", "2");  // five tests of half a second
  EXPECT_EQ(victim.exit_code, 0) << victim.output;
  EXPECT_THAT(victim.output, HasSubstr("5 tests"));
}

TEST(Watchdog, ScaleStretchesTheLimit) {
  const ChildResult victim = run_victim("*Slow*/0", "0.1", "100");
  EXPECT_EQ(victim.exit_code, 0) << victim.output;
}

TEST(Watchdog, ScaleZeroSwitchesItOff) {
  const ChildResult victim = run_victim("*Slow*/0", "0.1", "0");
  EXPECT_EQ(victim.exit_code, 0) << victim.output;
}

TEST(Watchdog, NonsenseInTheEnvironmentIsRefused) {
  const ChildResult victim = run_victim("*Slow*/0", "soon");
  EXPECT_EQ(victim.exit_code, 2);
  EXPECT_THAT(victim.output, HasSubstr("WEFT_TEST_LIMIT=soon"));
}

TEST(ChildProcess, MissingProgramThrows) {
  EXPECT_THROW((void)run_child({sibling_program("no_such_program")}), std::system_error);
}
