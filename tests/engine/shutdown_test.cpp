// Stopping: from threads, fibers and signals; what run() makes of it, and what is left behind.
#include <weft/engine.hpp>

#include <weft/arch/fault.hpp>
#include <weft/arch/sanitizer.hpp>
#include <weft/blocking.hpp>
#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/stop_on_signal.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include "engine/shutdown_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <latch>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <support/child_process.hpp>
#include <support/footprint.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using arch::fault::Site;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::descriptors_now;
using testing::threads_in_the_end;
using testing::threads_now;

class StoppingOn : public ::testing::TestWithParam<unsigned> {
 protected:
  FiberIo io{{.workers = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Workers, StoppingOn, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

void wait_for_ever() { Event{"never"}.wait(); }

// ── who stops, and when ─────────────────────────────────────────────────────────────────────────

TEST_P(StoppingOn, FromAnotherThread) {
  std::latch begun{1};
  bool unwound = false;
  std::thread stopper{[&] {
    begun.wait();
    EXPECT_TRUE(io.stop());
  }};
  io.run([&] {
    struct Guard {
      bool& gone;
      ~Guard() { gone = true; }
    } guard{unwound};
    begun.count_down();
    wait_for_ever();
    ADD_FAILURE() << "nobody sets it";
  });
  stopper.join();
  EXPECT_TRUE(unwound);
}

TEST_P(StoppingOn, FromAFiberOfItsOwn) {
  int steps = 0;
  io.run([&] {
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(io.stop());
        EXPECT_TRUE(io.stop()) << "it is stopping";
        EXPECT_FALSE(io.post([] {})) << "nobody is accepted any more";
        ++steps;  // until the next wait
        EXPECT_THROW(this_fiber::yield(), Cancelled);
        ++steps;
      });
      wait_for_ever();
    });
  });
  EXPECT_EQ(steps, 2);
}

TEST_P(StoppingOn, FromAFiberOfAnotherEngineABlockingCallAndACallback) {
  io.run([&] {
    FiberIo inner{{.workers = 1}};
    inner.run([&] { EXPECT_TRUE(io.stop()); });
    EXPECT_THROW(this_fiber::yield(), Cancelled);
  });
  io.run([&] {
    blocking([&] { EXPECT_TRUE(io.stop()); });
    EXPECT_THROW(this_fiber::yield(), Cancelled);
  });
  std::atomic<bool> called{false};
  io.run([&] {
    cancel_scope([&](CancelScope& scope) {
      const std::stop_callback again{scope.stop_token(), [&] {
                                       EXPECT_TRUE(io.stop()) << "the first is still at it";
                                       called = true;
                                     }};
      EXPECT_TRUE(io.stop());
    });
  });
  EXPECT_TRUE(called);
}

TEST_P(StoppingOn, WhenNothingRuns) {
  EXPECT_FALSE(io.stop());
  EXPECT_EQ(io.run([] { return 1; }), 1) << "and the next run is not meant";
  EXPECT_FALSE(io.stop());
  EXPECT_THROW(io.run([] { throw 1; }), int);
  EXPECT_FALSE(io.stop());
  EXPECT_FALSE(FiberIo{}.stop());
}

TEST_P(StoppingOn, AgainAndAgain) {
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> stopped{false};
    std::thread stopper{[&] {
      while (!io.stop()) std::this_thread::yield();
      stopped = true;
    }};
    EXPECT_THROW(io.run([&]() -> int {
      wait_for_ever();
      return 1;
    }),
                 RunCancelled);
    stopper.join();
    EXPECT_TRUE(stopped);
    EXPECT_EQ(io.run([&] { return i; }), i) << "a run that nobody stops";
  }
}

// ── what run() makes of it ──────────────────────────────────────────────────────────────────────

TEST_P(StoppingOn, AValueThatIsReturnedAllTheSameIsReturned) {
  EXPECT_EQ(io.run([&] {
    EXPECT_TRUE(io.stop());
    return 3;
  }),
            3);
  EXPECT_THROW(io.run([&] {
    EXPECT_TRUE(io.stop());
    this_fiber::yield();
    return 3;
  }),
               RunCancelled);
  EXPECT_EQ(io.run([&] {
    io.stop();
    try {
      this_fiber::yield();
    } catch (const Cancelled& why) {
      EXPECT_EQ(why.reason(), CancelReason::requested);
    }
    return 4;
  }),
            4);
}

