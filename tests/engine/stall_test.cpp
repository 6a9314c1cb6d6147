// Fibers that keep their worker: who is reported, when, and what is said.
#include "arch/thread_backtrace.hpp"
#include "engine/findings.hpp"
#include "engine/stall_watch.hpp"
#include "engine/worker.hpp"

#include <weft/arch/sanitizer.hpp>
#include <weft/weft.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Their names are looked for in backtraces.
extern "C" {
[[gnu::noinline]] void weft_test_guilty(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_acquire)) asm volatile("");
  asm volatile("");  // or else the loop may become its caller's
}
}

namespace weft {
namespace {

using namespace std::chrono_literals;
using engine::Stall;
using engine::StallWatch;
using engine::ThreadSight;
using engine::WorkerProgress;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ── the watch, in virtual time ──────────────────────────────────────────────────────────────────

class Watching : public ::testing::Test {
 protected:
  // The workers reported by one look, after `passed`.
  std::vector<unsigned> look(Duration passed, const std::vector<WorkerProgress>& sights) {
    now_ += passed;
    std::vector<unsigned> reported;
    for (const Stall& stall : watch_.look(now_, sights)) {
      reported.push_back(stall.worker);
      last_ = stall;
    }
    return reported;
  }
  // Looks every 5 ms; the worker computes all the time.
  std::vector<unsigned> computes(Duration span, const WorkerProgress& sight) {
    std::vector<unsigned> reported;
    for (Duration at{}; at < span; at += 5ms) {
      threads_[sight.worker].on_cpu += 5ms;
      for (const unsigned worker : look(5ms, {sight})) reported.push_back(worker);
    }
    return reported;
  }

