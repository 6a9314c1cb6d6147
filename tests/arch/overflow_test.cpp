#include <weft/arch/fault.hpp>
#include <weft/arch/overflow.hpp>
#include <weft/arch/sanitizer.hpp>
#include <weft/arch/stack.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weft::arch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::size_t kKiB = 1024;

// ── how things end ───────────────────────────────────────────────────────────────────────────────

struct End {
  int signal = 0;
  int exit_code = -1;
  std::string text;  // what it wrote on stderr
};

// Runs `body` in a child process.
template <class Body>
End in_child(Body body) {
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(output[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(output[1]);
  End end;
  std::array<char, 4096> buffer;
  for (ssize_t got; (got = ::read(output[0], buffer.data(), buffer.size())) > 0;)
    end.text.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(output[0]);
  // An emulator adds a line of its own.
  if (const std::size_t at = end.text.find("qemu: uncaught"); at != std::string::npos)
    end.text.resize(at);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// ── how stacks overflow ──────────────────────────────────────────────────────────────────────────

void run_on(const Stack& stack, void (*body)()) {
  static ucontext_t home;
  static ucontext_t there;
  ::getcontext(&there);
  there.uc_stack.ss_sp = stack.limit;
  there.uc_stack.ss_size = stack.bytes();
  there.uc_link = &home;
  ::makecontext(&there, body, 0);
  ::swapcontext(&home, &there);
}

volatile int depth_limit = 1 << 30;
volatile int result;

[[gnu::noinline]] int recurse(int depth) {
  std::array<volatile char, 300> frame;
  frame[0] = static_cast<char>(depth);
  if (depth < depth_limit) return recurse(depth + 1) + frame[0];
  return depth;
}
void overflow_by_recursion() { result = recurse(0); }

// As the compiler makes it, with or without -fstack-clash-protection.
[[gnu::noinline]] int large_frame() {
  std::array<char, 80 * kKiB> frame;
  asm volatile("" ::"r"(frame.data()) : "memory");  // or else the compiler has no use for it
  frame.front() = 1;
  frame.back() = 2;
  asm volatile("" ::"r"(frame.data()) : "memory");
  return frame.front() + frame.back();
}
void overflow_by_large_frame() { result = large_frame(); }

// The worst that code without that protection can do: touch the far end of a large frame first.
[[gnu::noinline]] void touch_80_kib_below() {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  *reinterpret_cast<volatile char*>(here - 80 * kKiB) = 1;
}

volatile int* volatile nowhere = nullptr;
void write_to_nowhere() { *nowhere = 1; }

bool describe_reader(OverflowNames& names) noexcept {
  names.id = 42;
  names.name = "reader";
  return true;
}

// The life of an engine with one worker, so far as overflows are concerned.
struct Engine {
  OverflowHandler handler;
  SignalStack signal_stack;
  StackPool pool;

  explicit Engine(const StackOptions& options = {}) : pool(options) {}
  void run(void (*body)()) {
    Stack* const stack = pool.take();
    run_on(*stack, body);
    pool.give(*stack);
  }
};

// ── the program's own handlers ───────────────────────────────────────────────────────────────────

constexpr int kHandled = 7;

void install(int signal, void (*handler)(int), unsigned flags = SA_ONSTACK) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(flags);
  ::sigaction(signal, &action, nullptr);
}
void install(int signal, void (*handler)(int, siginfo_t*, void*), unsigned flags = SA_ONSTACK) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = static_cast<int>(flags) | SA_SIGINFO;
  ::sigaction(signal, &action, nullptr);
}
struct sigaction installed(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action;
}

void plain_handler(int signal) {
  say(signal == SIGSEGV ? "plain handler\n" : "wrong signal\n");
  ::_exit(kHandled);
}
void info_handler(int signal, siginfo_t* info, void* context) {
  say(signal == SIGSEGV && info->si_signo == SIGSEGV && context ? "info handler\n"
                                                                : "wrong call\n");
  ::_exit(kHandled);
}
void returning_handler(int) { say("returned\n"); }

class Overflow : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kAsan || kTsan)
      GTEST_SKIP() << "the sanitizer owns SIGSEGV: an overflow ends with its report instead";
    // Whatever this program's runtime may have installed.
    install(SIGSEGV, SIG_DFL, 0);
    install(SIGBUS, SIG_DFL, 0);
  }
};

