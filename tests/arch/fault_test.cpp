#include <weft/arch/fault.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/child_process.hpp>

namespace weft::arch {
namespace {

using fault::Plan;
using fault::Scoped;
using fault::Site;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The results of the next `count` calls of a site.
std::vector<int> hits(Site site, int count) {
  std::vector<int> results;
  for (int i = 0; i < count; ++i) results.push_back(fault::hit(site));
  return results;
}

std::string refusal_of(std::string_view text) {
  try {
    fault::load(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

bool is_refused(const Plan& plan) {
  try {
    const Scoped refused{Site::mmap, plan};
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

TEST(Fault, WithoutAPlanNothingFails) { EXPECT_THAT(hits(Site::mmap, 3), ElementsAre(0, 0, 0)); }

TEST(Fault, NthFailsOnce) {
  const Scoped plan{Site::mmap, {.nth = 3, .error = EAGAIN}};
  EXPECT_THAT(hits(Site::mmap, 5), ElementsAre(0, 0, EAGAIN, 0, 0));
  EXPECT_EQ(plan.calls(), 5U);
  EXPECT_EQ(plan.failures(), 1U);
}

TEST(Fault, EveryFailsAtEachMultiple) {
  const Scoped plan{Site::mprotect, {.every = 2}};
  EXPECT_THAT(hits(Site::mprotect, 5), ElementsAre(0, ENOMEM, 0, ENOMEM, 0));
}

TEST(Fault, AnotherSiteIsNotConcerned) {
  const Scoped plan{Site::mmap, {.every = 1}};
  EXPECT_THAT(hits(Site::mprotect, 2), ElementsAre(0, 0));
}

TEST(Fault, ChanceIsDecidedByTheSeed) {
  const auto run = [](std::uint64_t seed) {
    const Scoped plan{Site::mmap, {.probability = 0.25, .seed = seed}};
    return hits(Site::mmap, 1000);
  };
  const std::vector<int> first = run(7);
  EXPECT_EQ(first, run(7));
  EXPECT_NE(first, run(8));
  const auto failed = std::count(first.begin(), first.end(), ENOMEM);
  EXPECT_GT(failed, 200);
  EXPECT_LT(failed, 300);

  const Scoped always{Site::mmap, {.probability = 1}};
  EXPECT_THAT(hits(Site::mmap, 3), ElementsAre(ENOMEM, ENOMEM, ENOMEM));
}

TEST(Fault, ScopesNest) {
  const Scoped outer{Site::mmap, {.nth = 2}};
  EXPECT_THAT(hits(Site::mmap, 1), ElementsAre(0));
  {
    const Scoped inner{Site::mmap, {.every = 1, .error = EPERM}};
    EXPECT_THAT(hits(Site::mmap, 2), ElementsAre(EPERM, EPERM));
  }
  EXPECT_THAT(hits(Site::mmap, 2), ElementsAre(ENOMEM, 0)) << "the outer plan goes on counting";
}

TEST(Fault, AnImpossiblePlanIsRefused) {
  EXPECT_TRUE(is_refused({}));
  EXPECT_TRUE(is_refused({.nth = 1, .every = 1}));
  EXPECT_TRUE(is_refused({.probability = 1.5}));
  EXPECT_TRUE(is_refused({.probability = -1}));
  EXPECT_TRUE(is_refused({.nth = 1, .error = 0}));
  EXPECT_THAT(hits(Site::mmap, 1), ElementsAre(0)) << "a refused plan is not set";
}

TEST(Fault, CallsOfSeveralThreadsAreCountedOnce) {
  const Scoped plan{Site::mmap, {.every = 4}};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] { static_cast<void>(hits(Site::mmap, 1000)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plan.calls(), 4000U);
  EXPECT_EQ(plan.failures(), 1000U);
}

TEST(Fault, EntriesAreRead) {
  // Scoped, so that what load() sets ends with the test.
  const Scoped a{Site::mmap, {.nth = 99}};
  const Scoped b{Site::madvise_guard, {.nth = 99}};
  const Scoped c{Site::pthread_create, {.nth = 99}};
  fault::load("mmap:3:ENOMEM,madvise_guard:every2:EINVAL,pthread_create:p1@42:EAGAIN");
  EXPECT_THAT(hits(Site::mmap, 4), ElementsAre(0, 0, ENOMEM, 0));
  EXPECT_THAT(hits(Site::madvise_guard, 2), ElementsAre(0, EINVAL));
  EXPECT_THAT(hits(Site::pthread_create, 2), ElementsAre(EAGAIN, EAGAIN));
}

TEST(Fault, ABadEntryIsNamedWithWhatIsWrong) {
  EXPECT_THAT(refusal_of("mmp:3:ENOMEM"), HasSubstr("no site \"mmp\" (there are mmap, "));
  EXPECT_THAT(refusal_of("mmap:0:ENOMEM"), HasSubstr("\"0\" is not N, everyN"));
  EXPECT_THAT(refusal_of("mmap:-1:ENOMEM"), HasSubstr("\"-1\" is not"));
  EXPECT_THAT(refusal_of("mmap:3x:ENOMEM"), HasSubstr("\"3x\" is not"));
  EXPECT_THAT(refusal_of("mmap:99999999999999999999:ENOMEM"), HasSubstr("is not N"));
  EXPECT_THAT(refusal_of("mmap:every:ENOMEM"), HasSubstr("\"every\" is not"));
  EXPECT_THAT(refusal_of("mmap:p2:ENOMEM"), HasSubstr("\"p2\" is not"));
  EXPECT_THAT(refusal_of("mmap:p0.5@x:ENOMEM"), HasSubstr("\"p0.5@x\" is not"));
  EXPECT_THAT(refusal_of("mmap:pnan:ENOMEM"), HasSubstr("\"pnan\" is not"));
  EXPECT_THAT(refusal_of("mmap:3"), HasSubstr("\"\" is not an errno"));
  EXPECT_THAT(refusal_of("mmap:3:EWHAT"), HasSubstr("\"mmap:3:EWHAT\": \"EWHAT\" is not an errno"));
  EXPECT_THAT(refusal_of("mmap:3:ENOMEM,,"), HasSubstr("no site \"\""));
  EXPECT_THAT(refusal_of(":::"), HasSubstr("no site \"\""));

  EXPECT_THAT(refusal_of("mmap:1:ENOMEM,oops"), HasSubstr("\"oops\""));
  EXPECT_THAT(hits(Site::mmap, 1), ElementsAre(0)) << "the good entries before it are not set";
}

TEST(Fault, TheWrappersFailAsTheirNamesakesWould) {
  const Scoped a{Site::mmap, {.nth = 1, .error = EAGAIN}};
  errno = 0;
  EXPECT_EQ(sys_mmap(4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS), MAP_FAILED);
  EXPECT_EQ(errno, EAGAIN);
  void* const memory = sys_mmap(4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS);
  ASSERT_NE(memory, MAP_FAILED);

  const Scoped b{Site::mprotect, {.nth = 1, .error = EACCES}};
  EXPECT_EQ(sys_mprotect(memory, 4096, PROT_NONE), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(sys_mprotect(memory, 4096, PROT_NONE), 0);
  ::munmap(memory, 4096);

  const Scoped c{Site::pthread_create, {.nth = 1, .error = EAGAIN}};
  pthread_t thread;
  const auto body = [](void* argument) { return argument; };
  EXPECT_EQ(sys_pthread_create(&thread, nullptr, body, nullptr), EAGAIN);
  ASSERT_EQ(sys_pthread_create(&thread, nullptr, body, &thread), 0);
  void* result = nullptr;
  ::pthread_join(thread, &result);
  EXPECT_EQ(result, &thread);
}

// The two below run themselves again with the environment variable set.
TEST(Fault, DISABLED_LoadTheEnvironment) {
  fault::load_environment();
  fault::load_environment();  // the second time does not set the plan anew
  EXPECT_THAT(hits(Site::mmap, 2), ElementsAre(0, ENFILE));
  fault::load_environment();
  EXPECT_THAT(hits(Site::mmap, 2), ElementsAre(0, 0));
}

weft::testing::ChildResult run_with_faults(const std::string& faults) {
  return weft::testing::run_child(
      {weft::testing::sibling_program("fault_test"), "--gtest_also_run_disabled_tests",
       "--gtest_filter=Fault.DISABLED_LoadTheEnvironment"},
      {"WEFT_FAULTS=" + faults});
}

TEST(Fault, TheEnvironmentIsReadOnce) {
  const auto result = run_with_faults("mmap:2:ENFILE");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(Fault, ABadEnvironmentIsReported) {
  const auto result = run_with_faults("mmap:2:NOPE");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("WEFT_FAULTS: \"mmap:2:NOPE\": \"NOPE\" is not an errno"));
}

}  // namespace
}  // namespace weft::arch
