// Processes: started, talked to, waited for and ended.
#include <weft/process.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/file.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <support/engines.hpp>
#include <support/temp_dir.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::on_workers;
using testing::open_descriptors;
using testing::TempDir;

void on_machine(const std::function<void()>& f) {
  on_workers({1U, 2U}, f);
  SCOPED_TRACE("BlockingIo");
  BlockingIo{}.run(f);
}

// Every process of ours has been waited for.
void expect_no_children() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

std::vector<std::string> shell(std::string script) { return {"sh", "-c", std::move(script)}; }

// ── run_process ─────────────────────────────────────────────────────────────────────────────────

TEST(RunProcess, ReturnsWhatItWroteAndHowItEnded) {
  on_machine([] {
    const Result<Finished> done = run_process({.argv = shell("echo out; echo err >&2; exit 3")});
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(done->out, "out\n");
    EXPECT_EQ(done->err, "err\n");
    EXPECT_EQ(done->status, (ExitStatus{.code = 3}));
    EXPECT_FALSE(done->status.success());
    EXPECT_EQ(to_string(done->status), "exit code 3");
    EXPECT_TRUE(run_process({.argv = {"true"}})->status.success());
  });
  expect_no_children();
}

TEST(RunProcess, ASignalIsNoExitCode) {
  on_machine([] {
    const Result<Finished> done = run_process({.argv = shell("kill -KILL $$")});
    EXPECT_EQ(done->status, (ExitStatus{.code = 0, .signal = SIGKILL}));
    EXPECT_FALSE(done->status.success());
    EXPECT_EQ(to_string(done->status), "signal 9 (Killed)");
  });
}

TEST(RunProcess, InputOfAnySizeComesBack) {
  on_machine([] {
    std::string text;
    for (int i = 0; text.size() < 2'000'000; ++i) text += std::to_string(i) + '\n';
    const Result<Finished> done = run_process({.argv = {"cat"}, .input = text});
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_TRUE(done->out == text) << done->out.size();
    EXPECT_EQ(run_process({.argv = {"cat"}})->out, "") << "without input it finds the end";
  });
}

TEST(RunProcess, ItNeedNotReadItsInput) {
  on_machine([] {
    const std::string much(1'000'000, 'x');
    const Result<Finished> done = run_process({.argv = {"true"}, .input = much});
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_TRUE(done->status.success());
  });
}

TEST(RunProcess, MuchOnBothOutputs) {
  on_machine([] {
    const Result<Finished> done = run_process(
        {.argv = shell("i=0; while [ $i -lt 20 ]; do head -c 50000 /dev/zero; "
                       "head -c 50000 /dev/zero >&2; i=$((i+1)); done")});
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(done->out.size(), 1'000'000U);
    EXPECT_EQ(done->err.size(), 1'000'000U);
  });
}

TEST(RunProcess, OutputHasALimit) {
  on_machine([] {
    EXPECT_EQ(run_process({.argv = {"cat", "/dev/zero"}, .output_limit = 100'000}).error(),
              IoError::too_long);
    EXPECT_EQ(run_process({.argv = {"echo", "1234"}, .output_limit = 5})->out, "1234\n");
    EXPECT_EQ(run_process({.argv = {"echo", "12345"}, .output_limit = 5}).error(),
              IoError::too_long);
  });
  expect_no_children();
}

TEST(RunProcess, ATimeoutKillsAndReaps) {
  on_machine([] {
    EXPECT_EQ(run_process({.argv = {"sleep", "1000"}, .timeout = 10ms}).error(),
              std::errc::timed_out);
    // One that has closed its outputs and goes on.
    EXPECT_EQ(run_process({.argv = shell("exec sleep 1000 >&- 2>&-"), .timeout = 10ms}).error(),
              std::errc::timed_out);
    // One that does not want to go.
    EXPECT_EQ(run_process({.argv = shell("trap '' TERM; while :; do sleep 1000; done"),
                           .new_group = true,
                           .timeout = 20ms})
                  .error(),
              std::errc::timed_out);
    EXPECT_TRUE(run_process({.argv = {"true"}, .timeout = 1h}));
  });
  expect_no_children();
}

TEST(RunProcess, CancelledItIsKilled) {
  on_workers([] {
    const auto done = timeout(10ms, [] { return run_process({.argv = {"sleep", "1000"}}); });
    EXPECT_FALSE(done);
    expect_no_children();
  });
}

TEST(RunProcess, FiftyAtOnce) {
  on_workers({2U}, [] {
    static_cast<void>(run_process({.argv = {"true"}}));
    const std::size_t before = open_descriptors();
    std::atomic<int> right = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 50; ++i)
        n.spawn([&right, i] {
          const std::string text = "number " + std::to_string(i);
          const Result<Finished> done =
              run_process({.argv = shell("cat; exit " + std::to_string(i)), .input = text});
          ASSERT_TRUE(done) << done.error().message();
          if (done->out == text && done->status.code == i) ++right;
        });
    });
    EXPECT_EQ(right, 50);
    EXPECT_EQ(open_descriptors(), before);
    expect_no_children();
  });
}

