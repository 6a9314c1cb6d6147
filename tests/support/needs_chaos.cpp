// Part of every test program on the library: with WEFT_TEST_NEEDS_CHAOS set, a run fails in which
// chaos was not on. WEFT_CHAOS does nothing in some builds, and otherwise nothing before the first
// FiberIo: here it is on from the beginning, for tests of parts without an engine.
#include <weft/base/chaos.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

class NeedsChaos : public ::testing::Environment {
 public:
  NeedsChaos() { ::unsetenv("WEFT_TEST_NEEDS_CHAOS"); }  // nobody asks it of programs we start
  void SetUp() override {
    if (needed_) weft::chaos::load_environment();
  }
  void TearDown() override {
    if (needed_) {
      EXPECT_GT(weft::chaos::steps_taken(), 0U) << "this run was to be under chaos, and was not";
    }
  }

 private:
  const bool needed_ = std::getenv("WEFT_TEST_NEEDS_CHAOS") != nullptr;
};

[[maybe_unused]] const auto* const kRegistered =
    ::testing::AddGlobalTestEnvironment(new NeedsChaos);

}  // namespace