class OverflowByKind : public Overflow, public ::testing::WithParamInterface<Guards> {
 protected:
  void SetUp() override {
    Overflow::SetUp();
    if (IsSkipped()) return;
    StackPool pool({.guards = GetParam()});
    Stack* const stack = pool.take();
    if (stack == nullptr) GTEST_SKIP() << pool.why();
    pool.give(*stack);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, OverflowByKind, ::testing::Values(Guards::kernel, Guards::mprotect),
                         [](const auto& kind) {
                           return kind.param == Guards::kernel ? "kernel" : "mprotect";
                         });

// ── the message and the death ────────────────────────────────────────────────────────────────────

TEST_P(OverflowByKind, RecursionNamesTheFiberAndDies) {
  const End end = in_child([] {
    set_describe_current(&describe_reader);
    Engine engine({.guards = GetParam()});
    engine.run(&overflow_by_recursion);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, ::testing::MatchesRegex(
                            "weft: stack overflow in fiber #42 \"reader\" \\(stack 256 KiB, guard "
                            "hit [0-9]+ bytes below; raise "
                            "Options::stack_bytes\\)\n"));
}

TEST_P(OverflowByKind, ALargeFrameIsCaught) {
  const End end = in_child([] {
    Engine engine({.stack_bytes = 64 * kKiB, .guards = GetParam()});
    engine.run(&overflow_by_large_frame);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, StartsWith("weft: stack overflow in a fiber (stack 64 KiB, guard hit "));
}

// A handler of the program's that gets out by a jump, so that the test can look around afterwards.
sigjmp_buf way_out;
void jump_out(int) { ::siglongjmp(way_out, 1); }

[[gnu::noinline]] bool traps(const Stack& stack, void (*body)()) {
  if (::sigsetjmp(way_out, 1) != 0) return true;
  run_on(stack, body);
  return false;
}

TEST_P(OverflowByKind, TheNeighboursAreUntouchedWhateverTheColour) {
  install(SIGSEGV, &jump_out);
  {
    Engine engine({.stack_bytes = 64 * kKiB, .guards = GetParam(), .on_release = OnRelease::keep});
    std::vector<Stack*> stacks;
    for (int i = 0; i < 50; ++i) stacks.push_back(engine.pool.take());
    for (Stack* stack : stacks) std::memset(stack->limit, 0x33, stack->bytes());

    for (const auto body : {&touch_80_kib_below, &overflow_by_large_frame, &overflow_by_recursion})
      for (std::size_t i = 1; i + 1 < stacks.size(); ++i) {
        ::testing::internal::CaptureStderr();
        const bool trapped = traps(*stacks[i], body);
        const std::string text = ::testing::internal::GetCapturedStderr();
        ASSERT_TRUE(trapped);
        ASSERT_THAT(text, StartsWith("weft: stack overflow"));
        for (const Stack* neighbour : {stacks[i - 1], stacks[i + 1]})
          ASSERT_TRUE(std::all_of(neighbour->limit, neighbour->top,
                                  [](std::byte b) { return b == std::byte{0x33}; }))
              << "index " << neighbour->index;
        std::memset(stacks[i]->limit, 0x33, stacks[i]->bytes());
      }
    for (Stack* stack : stacks) engine.pool.give(*stack);
  }
  install(SIGSEGV, SIG_DFL, 0);
}

TEST_F(Overflow, WithoutNamesItIsAFiber) {
  const End unknown = in_child([] { Engine().run(&overflow_by_recursion); });
  EXPECT_THAT(unknown.text, StartsWith("weft: stack overflow in a fiber (stack 256 KiB"));

  const End no_fiber = in_child([] {
    set_describe_current([](OverflowNames&) noexcept { return false; });
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_THAT(no_fiber.text, StartsWith("weft: stack overflow in a fiber (stack 256 KiB"));

  const End nameless = in_child([] {
    set_describe_current([](OverflowNames& names) noexcept {
      names.id = 18446744073709551615U;
      return true;
    });
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_THAT(nameless.text,
              StartsWith("weft: stack overflow in fiber #18446744073709551615 (stack 256 KiB"));
}

TEST_F(Overflow, ANameCannotConfuseTheTerminal) {
  const End end = in_child([] {
    set_describe_current([](OverflowNames& names) noexcept {
      names.name = "\033[2J\nevil \177";
      return true;
    });
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_THAT(end.text, HasSubstr("fiber #0 \"?[2J?evil ?\" (stack"));

  const End long_name = in_child([] {
    set_describe_current([](OverflowNames& names) noexcept {
      names.name = "0123456789012345678901234567890123456789012345678901234567890123456789";
      return true;
    });
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_THAT(long_name.text, HasSubstr("0123...\" (stack"));
}

TEST_F(Overflow, EachWorkerThreadHasItsOwnSignalStack) {
  const End end = in_child([] {
    const OverflowHandler handler;
    static StackPool pool;
    std::thread([] { const SignalStack finished; }).join();
    std::thread([] {
      const SignalStack signal_stack;
      run_on(*pool.take(), &overflow_by_recursion);
    }).join();
  });
  if (end.text.find("qemu_plugin_vcpu_init_hook") != std::string::npos)
    GTEST_SKIP() << "qemu 7 asserts on a thread made in a forked child";
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, StartsWith("weft: stack overflow"));
}

TEST_F(Overflow, TheDirectoryFollowsPoolsThatComeAndGo) {
  const End end = in_child([] {
    for (int i = 0; i < 100; ++i) {
      StackPool a({.stack_bytes = 32 * kKiB});
      StackPool b;
      a.give(*a.take());
      b.give(*b.take());
    }
    Engine engine({.stack_bytes = 128 * kKiB});
    const StackChain deep_in_the_second_slab = engine.pool.take_batch(64);
    engine.run(&overflow_by_recursion);
    engine.pool.give_batch(deep_in_the_second_slab);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, HasSubstr("(stack 128 KiB"));
}

TEST_F(Overflow, WhereAPoolWasIsAnAddressLikeAnyOther) {
  const End end = in_child([] {
    const OverflowHandler handler;
    const SignalStack signal_stack;
    volatile std::byte* was_a_guard = nullptr;
    {
      StackPool pool;
      Stack* const stack = pool.take();
      was_a_guard = stack->limit - 100;
      pool.give(*stack);
    }
    *was_a_guard = std::byte{1};
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.text, "");
}

TEST_F(Overflow, AStrayPointerIsNotCalledAnOverflow) {
  const End end = in_child([] {
    set_describe_current(&describe_reader);
    Engine engine;
    Stack* const victim = engine.pool.take();
    victim->limit[-100] = std::byte{1};  // from the thread's own stack
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.text,
            "weft: stray access by fiber #42 \"reader\" to the guard of another fiber's stack, 100 "
            "bytes below it: a wild pointer, not an overflow\n");
}

// ── handing over to the program ──────────────────────────────────────────────────────────────────

TEST_F(Overflow, APlainHandlerIsCalledAfterTheMessage) {
  const End end = in_child([] {
    install(SIGSEGV, &plain_handler, 0);  // without SA_ONSTACK it could not have run alone
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_EQ(end.exit_code, kHandled);
  EXPECT_THAT(end.text, ::testing::MatchesRegex("weft: stack overflow.*\nplain handler\n"));
}

TEST_F(Overflow, AnInfoHandlerIsCalledAfterTheMessage) {
  const End end = in_child([] {
    install(SIGSEGV, &info_handler);
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_EQ(end.exit_code, kHandled);
  EXPECT_THAT(end.text, ::testing::MatchesRegex("weft: stack overflow.*\ninfo handler\n"));
}

TEST_F(Overflow, AHandlerThatReturnsDoesNotSaveIt) {
  const End end = in_child([] {
    install(SIGSEGV, &returning_handler);
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, ::testing::MatchesRegex("weft: stack overflow.*\nreturned\n"));
}

TEST_F(Overflow, ASecondFaultInTheHandlerIsNoLoop) {
  const End end = in_child([] {
    install(SIGSEGV, [](int) { write_to_nowhere(); });
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, StartsWith("weft: stack overflow"));
}

TEST_F(Overflow, TheHandlerGetsTheMaskItAskedFor) {
  const End end = in_child([] {
    struct sigaction action {};
    action.sa_handler = [](int) {
      sigset_t blocked;
      ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
      say(::sigismember(&blocked, SIGUSR1) == 1 ? "USR1 blocked, " : "USR1 open, ");
      say(::sigismember(&blocked, SIGSEGV) == 1 ? "SEGV blocked\n" : "SEGV open\n");
      ::_exit(kHandled);
    };
    action.sa_flags = SA_NODEFER | SA_ONSTACK;
    ::sigaddset(&action.sa_mask, SIGUSR1);
    ::sigaction(SIGSEGV, &action, nullptr);
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_THAT(end.text, HasSubstr("USR1 blocked, SEGV open"));
}

TEST_F(Overflow, AHandlerInstalledLaterComesFirstAndMayPassOn) {
  static struct sigaction before_mine;
  const End end = in_child([] {
    Engine engine;
    before_mine = installed(SIGSEGV);
    install(SIGSEGV, [](int signal, siginfo_t* info, void* context) {
      say("mine\n");
      before_mine.sa_sigaction(signal, info, context);
    });
    engine.run(&overflow_by_recursion);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, StartsWith("mine\nweft: stack overflow"));
}

// ── faults that are not weft's ───────────────────────────────────────────────────────────────────

TEST_F(Overflow, AnyOtherFaultDiesAsBefore) {
  const End end = in_child([] { Engine().run(&write_to_nowhere); });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.text, "");
}

TEST_F(Overflow, AnyOtherFaultGoesToTheProgramsHandler) {
  for (const bool with_info : {false, true}) {
    const End end = in_child([&] {
      if (with_info)
        install(SIGSEGV, &info_handler);
      else
        install(SIGSEGV, &plain_handler);
      Engine().run(&write_to_nowhere);
    });
    EXPECT_EQ(end.exit_code, kHandled);
    EXPECT_EQ(end.text, with_info ? "info handler\n" : "plain handler\n");
  }
}

TEST_F(Overflow, AHandlerThatMendsAFaultMayReturn) {
  static void* page = nullptr;
  const End end = in_child([] {
    page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    install(SIGSEGV, [](int) {
      say("mended\n");
      ::mprotect(page, 4096, PROT_READ | PROT_WRITE);
    });
    Engine().run([] { *static_cast<volatile char*>(page) = 1; });
    say("went on\n");
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.text, "mended\nwent on\n");
}

TEST_F(Overflow, AOneShotHandlerIsCalledOnce) {
  const End end = in_child([] {
    install(SIGSEGV, &returning_handler, SA_RESETHAND);
    Engine().run(&write_to_nowhere);  // it returns, the fault comes again, now for the default
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.text, "returned\n");
}

TEST_F(Overflow, BusErrorsTakeTheSameWay) {
  const End end = in_child([] {
    install(SIGBUS, [](int signal) {
      say(signal == SIGBUS ? "bus\n" : "wrong signal\n");
      ::_exit(kHandled);
    });
    Engine().run([] {
      const int fd = ::memfd_create("empty", MFD_CLOEXEC);
      void* const beyond_its_end = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
      result = *static_cast<volatile char*>(beyond_its_end);
    });
  });
  EXPECT_EQ(end.exit_code, kHandled);
  EXPECT_EQ(end.text, "bus\n");
}

TEST_F(Overflow, ASignalThatWasSentIsTreatedAsBefore) {
  const End dies = in_child([] {
    const Engine engine;
    ::raise(SIGSEGV);
  });
  EXPECT_EQ(dies.signal, SIGSEGV);
  EXPECT_EQ(dies.text, "");

  const End ignores = in_child([] {
    install(SIGSEGV, SIG_IGN, 0);
    const Engine engine;
    ::raise(SIGSEGV);
    say("alive\n");
  });
  EXPECT_EQ(ignores.exit_code, 0);
  EXPECT_EQ(ignores.text, "alive\n");

  const End fault = in_child([] {
    install(SIGSEGV, SIG_IGN, 0);
    Engine().run(&write_to_nowhere);
  });
  EXPECT_EQ(fault.signal, SIGSEGV) << "the kernel lets no fault be ignored";
}

TEST_F(Overflow, ErrnoSurvivesAHandlerThatReturns) {
  const End end = in_child([] {
    install(SIGSEGV, [](int) { errno = EIO; });
    const Engine engine;
    errno = ENOENT;
    ::raise(SIGSEGV);
    say(errno == ENOENT ? "kept\n" : "lost\n");
  });
  EXPECT_EQ(end.text, "kept\n");
}

// ── coming and going ─────────────────────────────────────────────────────────────────────────────

TEST_F(Overflow, TheLastEngineRestoresWhatTheFirstFound) {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    install(signal, &returning_handler, SA_ONSTACK | SA_NODEFER);
    const struct sigaction before = installed(signal);
    {
      const OverflowHandler first;
      const struct sigaction ours = installed(signal);
      EXPECT_NE(ours.sa_handler, before.sa_handler);
      EXPECT_TRUE(ours.sa_flags & SA_ONSTACK);
      {
        const OverflowHandler second;
        EXPECT_EQ(installed(signal).sa_handler, ours.sa_handler);
      }
      EXPECT_EQ(installed(signal).sa_handler, ours.sa_handler) << "the first still needs it";
    }
    EXPECT_EQ(installed(signal).sa_handler, before.sa_handler);
    EXPECT_EQ(installed(signal).sa_flags, before.sa_flags);
    install(signal, SIG_DFL, 0);
  }
}

TEST_F(Overflow, AHandlerInstalledMeanwhileStays) {
  const End end = in_child([] {
    {
      const OverflowHandler handler;
      install(SIGSEGV, &plain_handler);
    }
    if (installed(SIGSEGV).sa_handler != &plain_handler) say("gone\n");
    write_to_nowhere();
  });
  EXPECT_EQ(end.exit_code, kHandled);
  EXPECT_EQ(end.text, "plain handler\n");
}

TEST_F(Overflow, AnEngineUnderAHandlerThatPassesOnIsNoLoop) {
  static struct sigaction before_mine;
  const End end = in_child([] {
    {
      const OverflowHandler first;
      before_mine = installed(SIGSEGV);
      install(SIGSEGV, [](int signal, siginfo_t* info, void* context) {
        say("mine\n");
        before_mine.sa_sigaction(signal, info, context);
      });
    }
    Engine().run(&overflow_by_recursion);  // weft's handler is called through the program's
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, ::testing::MatchesRegex("mine\nweft: stack overflow[^\n]*\n"));
}

TEST_F(Overflow, AnEngineAfterAHandlerWasTakenAwayInstallsAgain) {
  const End end = in_child([] {
    {
      const OverflowHandler first;
      install(SIGSEGV, SIG_DFL, 0);
    }
    Engine().run(&overflow_by_recursion);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_THAT(end.text, StartsWith("weft: stack overflow"));
}

TEST_F(Overflow, ItCanBeSwitchedOff) {
  const struct sigaction before = installed(SIGSEGV);
  const OverflowHandler handler(OverflowReport::off);
  const SignalStack signal_stack(OverflowReport::off);
  EXPECT_EQ(installed(SIGSEGV).sa_handler, before.sa_handler);
  EXPECT_FALSE(signal_stack.active());

  const End end = in_child([] {
    StackPool pool;
    run_on(*pool.take(), &overflow_by_recursion);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.text, "");
}

stack_t alternate_stack() {
  stack_t now{};
  ::sigaltstack(nullptr, &now);
  return now;
}

TEST(SignalStack, LastsAsLongAsItsObject) {
  std::thread([] {
    const stack_t before = alternate_stack();
    {
      const SignalStack ours;
      ASSERT_TRUE(ours.active());
      EXPECT_EQ(alternate_stack().ss_flags, 0);
      EXPECT_EQ(alternate_stack().ss_size, ours.bytes());
      EXPECT_GE(ours.bytes(), static_cast<std::size_t>(::sysconf(_SC_SIGSTKSZ)) + 16 * kKiB);
    }
    EXPECT_EQ(alternate_stack().ss_flags, before.ss_flags);
    EXPECT_EQ(alternate_stack().ss_sp, before.ss_sp);
  }).join();
}

TEST(SignalStack, TheProgramsOwnComesBackAndIsNeverTheLarger) {
  std::thread([] {
    const stack_t before = alternate_stack();
    std::vector<std::byte> memory(1024 * kKiB);
    stack_t programs{};
    programs.ss_sp = memory.data();
    programs.ss_size = memory.size();
    ASSERT_EQ(::sigaltstack(&programs, nullptr), 0);
    {
      const SignalStack ours;
      EXPECT_GE(ours.bytes(), memory.size());
      EXPECT_NE(alternate_stack().ss_sp, programs.ss_sp);
    }
    EXPECT_EQ(alternate_stack().ss_sp, programs.ss_sp);
    EXPECT_EQ(alternate_stack().ss_size, programs.ss_size);
    ::sigaltstack(&before, nullptr);
  }).join();
}

TEST(SignalStack, OneSetMeanwhileStays) {
  std::thread([] {
    const stack_t before = alternate_stack();
    std::vector<std::byte> memory(64 * kKiB);
    stack_t programs{};
    programs.ss_sp = memory.data();
    programs.ss_size = memory.size();
    {
      const SignalStack ours;
      ASSERT_EQ(::sigaltstack(&programs, nullptr), 0);
    }
    EXPECT_EQ(alternate_stack().ss_sp, programs.ss_sp);
    ::sigaltstack(&before, nullptr);
  }).join();
}

TEST(SignalStack, WithoutMemoryTheThreadGoesOnWithout) {
  const stack_t before = alternate_stack();
  for (const fault::Site site : {fault::Site::mmap, fault::Site::mprotect}) {
    const fault::Scoped failing{site, {.every = 1}};
    const SignalStack none;
    EXPECT_FALSE(none.active());
    EXPECT_EQ(alternate_stack().ss_sp, before.ss_sp);
    EXPECT_EQ(failing.failures(), 1U);
  }
}

TEST_F(Overflow, WithoutASignalStackItDiesWithoutAWord) {
  const End end = in_child([] {
    stack_t none{};
    none.ss_flags = SS_DISABLE;  // a sanitizer's runtime may have set one
    ::sigaltstack(&none, nullptr);
    const OverflowHandler handler;
    StackPool pool;
    run_on(*pool.take(), &overflow_by_recursion);
  });
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.text, "");
}

TEST(OverflowUnderASanitizer, AddressSanitizerReportsAfterTheMessage) {
  if (!kAsan) GTEST_SKIP() << "for AddressSanitizer builds";
  const End end = in_child([] { Engine().run(&overflow_by_recursion); });
  EXPECT_THAT(end.text, HasSubstr("weft: stack overflow in a fiber (stack 256 KiB"));
  EXPECT_THAT(end.text, HasSubstr("ERROR: AddressSanitizer: stack-overflow"));
}

}  // namespace
}  // namespace weft::arch