// ── what it is given ────────────────────────────────────────────────────────────────────────────

TEST(ProcessGiven, MissingProgramsAreErrors) {
  on_machine([] {
    const TempDir dir;
    EXPECT_EQ(run_process({.argv = {"no-such-program-anywhere"}}).error(),
              std::errc::no_such_file_or_directory);
    EXPECT_EQ(run_process({.argv = {dir / "none"}}).error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(run_process({.argv = {dir.path()}}).error(), std::errc::permission_denied);
    EXPECT_EQ(run_process({.argv = {"true"}, .cwd = dir / "none"}).error(),
              std::errc::no_such_file_or_directory);
    ASSERT_TRUE(write_file(dir / "text", "no program", {.permissions = 0700}));
    EXPECT_EQ(run_process({.argv = {dir / "text"}}).error(), std::errc::executable_format_error);
  });
  expect_no_children();
}

TEST(ProcessGiven, StringsThatCannotBeGivenAreErrors) {
  on_machine([] {
    const std::string zero("a\0b", 3);
    EXPECT_EQ(run_process({}).error(), std::errc::invalid_argument);
    EXPECT_EQ(run_process({.argv = {""}}).error(), std::errc::invalid_argument);
    EXPECT_EQ(run_process({.argv = {"echo", zero}}).error(), std::errc::invalid_argument);
    EXPECT_EQ(run_process({.argv = {"true"}, .env = {"NAME"}}).error(),
              std::errc::invalid_argument);
    EXPECT_EQ(run_process({.argv = {"true"}, .env = {"=value"}}).error(),
              std::errc::invalid_argument);
    EXPECT_EQ(run_process({.argv = {"true"}, .env = {""}}).error(), std::errc::invalid_argument);
    EXPECT_EQ(run_process({.argv = {"true"}, .cwd = zero}).error(), std::errc::invalid_argument);
    EXPECT_EQ(Process::spawn({.argv = {"true"}, .out = Stdio::to_out}).error(),
              std::errc::invalid_argument);
    EXPECT_EQ(Process::spawn({.argv = {"true"}, .out = Stdio::descriptor(-1)}).error(),
              std::errc::bad_file_descriptor);
  });
}

TEST(ProcessGiven, DirectoryAndEnvironment) {
  ASSERT_EQ(::setenv("WEFT_TEST_OURS", "ours", 1), 0);
  on_machine([] {
    const TempDir dir;
    EXPECT_EQ(run_process({.argv = {"pwd"}, .cwd = dir.path()})->out, dir.path() + "\n");
    const std::vector<std::string> print =
        shell("echo \"${WEFT_TEST_OURS-none} ${WEFT_TEST_NEW-none}\"");
    EXPECT_EQ(run_process({.argv = print})->out, "ours none\n");
    EXPECT_EQ(run_process({.argv = print, .env = {"WEFT_TEST_NEW=new"}})->out, "ours new\n");
    EXPECT_EQ(run_process({.argv = print, .env = {"WEFT_TEST_OURS=", "WEFT_TEST_NEW=a=b"}})->out,
              " a=b\n");
    EXPECT_EQ(run_process({.argv = {"env"}, .env = {"ONLY=this"}, .inherit_env = false})->out,
              "ONLY=this\n");
    EXPECT_EQ(run_process({.argv = {"printf", "%s|", "a b", "", "$HOME"}})->out, "a b||$HOME|");
  });
}

// Whatever this process has opened, carelessly too.
TEST(ProcessGiven, NoOtherDescriptors) {
  const int careless = ::open("/dev/null", O_RDONLY);
  ASSERT_GE(careless, 0);
  on_machine([] {
    const Result<Finished> done =
        run_process({.argv = {"ls", "/proc/self/fd"}, .input = "for a third pipe"});
    EXPECT_EQ(done->out, "0\n1\n2\n3\n") << "the last one is the directory that it lists";
  });
  ::close(careless);
}

TEST(ProcessGiven, SignalsAsIfNobodyHadTouchedThem) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGUSR1, &ignore, &before), 0);
  sigset_t usr2;
  ::sigemptyset(&usr2);
  ::sigaddset(&usr2, SIGUSR2);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &usr2, nullptr), 0);
  on_machine([] {
    const std::string status = run_process({.argv = {"cat", "/proc/self/status"}})->out;
    const auto set = [&](const std::string& name) {
      return std::stoull(status.substr(status.find(name) + name.size()), nullptr, 16);
    };
    EXPECT_EQ(set("SigBlk:\t"), 0U);
    constexpr std::uint64_t kOfTheCLibrary = 0x1'8000'0000;  // 32 and 33
    EXPECT_EQ(set("SigIgn:\t") & ~kOfTheCLibrary, 0U);
  });
  ::pthread_sigmask(SIG_UNBLOCK, &usr2, nullptr);
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(ProcessGiven, EachKindOfStdio) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "in", "from a file"));
    {
      const File in = File::open(dir / "in").value();
      const File out = File::open(dir / "out", {.write = true, .create = true}).value();
      Process both = Process::spawn({.argv = shell("cat; echo ' and more' >&2"),
                                     .in = Stdio::descriptor(in.native_handle()),
                                     .out = Stdio::descriptor(out.native_handle()),
                                     .err = Stdio::to_out})
                         .value();
      EXPECT_FALSE(both.in());
      EXPECT_FALSE(both.out());
      EXPECT_FALSE(both.err());
      EXPECT_TRUE(both.wait()->success());
      EXPECT_TRUE(in.is_open()) << "it was only lent";
    }
    EXPECT_EQ(read_file(dir / "out").value(), "from a file and more\n");
    Process quiet = Process::spawn({.argv = shell("cat; echo unheard; echo unheard >&2"),
                                    .in = Stdio::null,
                                    .out = Stdio::null,
                                    .err = Stdio::null})
                        .value();
    EXPECT_TRUE(quiet.wait()->success());
    Process merged = Process::spawn({.argv = shell("echo one; echo two >&2"),
                                     .out = Stdio::pipe,
                                     .err = Stdio::to_out})
                         .value();
    EXPECT_EQ(merged.out().read_all().value(), "one\ntwo\n");
    EXPECT_TRUE(merged.wait()->success());
  });
  expect_no_children();
}