TEST_P(StoppingOn, AFailureWins) {
  EXPECT_THROW(io.run([&] {
    EXPECT_TRUE(io.stop());
    throw std::domain_error{"after"};
  }),
               std::domain_error);
  EXPECT_THROW(io.run([&]() -> int {
    try {
      io.stop();
      wait_for_ever();
    } catch (const Cancelled&) {
      throw std::domain_error{"while it unwinds"};
    }
    return 1;
  }),
               std::domain_error);
  // In flight while the others are stopped.
  EXPECT_THROW(io.run([&] {
    nursery([&](Nursery& n) {
      n.spawn([&] {
        struct Stopper {
          FiberIo& io;
          ~Stopper() { EXPECT_TRUE(io.stop()); }
        } stopper{io};
        throw std::domain_error{"unwinds through the stop"};
      });
      for (int i = 0; i < 20; ++i) n.spawn(wait_for_ever);
    });
  }),
               std::domain_error);
}

TEST_P(StoppingOn, WhatIsShieldedIsFinished) {
  int steps = 0;
  io.run([&] {
    io.stop();
    shielded([&] {
      for (; steps < 100; ++steps) this_fiber::yield();
      sleep_for(1us);
      blocking([] {});
      nursery([&](Nursery& n) { n.spawn([&] { ++steps; }); });
    });
    EXPECT_THROW(this_fiber::yield(), Cancelled);
  });
  EXPECT_EQ(steps, 101);
}

// Fibers that have not begun never do; what they hold is destroyed.
TEST_P(StoppingOn, WhoHasNotBegunNeverDoes) {
  const auto held = std::make_shared<int>();
  std::atomic<int> ran{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      io.stop();
      for (int i = 0; i < 1'000; ++i)
        if (!n.try_spawn([held, &ran] { ++ran; })) break;
    });
  });
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(held.use_count(), 1);
  std::latch posted{1};
  std::thread poster;
  io.run([&] {
    poster = std::thread{[&] {
      while (io.post([held] { wait_for_ever(); })) {
      }
      posted.count_down();
    }};
    sleep_for(1ms);
    io.stop();
    shielded([&] { blocking([&] { posted.wait(); }); });
  });
  poster.join();
  EXPECT_EQ(held.use_count(), 1);
}

TEST_P(StoppingOn, PostsAreRunOrRefusedNeverLost) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> accepted{0};
    std::atomic<int> gone{0};
    struct Counted {
      std::atomic<int>* gone;
      explicit Counted(std::atomic<int>& to) : gone(&to) {}
      Counted(Counted&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
      ~Counted() {
        if (gone) ++*gone;
      }
      void operator()() const {}
    };
    std::atomic<bool> over{false};
    std::thread poster{[&] {
      int offered = 0;
      while (!over) {
        accepted += io.post(Counted{gone}) ? 1 : 0;
        ++offered;
      }
      EXPECT_EQ(gone, offered) << "run or not, each is destroyed";
    }};
    std::thread stopper{[&] {
      while (!io.stop()) std::this_thread::yield();
    }};
    io.run(wait_for_ever);
    stopper.join();
    over = true;
    poster.join();
    EXPECT_GE(gone, accepted);
  }
}

// ── starts that fail ────────────────────────────────────────────────────────────────────────────

TEST(Stopping, AStartThatFailsLeavesNothingBehind) {
  const std::size_t threads = threads_now();
  const std::size_t descriptors = descriptors_now();
  FiberIo io{{.workers = 4}};
  const auto held = std::make_shared<int>();
  std::atomic<bool> over{false};
  std::atomic<int> accepted{0};
  std::thread poster{[&] {  // meets every moment of a start
    while (!over) {
      accepted += io.post([held] { wait_for_ever(); }) ? 1 : 0;
      io.stop();
    }
  }};
  for (int round = 0; round < 60; ++round) {
    const arch::fault::Scoped refused{
        Site::pthread_create, {.nth = static_cast<std::uint64_t>(round % 3 + 1), .error = EAGAIN}};
    bool ran = false;
    EXPECT_THROW(io.run([&] { ran = true; }), std::system_error);
    EXPECT_FALSE(ran);
    EXPECT_EQ(accepted, 0) << "nobody would have run it";
    EXPECT_EQ(threads_in_the_end(threads + 1), threads + 1);
  }
  over = true;
  poster.join();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(io.run([] { return 5; }), 5);
  EXPECT_EQ(threads_in_the_end(threads), threads);
  EXPECT_EQ(descriptors_now(), descriptors);
}

// ── who keeps a run ─────────────────────────────────────────────────────────────────────────────

