// Tests that misbehave on purpose. watchdog_test.cpp runs them in a process of their own.
#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include <support/watchdog.hpp>

using namespace std::chrono_literals;
using weft::testing::on_timeout;

namespace {

void hang() { std::this_thread::sleep_for(1h); }

void say_on_timeout(const char* text) {
  on_timeout([text] { std::fprintf(stderr, "%s\n", text); });
}

// Before main(), hence outside of any test.
const bool kept = [] { return say_on_timeout("state of the process"), true; }();

}  // namespace

TEST(Hang, WithACallback) {
  say_on_timeout("state of this test");
  hang();
}

TEST(Hang, AfterACallbackThatThrows) {
  on_timeout([] { throw std::runtime_error("nothing to see"); });
  say_on_timeout("state of this test");
  hang();
}

TEST(Hang, InTheCallbackToo) {
  on_timeout(hang);
  hang();
}

TEST(Hang, InsideAnEngine) {
  weft::run([] {
    weft::Event never{"what never comes"};
    weft::nursery({.name = "stuck"}, [&](weft::Nursery& n) {
      n.spawn("patient", [&] { never.wait(); });
      weft::sleep_for(1h);
    });
  });
}

TEST(Hang, InsideASimulation) {
  weft::SimIo io;
  io.run([] {
    weft::Event never{"what never comes"};
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("patient", [&] { never.wait(); });
      weft::settle();
      hang();
    });
  });
}

TEST(Forget, APassesAndB) { say_on_timeout("state of a finished test"); }
TEST(Forget, BHangs) { hang(); }

class Slow : public testing::TestWithParam<int> {};
TEST_P(Slow, HalfASecond) {
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(500ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 500ms);
}
INSTANTIATE_TEST_SUITE_P(FiveTimes, Slow, testing::Range(0, 5));