// ── a process at work ───────────────────────────────────────────────────────────────────────────

TEST(Processes, AConversation) {
  on_machine([] {
    Process echo =
        Process::spawn({.argv = {"cat"}, .in = Stdio::pipe, .out = Stdio::pipe}).value();
    EXPECT_GT(echo.pid(), 0);
    for (int i = 0; i < 10; ++i) {
      const std::string word = "word " + std::to_string(i);
      ASSERT_TRUE(echo.in().write_all(word));
      std::vector<std::byte> buffer(word.size());
      ASSERT_TRUE(echo.out().read_exactly(buffer));
      EXPECT_EQ((std::string{reinterpret_cast<const char*>(buffer.data()), buffer.size()}), word);
    }
    EXPECT_TRUE(echo.in().close());
    EXPECT_TRUE(echo.out().read_all()->empty());
    EXPECT_TRUE(echo.wait()->success());
    EXPECT_TRUE(echo.wait()->success()) << "and again";
    EXPECT_EQ(echo.kill(SIGKILL).error(), std::errc::no_such_process);
  });
}

TEST(Processes, SeveralMayWait) {
  on_workers([] {
    Process process = Process::spawn({.argv = shell("read x; exit 7"), .in = Stdio::pipe}).value();
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) n.spawn([&] { EXPECT_EQ(process.wait()->code, 7); });
      n.spawn([&] {
        testing::let_others_block();
        EXPECT_TRUE(process.in().write_all("\n"));
      });
    });
  });
  expect_no_children();
}