TEST(ShutdownReport, OnceAndNotBeforeItsTime) {
  engine::ShutdownReport report{5s};
  Instant now{100s};
  EXPECT_FALSE(report.is_due(now, false));
  EXPECT_EQ(report.next_look(), Instant::max()) << "nothing to look for yet";
  EXPECT_FALSE(report.is_due(now += 1h, false)) << "a long run is no reason";
  EXPECT_FALSE(report.is_due(now += 1s, true));
  EXPECT_EQ(report.next_look(), now + 5s);
  EXPECT_FALSE(report.is_due(now += 4s, true));
  EXPECT_EQ(report.next_look(), now + 1s);
  EXPECT_TRUE(report.is_due(now += 1s, true));
  EXPECT_EQ(report.next_look(), Instant::max());
  EXPECT_FALSE(report.is_due(now += 1h, true)) << "once";
}

TEST(ShutdownReport, AtOnceOrNever) {
  engine::ShutdownReport at_once{0s};
  EXPECT_TRUE(at_once.is_due(Instant{1s}, true));
  EXPECT_FALSE(at_once.is_due(Instant{1s}, true));
  engine::ShutdownReport never{Duration::max()};
  EXPECT_FALSE(never.is_due(Instant{1s}, true));
  EXPECT_FALSE(never.is_due(Instant::max() - 1s, true));
  EXPECT_EQ(never.next_look(), Instant::max()) << "and the sum does not wrap";
}

// Returns once something was said on standard error, while that is captured.
void wait_till_said() {
  for (struct stat said {}; said.st_size == 0; std::this_thread::yield())
    ::fstat(STDERR_FILENO, &said);
}

// Runs `f` as an impatient user would, and returns what was said on standard error.
template <class F>
std::string complaint_of(unsigned workers, F f) {
  ::testing::internal::CaptureStderr();
  FiberIo io{{.workers = workers, .max_workers = workers, .shutdown_report_after = 20ms}};
  io.run([&] { f(io); });
  return ::testing::internal::GetCapturedStderr();
}
constexpr const char* kComplaint = "weft: a run that was stopped, or has failed, does not end\n";

TEST(ShutdownReport, NamesTheFiberThatAWorkerIsIn) {
  for (const unsigned workers : {1U, 2U})
    EXPECT_THAT(complaint_of(workers,
                             [](FiberIo& io) {
                               nursery([&](Nursery& n) {
                                 n.spawn("waits", wait_for_ever);
                                 n.spawn("deaf", [&] {
                                   io.stop();
                                   wait_till_said();
                                 });
                               });
                             }),
                ::testing::MatchesRegex(std::string{kComplaint} +
                                        "  worker [0-9]+ runs fiber #[0-9]+ \"deaf\"\n(.*\n)?"));
}

TEST(ShutdownReport, NamesWhoWaitsAndCallsThatBlock) {
  const std::string complaint = complaint_of(2, [](FiberIo& io) {
    Event late{"late"};
    std::atomic<bool> begun{false};
    const std::jthread rescuer{[&] {  // joined also if stop() reaches us
      wait_till_said();
      late.set();
    }};
    nursery([&](Nursery& n) {
      n.spawn("shielded", [&] {
        shielded([&] {
          begun = true;
          late.wait();
        });
      });
      while (!begun) this_fiber::yield();  // one that has not started never runs
      n.spawn("disk", [&] {
        blocking([&] {
          io.stop();
          wait_till_said();
        });
      });
    });
  });
  EXPECT_THAT(complaint, HasSubstr(kComplaint));
  EXPECT_THAT(complaint, HasSubstr("  1 call of blocking() has not returned\n"));
  EXPECT_THAT(complaint, HasSubstr(" \"shielded\" on event wait \"late\" for "));
  EXPECT_THAT(complaint, HasSubstr(" \"disk\" on event wait \"blocking call\" for "));
  EXPECT_THAT(complaint, Not(HasSubstr("join"))) << "who waits for the others is no reason";
}

TEST(ShutdownReport, AFailureThatIsKeptIsTold) {
  ::testing::internal::CaptureStderr();
  FiberIo io{{.workers = 2, .shutdown_report_after = 0ms}};
  EXPECT_THROW(io.run([&] {
    EXPECT_TRUE(io.post([] { throw 1; }));
    wait_till_said();
  }),
               int);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("runs fiber #1 \"main\""));
}