  std::map<unsigned, ThreadSight> threads_;
  int asked_ = 0;
  Instant now_{100s};
  Stall last_;
  StallWatch watch_{50ms, [this](unsigned worker) {
                      ++asked_;
                      return threads_[worker];
                    }};
};

TEST_F(Watching, AFiberThatDoesNotGiveWayIsReportedOnce) {
  const WorkerProgress stalled{.worker = 1, .picks = 7, .runs = true};
  EXPECT_THAT(computes(50ms, stalled), IsEmpty());
  EXPECT_THAT(computes(10'000ms, stalled), ElementsAre(1));
  EXPECT_FALSE(last_.sleeping);
  EXPECT_GE(last_.lasted, 50ms);
  EXPECT_LE(last_.lasted, 65ms);
}

TEST_F(Watching, EachStallGetsItsReport) {
  for (std::uint64_t picks = 1; picks <= 3; ++picks)
    EXPECT_THAT(computes(100ms, {.worker = 0, .picks = picks, .runs = true}), ElementsAre(0));
}

TEST_F(Watching, WhoGivesWayIsNotReported) {
  for (std::uint64_t picks = 0; picks < 1000; ++picks)
    EXPECT_THAT(computes(45ms, {.worker = 0, .picks = picks, .runs = true}), IsEmpty());
}

TEST_F(Watching, AWorkerThatRunsNobodyIsNotReported) {
  EXPECT_THAT(computes(1000ms, {.worker = 0, .picks = 5, .runs = false}), IsEmpty());
  EXPECT_EQ(asked_, 0);
  // Nor is the time before it ran somebody counted.
  EXPECT_THAT(computes(50ms, {.worker = 0, .picks = 5, .runs = true}), IsEmpty());
}

TEST_F(Watching, AThreadThatWaitsForACoreIsNotToBlame) {
  const WorkerProgress stalled{.worker = 0, .picks = 1, .runs = true};
  for (int i = 0; i < 100; ++i) EXPECT_THAT(look(5ms, {stalled}), IsEmpty());
  threads_[0].on_cpu += 49ms;
  EXPECT_THAT(look(5ms, {stalled}), IsEmpty());
  threads_[0].on_cpu += 1ms;
  EXPECT_THAT(look(5ms, {stalled}), ElementsAre(0));
}

TEST_F(Watching, OneThatSleepsInTheKernelKeepsItsWorkerAllTheSame) {
  threads_[0].sleeping = true;
  const WorkerProgress stalled{.worker = 0, .picks = 1, .runs = true};
  for (int i = 0; i < 10; ++i) EXPECT_THAT(look(5ms, {stalled}), IsEmpty());
  EXPECT_THAT(look(5ms, {stalled}), ElementsAre(0));
  EXPECT_TRUE(last_.sleeping);
  for (int i = 0; i < 100; ++i) EXPECT_THAT(look(5ms, {stalled}), IsEmpty());
}

TEST_F(Watching, WorkersAreJudgedOneByOne) {
  threads_[0].sleeping = threads_[2].sleeping = true;
  std::vector<unsigned> reported;
  for (std::uint64_t i = 0; i < 30; ++i)
    for (const unsigned worker : look(5ms, {{.worker = 0, .picks = 1, .runs = true},
                                            {.worker = 1, .picks = i, .runs = true},
                                            {.worker = 2, .picks = i < 10 ? i : 10, .runs = true}}))
      reported.push_back(worker);
  EXPECT_THAT(reported, ElementsAre(0, 2));
}

TEST_F(Watching, ThreadsAreOnlyAskedAboutWhenTheyLookStalled) {
  for (std::uint64_t picks = 0; picks < 100; ++picks)
    look(5ms, {{.worker = 0, .picks = picks, .runs = true}});
  EXPECT_EQ(asked_, 0);
  computes(1000ms, {.worker = 0, .picks = 100, .runs = true});
  EXPECT_LE(asked_, 4);
}

// ── backtraces of other threads ─────────────────────────────────────────────────────────────────

// A thread, and its number.
class Other {
 public:
  explicit Other(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          tid_.store(::gettid());
          body();
        }) {}
  ~Other() { thread_.join(); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  [[nodiscard]] pid_t tid() const {
    pid_t tid = 0;
    while ((tid = tid_.load()) == 0) std::this_thread::yield();
    return tid;
  }
  [[nodiscard]] pthread_t handle() { return thread_.native_handle(); }

 private:
  std::atomic<pid_t> tid_{0};
  std::thread thread_;
};

constexpr arch::Witness kNobody{nullptr, nullptr};

class ThreadBacktrace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (arch::kTsan)
      GTEST_SKIP() << "ThreadSanitizer delivers a signal when the thread next makes a call";
  }
};

TEST_F(ThreadBacktrace, NamesTheFunctionThatRuns) {
  const arch::BacktraceHandler handler;
  std::atomic<bool> stop{false};
  const Other other{[&] { weft_test_guilty(stop); }};
  std::string text;
  for (int i = 0; i < 1000 && text.find("weft_test_guilty") == std::string::npos; ++i) {
    arch::Backtrace trace;
    ASSERT_EQ(arch::take_backtrace_of(other.tid(), trace, kNobody), arch::Answer::taken);
    EXPECT_GT(trace.count, 0U);
    text = arch::to_string(trace, "");
  }
  stop.store(true);
  EXPECT_THAT(text,
              AllOf(HasSubstr("weft_test_guilty+0x"), Not(HasSubstr("weft_backtrace_handler"))));
}

TEST_F(ThreadBacktrace, TheWitnessIsCalledOnThatThread) {
  const arch::BacktraceHandler handler;
  std::atomic<bool> stop{false};
  const Other other{[&] { weft_test_guilty(stop); }};
  pid_t where = 0;
  arch::Backtrace trace;
  EXPECT_EQ(arch::take_backtrace_of(
                other.tid(), trace,
                {[](void* at) noexcept { *static_cast<pid_t*>(at) = ::gettid(); }, &where}),
            arch::Answer::taken);
  EXPECT_EQ(where, other.tid());
  stop.store(true);
}

TEST_F(ThreadBacktrace, AThreadThatDoesNotAnswerIsNotWaitedForLong) {
  const arch::BacktraceHandler handler;
  std::atomic<bool> blocked{false}, unblock{false}, stop{false};
  {
    const Other other{[&] {
      sigset_t set;
      ::sigemptyset(&set);
      ::sigaddset(&set, arch::backtrace_signal());
      ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
      blocked.store(true);
      weft_test_guilty(unblock);
      ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // and now the signal comes, for nobody
      weft_test_guilty(stop);
    }};
    while (!blocked.load()) std::this_thread::yield();
    arch::Backtrace trace;
    bool witnessed = false;
    EXPECT_EQ(arch::take_backtrace_of(
                  other.tid(), trace,
                  {[](void* at) noexcept { *static_cast<bool*>(at) = true; }, &witnessed}),
              arch::Answer::none_in_time);
    unblock.store(true);
    EXPECT_EQ(arch::take_backtrace_of(other.tid(), trace, kNobody), arch::Answer::taken);
    EXPECT_FALSE(witnessed);
    stop.store(true);
  }
}

TEST_F(ThreadBacktrace, AThreadThatIsGoneIsNotAsked) {
  const arch::BacktraceHandler handler;
  pid_t tid = 0;
  {
    const Other other{[] {}};
    tid = other.tid();
  }
  arch::Backtrace trace;
  EXPECT_EQ(arch::take_backtrace_of(tid, trace, kNobody), arch::Answer::not_asked);
  EXPECT_EQ(arch::state_of_thread(tid), arch::ThreadState::gone);
}

std::atomic<int> program_calls{0};
void program_handler(int) { program_calls.fetch_add(1); }

struct sigaction installed() {
  struct sigaction now {};
  ::sigaction(arch::backtrace_signal(), nullptr, &now);
  return now;
}
void install_program_handler() {
  struct sigaction action {};
  action.sa_handler = &program_handler;
  ::sigaction(arch::backtrace_signal(), &action, nullptr);
}

TEST_F(ThreadBacktrace, SignalsOfOthersReachTheProgramsHandler) {
  install_program_handler();
  program_calls = 0;
  {
    const arch::BacktraceHandler handler;
    const arch::BacktraceHandler another;
    EXPECT_NE(installed().sa_handler, &program_handler);
    ::raise(arch::backtrace_signal());
    EXPECT_EQ(program_calls, 1);
    std::atomic<bool> stop{false};
    const Other other{[&] { weft_test_guilty(stop); }};
    arch::Backtrace trace;
    EXPECT_EQ(arch::take_backtrace_of(other.tid(), trace, kNobody), arch::Answer::taken);
    EXPECT_EQ(program_calls, 1) << "ours are not the program's business";
    stop.store(true);
  }
  EXPECT_EQ(installed().sa_handler, &program_handler) << "put back";
  ::signal(arch::backtrace_signal(), SIG_DFL);
}

TEST_F(ThreadBacktrace, AHandlerThatTheProgramPutsOnTopStays) {
  program_calls = 0;
  {
    const arch::BacktraceHandler handler;
    install_program_handler();
    std::atomic<bool> stop{false};
    const Other other{[&] { weft_test_guilty(stop); }};
    arch::Backtrace trace;
    EXPECT_EQ(arch::take_backtrace_of(other.tid(), trace, kNobody), arch::Answer::not_asked);
    stop.store(true);
  }
  EXPECT_EQ(program_calls, 0) << "the program never hears of us";
  EXPECT_EQ(installed().sa_handler, &program_handler);
  ::signal(arch::backtrace_signal(), SIG_DFL);
}

// ── reports ─────────────────────────────────────────────────────────────────────────────────────

struct Said {
  FiberId fiber;
  std::string name, text;
};

// What is found while this object lives.
class Findings {
 public:
  Findings() {
    set_stall_hook([this](const Finding& finding) {
      const std::lock_guard locked{mutex_};
      said_.push_back({finding.fiber, std::string{finding.name}, std::string{finding.text}});
      count_.fetch_add(1);
    });
  }
  ~Findings() { set_stall_hook({}); }
  Findings(const Findings&) = delete;
  Findings& operator=(const Findings&) = delete;
  [[nodiscard]] int count() const { return count_.load(); }
  [[nodiscard]] std::vector<Said> said() {
    const std::lock_guard locked{mutex_};
    return said_;
  }

