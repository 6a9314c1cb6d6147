// Runs with WEFT_CHAOS set (tests/CMakeLists.txt), in builds that have it.
#include <weft/base/chaos.hpp>

#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace weft {
namespace {

void run_some_fibers() {
  FiberIo{{.workers = 2}}.run([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 100; ++i) n.spawn([] { this_fiber::yield(); });
    });
  });
}

TEST(Chaos, IsOnAndCountsItsSteps) {
  ASSERT_TRUE(chaos::kBuilt);
  const std::uint64_t before = chaos::steps_taken();
  run_some_fibers();
  EXPECT_GT(chaos::steps_taken(), before + 100) << "at least one for each fiber";
}

TEST(Chaos, StrikesAboutAsOftenAsAsked) {
  chaos::load_environment();
  int strikes = 0;
  for (int i = 0; i < 100'000; ++i) strikes += chaos::strikes(4) ? 1 : 0;
  EXPECT_GT(strikes, 20'000);
  EXPECT_LT(strikes, 30'000);
}

// The variable is read by the first engine: these processes are the tests' own.
TEST(ChaosDeathTest, IsOffUnlessAskedFor) {
  EXPECT_EXIT(
      {
        ::unsetenv("WEFT_CHAOS");
        run_some_fibers();
        std::exit(chaos::steps_taken() == 0 && !chaos::strikes(1) ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(ChaosDeathTest, ASeedThatIsNoNumberIsRefused) {
  EXPECT_EXIT(
      {
        ::setenv("WEFT_CHAOS", "seven", 1);
        try {
          run_some_fibers();
        } catch (const std::invalid_argument& error) {
          std::fputs(error.what(), stderr);
          std::exit(3);
        }
      },
      ::testing::ExitedWithCode(3), "WEFT_CHAOS is \"seven\", expected a seed");
}

}  // namespace
}  // namespace weft
