#include <weft/arch/sanitizer.hpp>
#include <weft/arch/stack.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include <arch/stack_support.hpp>
#include <support/child_process.hpp>

namespace weft::arch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two stacks that take turns, as fibers do; each checks its own frame when it is back.
class Turns {
 public:
  Turns(Stack& first, Stack& second) { prepare(0, first), prepare(1, second); }

  bool run() {
    ::swapcontext(&home_, &context_[0]);
    return right_;
  }

 private:
  static inline Turns* self = nullptr;

  void prepare(std::size_t i, Stack& stack) {
    self = this;
    ::getcontext(&context_[i]);
    context_[i].uc_stack.ss_sp = stack.limit;
    context_[i].uc_stack.ss_size = stack.bytes();
    context_[i].uc_link = &home_;
    ::makecontext(
        &context_[i], i == 0 ? [] { self->body(0); } : [] { self->body(1); }, 0);
  }

  void body(std::size_t i) {
    std::array<volatile int, 64> frame;
    for (int j = 0; j < 64; ++j) frame[static_cast<std::size_t>(j)] = j * 3;
    for (int turn = 0; turn < 10; ++turn) {
      ::swapcontext(&context_[i], &context_[1 - i]);
      int sum = 0;
      for (const auto& value : frame) sum += value;
      if (sum != 63 * 64 / 2 * 3) right_ = false;
    }
  }

  ucontext_t home_{};
  std::array<ucontext_t, 2> context_{};
  bool right_ = true;
};

TEST(StackUse, FunctionsRunOnThem) {
  if (kTsan) GTEST_SKIP() << "TSan must be told of each switch, and this test does not";
  StackPool pool;
  std::vector<Stack*> stacks = take_many(pool, 2);
  Turns turns(*stacks[0], *stacks[1]);
  EXPECT_TRUE(turns.run());
  give_all(pool, stacks);
}

// Valgrind takes a jump between stacks that it does not know for a huge frame and declares what is
// between them dead. Run by the tests below, under Valgrind, with stacks that are registered (the
// pool's) and with a plain piece of memory.
TEST(StackUse, DISABLED_ValgrindVictimRegistered) {
  StackPool pool;
  std::vector<Stack*> stacks = take_many(pool, 2);
  Turns turns(*stacks[0], *stacks[1]);
  EXPECT_TRUE(turns.run());
  give_all(pool, stacks);
}

TEST(StackUse, DISABLED_ValgrindVictimUnknown) {
  constexpr std::size_t kBytes = 128 * kKiB;
  void* const memory =
      ::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const begin = static_cast<std::byte*>(memory);
  std::array<Stack, 2> stacks;
  for (std::size_t i = 0; i < 2; ++i) {
    stacks[i].limit = begin + i * kBytes;
    stacks[i].top = stacks[i].limit + kBytes;
  }
  Turns turns(stacks[0], stacks[1]);
  EXPECT_TRUE(turns.run());
}

constexpr int kValgrindFoundErrors = 99;

class StackUnderValgrind : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kAsan || kTsan) GTEST_SKIP() << "Valgrind cannot run a sanitizer's program";
    if (::access("/usr/bin/valgrind", X_OK) != 0) GTEST_SKIP() << "no Valgrind here";
#if !__has_include(<valgrind/valgrind.h>)
    GTEST_SKIP() << "built without Valgrind's headers, so stacks are not registered";
#endif
  }

  static weft::testing::ChildResult run(const std::string& victim) {
    return weft::testing::run_child(
        {"/usr/bin/valgrind", "--error-exitcode=" + std::to_string(kValgrindFoundErrors),
         weft::testing::sibling_program("stack_valgrind_test"), "--gtest_also_run_disabled_tests",
         "--gtest_filter=StackUse.DISABLED_ValgrindVictim" + victim});
  }

  // An old Valgrind gives up on a new compiler's debug information before the program starts.
  static bool gave_up(const weft::testing::ChildResult& result) {
    return result.output.find("Valgrind: debuginfo reader") != std::string::npos;
  }
};

TEST_F(StackUnderValgrind, RegisteredStacksAreClean) {
  const auto result = run("Registered");
  if (gave_up(result)) GTEST_SKIP() << "Valgrind cannot read this compiler's debug information";
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("ERROR SUMMARY: 0 errors"));
  EXPECT_THAT(result.output, Not(HasSubstr("client switching stacks")));
}

TEST_F(StackUnderValgrind, UnknownStacksAreNotWhichProvesTheTestAbove) {
  const auto result = run("Unknown");
  if (gave_up(result)) GTEST_SKIP() << "Valgrind cannot read this compiler's debug information";
  EXPECT_EQ(result.exit_code, kValgrindFoundErrors) << result.output;
}

}  // namespace
}  // namespace weft::arch