 private:
  std::mutex mutex_;
  std::vector<Said> said_;
  std::atomic<int> count_{0};
};

// The worker that the calling fiber runs on, as a watcher sees it.
engine::StalledWorker worker_here() {
  auto& worker = static_cast<engine::Worker&>(Carrier::here());
  return {worker.index(), worker.thread_id(), &worker, [] { return std::uint64_t{1}; }};
}

bool sleeps(pid_t tid) { return arch::state_of_thread(tid) == arch::ThreadState::sleeping; }

TEST(StallReport, NamesFiberWorkerAndTheGuiltyFunction) {
  Findings findings;
  const arch::BacktraceHandler handler;
  FiberIo io{{.workers = 1}};
  FiberId id = 0;
  io.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("hog", [&] {
        id = this_fiber::id();
        const auto worker = worker_here();
        std::atomic<bool> stop{false};
        const Other watcher{[&] {
          // The first may find it still on its way there.
          do engine::report_stall({.worker = 0, .lasted = 52ms}, worker);
          while (findings.count() < 100 && !arch::kTsan &&
                 findings.said().back().text.find("weft_test_guilty") == std::string::npos);
          stop.store(true);
        }};
        weft_test_guilty(stop);
      });
    });
  });
  auto said = findings.said();
  ASSERT_GE(said.size(), 1U);
  said.erase(said.begin(), said.end() - 1);
  EXPECT_EQ(said[0].fiber, id);
  EXPECT_EQ(said[0].name, "hog");
  EXPECT_THAT(said[0].text,
              HasSubstr("weft: fiber #" + std::to_string(id) +
                        " \"hog\" has kept worker 0 for 52 ms without giving way\n"));
  if (arch::kTsan) return;  // see ThreadBacktrace
  EXPECT_THAT(said[0].text, HasSubstr("weft_test_guilty+0x"));
}