TEST(Processes, KilledWhileSomebodyWaits) {
  on_workers([] {
    Process process = Process::spawn({.argv = {"sleep", "1000"}}).value();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(process.wait()->signal, SIGUSR1); });
      n.spawn([&] {
        testing::let_others_block();
        EXPECT_TRUE(process.kill(SIGUSR1));
      });
    });
  });
}

TEST(Processes, ACancelledWaitLeavesItRunning) {
  on_workers([] {
    Process process = Process::spawn({.argv = {"cat"}, .in = Stdio::pipe}).value();
    EXPECT_FALSE(timeout(1ms, [&] { static_cast<void>(process.wait()); }));
    EXPECT_TRUE(process.kill(0)) << "it is there";
    EXPECT_TRUE(process.in().close());
    EXPECT_TRUE(process.wait()->success());
  });
}

TEST(Processes, TerminateAsksFirst) {
  on_machine([] {
    Process willing = Process::spawn({.argv = shell("trap 'exit 5' TERM; echo up; "
                                                    "while :; do sleep 0.01; done"),
                                      .out = Stdio::pipe})
                          .value();
    std::array<std::byte, 3> up;
    ASSERT_TRUE(willing.out().read_exactly(up));
    EXPECT_EQ(willing.terminate(1h)->code, 5);
    EXPECT_EQ(willing.terminate(1h)->code, 5) << "it has ended";
    Process stubborn = Process::spawn({.argv = shell("trap '' TERM; echo up; "
                                                     "while :; do sleep 0.01; done"),
                                       .out = Stdio::pipe})
                           .value();
    ASSERT_TRUE(stubborn.out().read_exactly(up));
    EXPECT_EQ(stubborn.terminate(5ms)->signal, SIGKILL);
  });
  expect_no_children();
}

TEST(Processes, AGroupGoesTogether) {
  on_machine([] {
    // The one that it leaves behind keeps the pipe open.
    Process leader = Process::spawn({.argv = shell("sleep 1000 & echo up; wait"),
                                     .out = Stdio::pipe,
                                     .new_group = true})
                         .value();
    std::array<std::byte, 3> up;
    ASSERT_TRUE(leader.out().read_exactly(up));
    EXPECT_TRUE(leader.kill(SIGKILL));
    EXPECT_EQ(leader.out().read_all().value(), "") << "nobody holds it any more";
    EXPECT_EQ(leader.wait()->signal, SIGKILL);
  });
}

TEST(Processes, OneThatIsDroppedIsKilledAndReaped) {
  on_machine([] {
    static_cast<void>(run_process({.argv = {"true"}}));
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 5; ++i) {
      const Process dropped =
          Process::spawn({.argv = {"sleep", "1000"}, .in = Stdio::pipe, .out = Stdio::pipe})
              .value();
    }
    expect_no_children();
    EXPECT_EQ(open_descriptors(), before);
    Process moved = Process::spawn({.argv = {"sleep", "1000"}}).value();
    moved = Process{};
    expect_no_children();
    EXPECT_EQ(moved.pid(), 0);
    EXPECT_EQ(moved.wait().error(), std::errc::no_child_process);
  });
}

TEST(Processes, OneThatOutlivesItsEngineIsReaped) {
  Process kept;
  FiberIo{{.workers = 1}}.run([&] {
    kept = Process::spawn({.argv = {"sleep", "1000"}}).value();
  });
  EXPECT_TRUE(kept.kill(0));
  kept = Process{};
  expect_no_children();
}

// Where no pidfd can be had, here because no descriptor is left for one.
TEST(Processes, AreAskedNowAndThenWithoutAHandle) {
  on_workers({1U}, [] {
    static_cast<void>(run_process({.argv = {"true"}}));
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(next, 0);
    ::close(next);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none_left{static_cast<rlim_t>(next), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
    Result<Process> process = Process::spawn({.argv = shell("exit 9")});
    Result<Process> dropped = Process::spawn({.argv = {"sleep", "1000"}});
    EXPECT_FALSE(Process::spawn({.argv = {"true"}, .out = Stdio::pipe})) << "no room for that";
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(process) << process.error().message();
    EXPECT_EQ(process->wait()->code, 9);
    ASSERT_TRUE(dropped);
    EXPECT_FALSE(timeout(2ms, [&] { static_cast<void>(dropped->wait()); })) << "a cancel point";
    *dropped = Process{};
    expect_no_children();
  });
}

}  // namespace
}  // namespace weft
