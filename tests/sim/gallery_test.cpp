// The bugs of examples/bugs: each is found within its stated budget, wherever the seeds begin.
#include <gallery.hpp>

#include <weft/engine.hpp>
#include <weft/explore.hpp>
#include <weft/sim.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace weft {
namespace {

using gallery::Bug;

std::uint64_t base_seed(std::uint64_t i) { return i * 1'000'003; }

class Gallery : public ::testing::TestWithParam<const Bug*> {
 protected:
  const Bug& bug = *GetParam();
};
INSTANTIATE_TEST_SUITE_P(Bugs, Gallery, ::testing::ValuesIn(gallery::all()),
                         [](const auto& chosen) { return std::string{chosen.param->name}; });

TEST_P(Gallery, IsFoundWithinItsBudgetOnAHundredOfAHundredBaseSeeds) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    ExploreOptions options = gallery::exploration(bug, base_seed(i));
    options.shrink = false;
    options.log_lines = 0;
    const Report report = explore(options, bug.buggy);
    ASSERT_TRUE(report.first) << "base seed " << options.seed;
    ASSERT_EQ(report.first->kind, bug.kind) << to_string(*report.first);
  }
}

TEST_P(Gallery, ItsFixSurvivesTheSame) {
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Report report = explore(gallery::exploration(bug, base_seed(i)), bug.fixed);
    ASSERT_TRUE(report) << to_string(*report.first);
    ASSERT_EQ(report.complete, bug.schedule == Schedule::exhaustive)
        << "a budget for exhaustive search is one for all of it";
  }
  for (const Schedule other : {Schedule::random, Schedule::pct, Schedule::round_robin}) {
    ExploreOptions options = gallery::exploration(bug, 7);
    options.schedule = other;
    const Report report = explore(options, bug.fixed);
    ASSERT_TRUE(report) << to_string(*report.first);
  }
}

// A simulation sees no data races, since one fiber runs at a time; two workers and a sanitizer do.
TEST_P(Gallery, ItsFixIsOneOnRealWorkersToo) {
  FiberIo io{{.workers = 2}};
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(io.run(bug.fixed));
}

TEST_P(Gallery, MadeSmallerItIsNoLongerAndReplaysTheSameFailure) {
  const Report report = explore(gallery::exploration(bug, 0), bug.buggy);
  ASSERT_TRUE(report.first);
  const Failure& failure = *report.first;
  // Fewer preemptions may take a switch more, where a fiber waits.
  EXPECT_LE(std::pair(failure.preemptions, failure.switches),
            std::pair(failure.preemptions_found, failure.switches_found));
  try {
    replay(failure.schedule, bug.buggy);
    FAIL() << "did not fail: " << failure.schedule;
  } catch (const Deadlock&) {
    EXPECT_EQ(bug.kind, Failure::Kind::deadlock);
  } catch (const std::exception& error) {
    EXPECT_EQ(bug.kind, Failure::Kind::exception);
    EXPECT_EQ(error.what(), failure.what);
  }
}

// What is stated there is what is tested here.
TEST(GalleryReadme, StatesTheBudgetOfEachBug) {
  const char* const path = std::getenv("WEFT_GALLERY_README");
  if (!path) GTEST_SKIP() << "ctest says where it is";
  std::ifstream file{path};
  const std::string readme{std::istreambuf_iterator<char>{file}, {}};
  for (const Bug* bug : gallery::all()) {
    const std::string name{bug->name};
    const std::string row = "| [" + name + "](" + name + ".cpp) | " + std::string{bug->mistake} +
                            " | " + std::string{to_string(bug->kind)} + " | " +
                            gallery::schedule_of(*bug) + " | " + std::to_string(bug->runs) + " | ";
    EXPECT_NE(readme.find(row), std::string::npos) << "missing: " << row;
  }
}

}  // namespace
}  // namespace weft