TEST(StallReport, AWorkerThatHasGoneOnIsNotBlamed) {
  Findings findings;
  const arch::BacktraceHandler handler;
  FiberIo io{{.workers = 1}};
  io.run([&] {
    auto worker = worker_here();
    std::uint64_t picks = 0;
    worker.picks = [&] { return ++picks; };
    std::atomic<bool> stop{false};
    const Other watcher{[&] {
      engine::report_stall({.worker = 0, .lasted = 52ms}, worker);
      engine::report_stall({.worker = 0, .lasted = 52ms, .sleeping = true}, worker);
      stop.store(true);
    }};
    weft_test_guilty(stop);
  });
  EXPECT_EQ(findings.count(), 0);
}

// A fiber that blocks in a call which any signal would end with EINTR.
TEST(StallReport, ABlockedCallIsNotInterrupted) {
  Findings findings;
  const arch::BacktraceHandler handler;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  FiberIo io{{.workers = 1}};
  io.run([&] {
    this_fiber::set_name("reader");
    const auto worker = worker_here();
    const auto watch = [&](int reports) {
      while (findings.count() < reports) {
        const ThreadSight thread = engine::look_at_thread(worker.tid);
        if (thread.sleeping)
          engine::report_stall({.worker = 0, .lasted = 60ms, .sleeping = true}, worker);
        std::this_thread::yield();
      }
    };
    {
      const Other watcher{[&] {
        watch(3);
        EXPECT_EQ(::write(ends[1], "x", 1), 1);
      }};
      char got = 0;
      errno = 0;
      EXPECT_EQ(::read(ends[0], &got, 1), 1) << errno;
      EXPECT_EQ(got, 'x');
    }
    const Other watcher{[&] { watch(6); }};
    while (findings.count() < 6) {
      const std::timespec span{0, 20'000'000};
      EXPECT_EQ(::nanosleep(&span, nullptr), 0) << errno;
    }
  });
  ::close(ends[0]);
  ::close(ends[1]);
  const auto said = findings.said();
  ASSERT_GE(said.size(), 6U);
  for (const Said& one : said) {
    EXPECT_EQ(one.name, "reader");
    EXPECT_THAT(one.text, HasSubstr("\"reader\" has kept worker 0 for 60 ms, blocked in the k"));
  }
}

