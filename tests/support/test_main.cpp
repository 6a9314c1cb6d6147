// The main() of every test program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <support/watchdog.hpp>

int main(int argc, char** argv) {
  // The watchdog is a thread, and forking beside threads is only safe if the child starts afresh.
  // An emulated program cannot start itself again; there the environment asks for "fast".
  if (std::getenv("GTEST_DEATH_TEST_STYLE") == nullptr)
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  testing::InitGoogleMock(&argc, argv);
  weft::testing::start_watchdog();
  return RUN_ALL_TESTS();
}
