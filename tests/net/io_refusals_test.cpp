// I/O when memory is refused, or the right to kill a process. A program of its own, because it
// replaces operator new, and puts itself before kill(2).
#include <weft/arch/sanitizer.hpp>
#include <weft/engine.hpp>
#include <weft/file.hpp>
#include <weft/net.hpp>
#include <weft/process.hpp>
#include <weft/signals.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <support/engines.hpp>
#include <support/replaced_new.hpp>
#include <support/temp_dir.hpp>

namespace {

std::atomic<int> forbidden_signal{0};

}  // namespace

// As of a process that has become another user's.
extern "C" int kill(pid_t pid, int signal) noexcept {
  if (signal == 0 || signal != forbidden_signal)
    return static_cast<int>(::syscall(SYS_kill, pid, signal));
  errno = EPERM;
  return -1;
}

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::allowed;
using testing::on_workers;
using testing::open_descriptors;
using testing::TempDir;

void expect_no_children() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// A single thread for all fibers: it is the one that is refused memory.
void on_one_thread(const std::function<void()>& f) {
  FiberIo{{.workers = 1, .max_workers = 1}}.run(f);
}

// `f` again and again, with one more allocation before the one that fails, until it needs no more.
// `check` after each.
template <class F, class Check>
void with_each_refusal(F f, Check check) {
  int refusals = 0;
  for (bool refused = true; refused; ++refusals) {
    allowed = refusals;
    try {
      f();
    } catch (const std::bad_alloc&) {
    }
    refused = allowed < 0;
    allowed = -1;
    check(refusals);
  }
  EXPECT_GT(refusals, 1) << "one was refused";
}

class RefusedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (arch::kTsan) GTEST_SKIP() << "its operator new cannot be replaced";
  }
};

TEST_F(RefusedMemory, NoProcessIsLost) {
  on_one_thread([] {
    static_cast<void>(run_process({.argv = {"true"}}));
    const std::size_t before = open_descriptors();
    with_each_refusal(
        [] {
          static_cast<void>(Process::spawn({.argv = {"sleep", "1000"},
                                            .in = Stdio::pipe,
                                            .out = Stdio::pipe,
                                            .err = Stdio::pipe}));
        },
        [&](int refusal) {
          expect_no_children();
          EXPECT_EQ(open_descriptors(), before) << refusal;
        });
  });
}

TEST_F(RefusedMemory, NoDraftOfAFileIsLost) {
  on_one_thread([] {
    const TempDir dir;
    std::ofstream{dir / "f"} << "old";
    // So many that no record of an earlier descriptor is left: the draft's needs memory.
    std::vector<File> held;
    for (int i = 0; i < 100; ++i) held.push_back(File::open("/dev/null").value());
    with_each_refusal(
        [&] { static_cast<void>(write_file(dir / "f", "new", {.atomic = true})); },
        [&](int refusal) { EXPECT_EQ(list_directory(dir.path())->size(), 1U) << refusal; });
    EXPECT_EQ(read_file(dir / "f").value(), "new");
  });
}

TEST_F(RefusedMemory, NoTapOfSignalsIsLost) {
  on_one_thread([] {
    static_cast<void>(signals({SIGUSR1}));
    const std::size_t before = open_descriptors();
    for (int round = 0; round < 3; ++round) {
      with_each_refusal([] { static_cast<void>(signals({SIGUSR1})); }, [](int) {});
      EXPECT_TRUE(signals({SIGUSR1}));
    }
    EXPECT_EQ(open_descriptors(), before);
  });
}

// Nor does it throw: who calls it may not look.
TEST_F(RefusedMemory, AListenerThatCannotAcceptAheadAcceptsOneByOne) {
  on_one_thread([] {
    const net::TcpListener listener = net::listen({"127.0.0.1", 0}).value();
    const auto talk = [&] {
      const net::TcpStream client = net::connect(listener.local_endpoint()).value();
      const net::TcpStream server = listener.accept().value();
      EXPECT_TRUE(client.write_all("hi"));
      std::array<std::byte, 2> heard;
      EXPECT_TRUE(server.read_exactly(heard));
    };
    allowed = 0;
    listener.accept_ahead();
    allowed = -1;
    talk();
    listener.accept_ahead();
    talk();
  });
}

// ── a process that we may not kill ──────────────────────────────────────────────────────────────

class Forbidden {
 public:
  explicit Forbidden(int signal) { forbidden_signal = signal; }
  ~Forbidden() { forbidden_signal = 0; }
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;
};

TEST(ForbiddenKill, TerminateSaysSoInsteadOfWaiting) {
  on_workers({1U, 2U}, [] {
    Process process = Process::spawn({.argv = {"sleep", "1000"}}).value();
    {
      const Forbidden forbidden{SIGTERM};
      EXPECT_EQ(process.kill(SIGTERM).error(), std::errc::operation_not_permitted);
      EXPECT_EQ(process.terminate(1h).error(), std::errc::operation_not_permitted);
    }
    EXPECT_TRUE(process.kill(0)) << "it is there";
    EXPECT_EQ(process.terminate(1h)->signal, SIGTERM);
    EXPECT_EQ(process.terminate(1h)->signal, SIGTERM) << "it has been waited for";
  });
  expect_no_children();
}

TEST(ForbiddenKill, SoDoesOneThatWasAskedInVain) {
  on_workers({1U, 2U}, [] {
    Process process =
        Process::spawn({.argv = {"sh", "-c", "trap '' TERM; echo up; exec sleep 1000"},
                        .out = Stdio::pipe})
            .value();
    std::array<std::byte, 3> up;
    ASSERT_TRUE(process.out().read_exactly(up));
    {
      const Forbidden forbidden{SIGKILL};
      EXPECT_EQ(process.terminate(1ms).error(), std::errc::operation_not_permitted);
    }
    EXPECT_EQ(process.terminate(1ms)->signal, SIGKILL);
  });
  expect_no_children();
}

// The process goes on until its output is gone, and whoever starts the next one waits for it.
TEST(ForbiddenKill, ATimeoutEndsAllTheSame) {
  on_workers({1U, 2U}, [] {
    {
      const Forbidden forbidden{SIGKILL};
      EXPECT_EQ(run_process({.argv = {"yes"}, .output_limit = 1000}).error(), IoError::too_long);
      EXPECT_EQ(run_process({.argv = {"sh", "-c", "while echo; do sleep 0.01; done"},
                             .timeout = 20ms})
                    .error(),
                std::errc::timed_out);
    }
    const auto any_left = [] {
      siginfo_t info{};
      return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    };
    while (any_left()) {
      EXPECT_TRUE(run_process({.argv = {"true"}}));
      sleep_for(1ms);
    }
  });
}

}  // namespace
}  // namespace weft