TEST(StallReport, AThreadsTimeAndStateAreTold) {
  std::atomic<bool> stop{false};
  const Other other{[&] { weft_test_guilty(stop); }};
  const Duration before = engine::look_at_thread(other.tid()).on_cpu;
  while (engine::look_at_thread(other.tid()).on_cpu < before + 2ms) std::this_thread::yield();
  EXPECT_FALSE(sleeps(other.tid()));
  stop.store(true);
}

// ── the engine's own watcher ────────────────────────────────────────────────────────────────────

// Time on a core.
void compute_for(Duration span) {
  const Duration before = engine::look_at_thread(::gettid()).on_cpu;
  while (engine::look_at_thread(::gettid()).on_cpu < before + span) {
  }
}

class StalledEngine : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, StalledEngine, ::testing::Values(1U, 2U));

TEST_P(StalledEngine, ReportsAHogOnceAndByName) {
  Findings findings;
  std::atomic<bool> reported{false};
  const Other waker{[&] {
    while (findings.count() == 0) std::this_thread::sleep_for(1ms);
    reported.store(true);
  }};
  FiberIo io{{.workers = GetParam(), .stall_report_after = 30ms}};
  io.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("quick", [] {});
      n.spawn("hog", [&] {
        weft_test_guilty(reported);
        compute_for(100ms);
      });
    });
  });
  const auto said = findings.said();
  ASSERT_EQ(said.size(), 1U) << said.back().text;
  EXPECT_EQ(said[0].name, "hog");
  EXPECT_THAT(said[0].text, HasSubstr("without giving way"));
  EXPECT_THAT(said[0].text, HasSubstr("  spawned at " + std::string{__FILE__} + ':'));
  if (arch::kTsan) return;  // see ThreadBacktrace
  EXPECT_THAT(said[0].text, HasSubstr("weft_test_guilty+0x"));
}

TEST_P(StalledEngine, ReportsAFiberThatBlocksAndLeavesItsCallAlone) {
  Findings findings;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Other writer{[&] {
    while (findings.count() == 0) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
  }};
  FiberIo io{{.workers = GetParam(), .stall_report_after = 10ms}};
  io.run([&] {
    this_fiber::set_name("reader");
    char got = 0;
    EXPECT_EQ(::read(ends[0], &got, 1), 1) << errno;
  });
  ::close(ends[0]);  // the writer has written, or nobody could have read
  ::close(ends[1]);
  const auto said = findings.said();
  ASSERT_GE(said.size(), 1U);
  EXPECT_EQ(said[0].name, "reader");
  EXPECT_THAT(said[0].text, HasSubstr("blocked in the kernel"));
}

TEST_P(StalledEngine, SaysNothingOfFibersThatGiveWay) {
  Findings findings;
  FiberIo io{{.workers = GetParam(), .stall_report_after = 5s}};
  io.run([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 10; ++i)
        n.spawn([] {
          for (int j = 0; j < 10; ++j) {
            compute_for(500us);
            sleep_for(1ms);
          }
        });
    });
  });
  EXPECT_EQ(findings.count(), 0);
}

TEST_P(StalledEngine, SaysNothingUnlessAsked) {
  Findings findings;
  FiberIo io{{.workers = GetParam()}};
  io.run([] { compute_for(50ms); });
  EXPECT_EQ(findings.count(), 0);
  EXPECT_EQ(installed().sa_handler, SIG_DFL) << "and takes no signal";
}

}  // namespace
}  // namespace weft
