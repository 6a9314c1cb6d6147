#include <weft/arch/fault.hpp>
#include <weft/arch/sanitizer.hpp>
#include <weft/arch/stack.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include <arch/stack_support.hpp>

namespace weft::arch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(StackFailure, MprotectGuardsStopAtHalfTheMappings) {
  const std::size_t possible = max_map_count() / 2 / 2;
  if (possible > 200'000) GTEST_SKIP() << "vm.max_map_count is too high to be reached here";
  StackPool pool({.stack_bytes = 16 * kKiB, .guards = Guards::mprotect});
  std::vector<Stack*> stacks = take_many(pool, possible + 1000);
  EXPECT_EQ(stacks.size(), possible);
  EXPECT_THAT(pool.why(), HasSubstr("vm.max_map_count = " + std::to_string(max_map_count())));
  EXPECT_THAT(pool.why(), HasSubstr(std::to_string(possible) + " stacks"));
  EXPECT_LE(count_mappings(), max_map_count() / 2 + 1000) << "half is left to the program";

  StackPool other({.guards = Guards::mprotect});
  EXPECT_EQ(other.take(), nullptr) << "the mappings are the process's, not the pool's";
  EXPECT_THAT(other.why(), HasSubstr("vm.max_map_count"));

  Stack* const last = stacks.back();
  pool.give(*last);
  EXPECT_EQ(pool.take(), last) << "what there is can still be used";
  give_all(pool, stacks);
}

TEST(StackFailure, MappingsComeBackWithThePool) {
  const std::size_t possible = max_map_count() / 2 / 2;
  if (possible > 200'000) GTEST_SKIP() << "vm.max_map_count is too high to be reached here";
  for (int round = 0; round < 2; ++round) {
    StackPool pool({.stack_bytes = 16 * kKiB, .guards = Guards::mprotect});
    std::vector<Stack*> stacks = take_many(pool, possible + 1);
    EXPECT_EQ(stacks.size(), possible);
    give_all(pool, stacks);
  }
}

TEST(StackFailure, NoMemoryIsARefusalAndThePoolLivesOn) {
  StackPool pool;
  {
    const fault::Scoped no_memory{fault::Site::mmap, {.every = 1, .error = ENOMEM}};
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_THAT(pool.why(), HasSubstr("mmap of"));
    EXPECT_THAT(pool.why(), HasSubstr("Cannot allocate memory (ENOMEM)"));
    EXPECT_THAT(pool.why(), HasSubstr("vm.max_map_count"));
    EXPECT_GT(no_memory.failures(), 0U);
  }
  std::vector<Stack*> stacks = take_many(pool, 64);
  EXPECT_EQ(stacks.size(), 64U);
  {
    const fault::Scoped no_memory{fault::Site::mmap, {.every = 1, .error = EAGAIN}};
    EXPECT_EQ(pool.take(), nullptr) << "the first slab is used up";
    EXPECT_THAT(pool.why(), HasSubstr("(EAGAIN), after 64 stacks"));
    pool.give(*stacks.back());
    EXPECT_EQ(pool.take(), stacks.back());
  }
  Stack* const another = pool.take();
  EXPECT_NE(another, nullptr);
  stacks.push_back(another);
  give_all(pool, stacks);
}

TEST(StackFailure, LittleMemoryGivesASmallerSlab) {
  const fault::Scoped once{fault::Site::mmap, {.nth = 1, .error = ENOMEM}};
  StackPool pool;
  Stack* const stack = pool.take();
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(once.failures(), 1U);
  EXPECT_EQ(pool.statistics().reserved, 16U);
  pool.give(*stack);
}

TEST(StackFailure, AFailingGuardIsNeverAnUnguardedStack) {
  if (!kernel_guards_exist())
    GTEST_SKIP() << "this kernel has no guard regions (MADV_GUARD_INSTALL)";
  StackPool pool({.guards = Guards::kernel});
  std::vector<Stack*> stacks;
  {
    const fault::Scoped fifth{fault::Site::madvise_guard, {.nth = 5, .error = ENOMEM}};
    stacks = take_many(pool, 4);
    EXPECT_EQ(stacks.size(), 4U);
    EXPECT_EQ(pool.statistics().guarded, 4U) << "the batch ended at the one that failed";
  }
  {
    const fault::Scoped all{fault::Site::madvise_guard, {.every = 1, .error = EINVAL}};
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_THAT(pool.why(), HasSubstr("MADV_GUARD_INSTALL"));
    EXPECT_THAT(pool.why(), HasSubstr("Invalid argument (EINVAL), after 4 stacks"));
  }
  for (Stack* more : take_many(pool, 40)) stacks.push_back(more);
  EXPECT_EQ(stacks.size(), 44U);
  for (const Stack* stack : stacks) EXPECT_FALSE(is_readable(stack->limit - 1)) << stack->index;
  give_all(pool, stacks);
}

TEST(StackFailure, AnUnsupportedKernelGuardStepsDownTheLadder) {
  if (!kernel_guards_exist())
    GTEST_SKIP() << "this kernel has no guard regions (MADV_GUARD_INSTALL)";
  StackPool pool({.guards = Guards::automatic});
  std::vector<Stack*> stacks = take_many(pool, 32);
  EXPECT_EQ(pool.statistics().guards, Guards::kernel);
  const fault::Scoped all{fault::Site::madvise_guard, {.every = 1, .error = EINVAL}};
  for (Stack* more : take_many(pool, 100)) stacks.push_back(more);
  EXPECT_EQ(stacks.size(), 132U);
  EXPECT_EQ(pool.statistics().guards, Guards::mprotect);
  EXPECT_EQ(pool.why(), "");
  for (const Stack* stack : stacks) EXPECT_FALSE(is_readable(stack->limit - 1)) << stack->index;
  give_all(pool, stacks);
}

TEST(StackFailure, AShortageOfKernelGuardsDoesNotStepDown) {
  if (!kernel_guards_exist())
    GTEST_SKIP() << "this kernel has no guard regions (MADV_GUARD_INSTALL)";
  StackPool pool({.guards = Guards::automatic});
  {
    const fault::Scoped all{fault::Site::madvise_guard, {.every = 1, .error = ENOMEM}};
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_THAT(pool.why(), HasSubstr("(ENOMEM), after 0 stacks"));
  }
  Stack* const stack = pool.take();
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(pool.statistics().guards, Guards::kernel);
  pool.give(*stack);
}

TEST(StackFailure, AFailingMprotectIsARefusal) {
  StackPool pool({.guards = Guards::mprotect});
  std::vector<Stack*> stacks;
  {
    const fault::Scoped third{fault::Site::mprotect, {.every = 3, .error = ENOMEM}};
    stacks = take_many(pool, 2);
    EXPECT_EQ(stacks.size(), 2U);
  }
  {
    const fault::Scoped all{fault::Site::mprotect, {.every = 1, .error = ENOMEM}};
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_THAT(pool.why(), HasSubstr("mprotect failed: Cannot allocate memory (ENOMEM)"));
    EXPECT_THAT(pool.why(), HasSubstr("vm.max_map_count"));
  }
  for (Stack* more : take_many(pool, 40)) stacks.push_back(more);
  EXPECT_EQ(stacks.size(), 42U);
  for (const Stack* stack : stacks) EXPECT_FALSE(is_readable(stack->limit - 1));
  give_all(pool, stacks);
}

TEST(StackFailure, TheAddressSpaceLimitIsNamed) {
  if (kAsan || kTsan) GTEST_SKIP() << "a sanitizer needs more address space than the limit allows";
  int report[2];
  ASSERT_EQ(::pipe2(report, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit little{std::size_t{300} << 20U, std::size_t{300} << 20U};
    ::setrlimit(RLIMIT_AS, &little);
    rlimit now{};
    ::getrlimit(RLIMIT_AS, &now);
    if (now.rlim_cur != little.rlim_cur) ::_exit(0);  // an emulator only says that it did
    StackPool pool;
    std::vector<Stack*> stacks = take_many(pool, 10'000);
    const std::string text = std::to_string(stacks.size()) + " taken; " + pool.why();
    [[maybe_unused]] const ssize_t written = ::write(report[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(report[1]);
  std::array<char, 1024> text{};
  const ssize_t got = ::read(report[0], text.data(), text.size() - 1);
  ::close(report[0]);
  ::waitpid(child, nullptr, 0);
  if (got == 0) GTEST_SKIP() << "the limit cannot be set here";
  EXPECT_THAT(text.data(), HasSubstr("address space limit (ulimit -v) is 300.0 MiB"));
  EXPECT_THAT(text.data(), Not(StartsWith("0 taken; "))) << "smaller slabs use what is left";
}

}  // namespace
}  // namespace weft::arch