TEST(ShutdownReport, ARunThatEndsIsNotTold) {
  ::testing::internal::CaptureStderr();
  for (const unsigned workers : {1U, 4U}) {
    FiberIo io{{.workers = workers, .shutdown_report_after = 1h}};
    for (int i = 0; i < 20; ++i) io.run([&] { io.stop(), wait_for_ever(); });
    io.run([] { sleep_for(20ms); });
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// ── signals ─────────────────────────────────────────────────────────────────────────────────────

// Runs the victim of that name, below, in a process of its own.
testing::ChildResult run_victim(const std::string& name) {
  return testing::run_child({testing::sibling_program("shutdown_test"),
                             "--gtest_also_run_disabled_tests",
                             "--gtest_filter=Victims.DISABLED_" + name});
}
void say(const char* text) {
  std::puts(text);
  std::fflush(stdout);
}

TEST(Victims, DISABLED_StopsInOrder) {
  FiberIo io;
  const StopOnSignal stop{io};
  const int caught_early = stop.caught();
  io.run([] {
    struct Guard {
      ~Guard() { say("unwound"); }
    } guard;
    ::kill(::getpid(), SIGTERM);
    wait_for_ever();
  });
  say(caught_early == 0 && stop.caught() == SIGTERM ? "caught SIGTERM" : "?");
}
TEST(StopOnSignal, TheFirstSignalStopsTheRun) {
  const testing::ChildResult child = run_victim("StopsInOrder");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_THAT(child.output, HasSubstr("unwound\ncaught SIGTERM"));
}

TEST(Victims, DISABLED_DoesNotUnwind) {
  FiberIo io{{.workers = 2}};
  const StopOnSignal stop{io};
  io.run([&] {
    ::raise(SIGINT);
    while (stop.caught() == 0) std::this_thread::yield();  // a fiber that looks at nothing
    say("stopping");
    ::raise(SIGINT);
    say("not reached");
  });
}
TEST(StopOnSignal, TheSecondSignalEndsTheProgram) {
  const testing::ChildResult child = run_victim("DoesNotUnwind");
  EXPECT_EQ(child.signal, SIGINT) << child.output;
  EXPECT_THAT(child.output, HasSubstr("stopping"));
  EXPECT_THAT(child.output, Not(HasSubstr("not reached")));
}

TEST(Victims, DISABLED_ComesEarly) {
  FiberIo io;
  const StopOnSignal stop{io, {SIGUSR1}};
  ::raise(SIGUSR1);
  EXPECT_THROW(io.run([]() -> int {
    wait_for_ever();
    return 0;
  }),
               RunCancelled);
  EXPECT_EQ(stop.caught(), SIGUSR1);
  EXPECT_EQ(io.run([] { return 1; }), 1) << "one signal, one stop";
  say("done");
}
TEST(StopOnSignal, ASignalBeforeTheRunIsNotLost) {
  const testing::ChildResult child = run_victim("ComesEarly");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_THAT(child.output, HasSubstr("done"));
}

std::atomic<int> own_calls{0};
TEST(Victims, DISABLED_RestoresHandlers) {
  struct sigaction own {};
  own.sa_handler = [](int) { ++own_calls; };
  ::sigaction(SIGUSR1, &own, nullptr);
  FiberIo one{{.workers = 1}};
  FiberIo two{{.workers = 2}};
  {
    const StopOnSignal outer{one, {SIGUSR1, SIGUSR2}};
    {
      const StopOnSignal inner{two, {SIGUSR1}};
      std::thread other{[&] { two.run(wait_for_ever); }};
      one.run([] {
        ::raise(SIGUSR1);
        wait_for_ever();
      });
      other.join();
      EXPECT_EQ(outer.caught(), SIGUSR1);
      EXPECT_EQ(inner.caught(), SIGUSR1);
    }
    EXPECT_THROW(const StopOnSignal no(one, {SIGUSR2, SIGKILL}), std::system_error);
    EXPECT_THROW(const StopOnSignal no(one, {SIGUSR2, 0}), std::system_error);
    const arch::fault::Scoped refused{Site::pthread_create, {.every = 1, .error = EAGAIN}};
    EXPECT_THROW(const StopOnSignal no(one, {SIGUSR2}), std::system_error);
  }
  EXPECT_EQ(own_calls, 0);
  ::raise(SIGUSR1);
  ::raise(SIGUSR1);
  EXPECT_EQ(own_calls, 2);
  say("done");
  ::raise(SIGUSR2);  // as it was: the end
}
TEST(StopOnSignal, WhatWasThereBeforeIsPutBack) {
  const testing::ChildResult child = run_victim("RestoresHandlers");
  EXPECT_EQ(child.signal, SIGUSR2) << child.output;
  EXPECT_THAT(child.output, HasSubstr("done"));
  EXPECT_THAT(child.output, Not(HasSubstr("Failure")));
}

TEST(StopOnSignal, LeavesNothingBehind) {
  const std::size_t threads = threads_now();
  const std::size_t descriptors = descriptors_now();
  FiberIo io{{.workers = 2}};
  for (int i = 0; i < 20; ++i) {
    const StopOnSignal stop{io, {SIGUSR1}};
    ::raise(SIGUSR1);
    io.run(wait_for_ever);
  }
  EXPECT_EQ(threads_in_the_end(threads), threads);
  EXPECT_EQ(descriptors_now(), descriptors);
}

}  // namespace
}  // namespace weft
