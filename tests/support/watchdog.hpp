// The watchdog: no test hangs without saying why.
//
// Each test has a limit of WEFT_TEST_LIMIT seconds (60 unless set; weft_test's TIMEOUT sets it),
// times WEFT_TEST_TIME_SCALE (for sanitizers and emulators; 0 switches the watchdog off, for work
// under a debugger and for tests that count the process's threads). A test that exceeds it has its
// name printed on stderr, the callbacks below run, and the process dies by SIGABRT.
#pragma once

#include <algorithm>
#include <functional>

namespace weft::testing {

// Adds a callback that describes the program's state on stderr once a test has exceeded its limit.
//
// It runs on the watchdog's thread beside the hung test and may take WEFT_TEST_DUMP_LIMIT seconds
// (10 unless set). One that is added during a test is forgotten at that test's end, so it may refer
// to the test's locals; one that is added outside of any test stays. Callable from any thread.
void on_timeout(std::function<void()> dump);

// The factor that WEFT_TEST_TIME_SCALE asks for, at least 1: for limits that tests set themselves.
[[nodiscard]] double time_scale();

// As much of `count` as there is time for, at least 1: how often a test repeats what it does.
template <class Number>
[[nodiscard]] Number scaled(Number count) {
  return std::max(Number{1}, static_cast<Number>(static_cast<double>(count) / time_scale()));
}

// Whether models and other open-ended searches have the long budget (WEFT_MODEL_BUDGET=long).
[[nodiscard]] bool long_budget();

// Watches every test from here on. main() calls it once.
void start_watchdog();

}  // namespace weft::testing
