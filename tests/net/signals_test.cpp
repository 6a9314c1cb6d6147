// Signals of the process, in several fibers, in several engines.
#include <weft/signals.hpp>

#include <weft/blocking_io.hpp>
#include <weft/engine.hpp>
#include <weft/future.hpp>
#include <weft/latch.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/stop_on_signal.hpp>
#include <weft/this_fiber.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/engines.hpp>
#include <support/temp_dir.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::on_workers;

using Handler = void (*)(int);
Handler handler_of(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

TEST(Signals, AreReceived) {
  on_workers([] {
    const Signals signals = weft::signals({SIGUSR1, SIGUSR2}).value();
    EXPECT_FALSE(signals.try_recv());
    ::raise(SIGUSR2);
    ::raise(SIGUSR1);
    ::raise(SIGUSR2);
    EXPECT_EQ(signals.recv(), SIGUSR2) << "in order";
    EXPECT_EQ(signals.try_recv(), SIGUSR1);
    EXPECT_EQ(signals.recv(), SIGUSR2);
    EXPECT_FALSE(signals.try_recv());
  });
}

TEST(Signals, WakeWhoWaits) {
  on_workers([] {
    const Signals signals = weft::signals({SIGUSR1}).value();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(signals.recv(), SIGUSR1); });
      n.spawn([] {
        testing::let_others_block();
        ::kill(::getpid(), SIGUSR1);
      });
    });
  });
}

TEST(Signals, WorkWhereFibersDoNotTakeTurns) {
  BlockingIo{}.run([] {
    const Signals signals = weft::signals({SIGUSR1}).value();
    ::raise(SIGUSR1);
    EXPECT_EQ(signals.recv(), SIGUSR1);
  });
}

TEST(Signals, EachSubscriberGetsEach) {
  on_workers([] {
    const Signals one = weft::signals({SIGUSR1}).value();
    const Signals both = weft::signals({SIGUSR1, SIGUSR2, SIGUSR1}).value();
    ::raise(SIGUSR1);
    ::raise(SIGUSR2);
    EXPECT_EQ(one.recv(), SIGUSR1);
    EXPECT_FALSE(one.try_recv());
    EXPECT_EQ(both.recv(), SIGUSR1);
    EXPECT_EQ(both.recv(), SIGUSR2);
    EXPECT_FALSE(both.try_recv());
  });
}

TEST(Signals, TwoEnginesAtOnce) {
  std::atomic<int> ready = 0;
  std::atomic<int> received = 0;
  const auto listen = [&] {
    FiberIo{{.workers = 1}}.run([&] {
      const Signals signals = weft::signals({SIGUSR1}).value();
      ++ready;
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(signals.recv(), SIGUSR1);
        ++received;
      }
    });
  };
  std::thread first{listen};
  std::thread second{listen};
  testing::spin_until([&] { return ready == 2; });
  for (int sent = 1; sent <= 3; ++sent) {
    ::kill(::getpid(), SIGUSR1);
    testing::spin_until([&] { return received == 2 * sent; });
  }
  first.join();
  second.join();
  EXPECT_EQ(handler_of(SIGUSR1), SIG_DFL);
}

TEST(Signals, WhatWasThereBeforeIsThereAgain) {
  const Handler ours = [](int) {};
  struct sigaction action {};
  action.sa_handler = ours;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
  on_workers({1U}, [&] {
    Signals first = signals({SIGUSR1}).value();
    {
      Signals second = signals({SIGUSR1}).value();
      EXPECT_NE(handler_of(SIGUSR1), ours);
      first.close();
      first.close();
      EXPECT_FALSE(first.is_open());
      EXPECT_FALSE(first.recv());
      EXPECT_NE(handler_of(SIGUSR1), ours) << "the second wants it still";
      ::raise(SIGUSR1);
      EXPECT_EQ(second.recv(), SIGUSR1);
    }
    EXPECT_EQ(handler_of(SIGUSR1), ours);
    EXPECT_FALSE(Signals{}.recv());
    EXPECT_FALSE(Signals{}.try_recv());
  });
  EXPECT_EQ(handler_of(SIGUSR1), ours);
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGUSR1, &action, nullptr);
}

TEST(Signals, WhatTheLastOneDidNotReceiveIsGone) {
  on_workers({1U}, [] {
    {
      const Signals first = signals({SIGUSR1}).value();
      for (int i = 0; i < 10; ++i) ::raise(SIGUSR1);
      EXPECT_EQ(first.recv(), SIGUSR1);
    }
    const Signals second = signals({SIGUSR1}).value();
    EXPECT_FALSE(second.try_recv());
  });
}

TEST(Signals, BadOnesChangeNothing) {
  on_workers({1U}, [] {
    for (const int bad : {0, -1, 65, 1000, SIGKILL, SIGSTOP})
      EXPECT_EQ(signals({SIGUSR1, bad}).error(), std::errc::invalid_argument) << bad;
    EXPECT_EQ(handler_of(SIGUSR1), SIG_DFL);
    EXPECT_TRUE(signals({}));
  });
}

TEST(Signals, DescriptorsAreKeptForTheNext) {
  on_workers({1U}, [] {
    static_cast<void>(signals({SIGUSR1}));
    const std::size_t before = testing::open_descriptors();
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(signals({SIGUSR1}));
    EXPECT_EQ(testing::open_descriptors(), before);
  });
}

TEST(Signals, ClosingWakesWhoWaits) {
  on_workers([] {
    Signals signals = weft::signals({SIGUSR1}).value();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_FALSE(signals.recv()); });
      n.spawn([&] {
        testing::let_others_block();
        signals.close();
      });
    });
  });
}

TEST(Signals, AreAnArmAndACancelPoint) {
  on_workers([] {
    const Signals signals = weft::signals({SIGUSR1}).value();
    EXPECT_FALSE(timeout(1ms, [&] { static_cast<void>(signals.recv()); }));
    ::raise(SIGUSR1);
    auto came = signals.on_signal();
    auto late = after(1h);
    EXPECT_EQ(select(came, late), 0U);
    EXPECT_EQ(signals.try_recv(), SIGUSR1);
  });
}

TEST(Signals, AsAChannel) {
  on_workers([] {
    nursery([](Nursery& n) {
      Receiver<int> rx = signals(n, {SIGUSR1}).value();
      for (int i = 0; i < 3; ++i) {
        ::raise(SIGUSR1);
        EXPECT_EQ(rx.recv(), SIGUSR1);
      }
      EXPECT_EQ(signals(n, {SIGKILL}).error(), std::errc::invalid_argument);
    });  // ends: nobody receives any more
    EXPECT_EQ(handler_of(SIGUSR1), SIG_DFL);
  });
}

// The engine's own kind of stop, beside a listener: both get it, and the listener gets the next.
TEST(Signals, BesideStopOnSignal) {
  FiberIo io;
  const StopOnSignal stop{io, {SIGUSR1}};
  std::vector<int> got;
  io.run([&] {
    const Signals signals = weft::signals({SIGUSR1}).value();
    ::raise(SIGUSR1);
    ::raise(SIGUSR1);
    shielded([&] {
      got.push_back(signals.recv().value());
      got.push_back(signals.recv().value());
    });
    sleep_for(1h);  // stopped
  });
  EXPECT_EQ(stop.caught(), SIGUSR1);
  EXPECT_THAT(got, ::testing::ElementsAre(SIGUSR1, SIGUSR1));
}

// What a child does that was made by fork(2); its exit code.
template <class F>
int in_forked_child(F f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(300);  // rather than hang: nobody looks after it
    ::_exit(f());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// It has our handlers, and the other ends of our pipes.
TEST(Signals, OfAForkedChildAreNotOurs) {
  on_workers({1U, 2U}, [] {
    const Signals signals = weft::signals({SIGUSR1}).value();
    EXPECT_EQ(in_forked_child([] { return ::raise(SIGUSR1); }), 0);
    EXPECT_FALSE(signals.try_recv());
    ::raise(SIGUSR1);
    EXPECT_EQ(signals.recv(), SIGUSR1);
  });
}

TEST(Signals, AForkedChildMayHaveItsOwn) {
  const auto receive = [] {
    const Result<Signals> signals = weft::signals({SIGUSR1});
    ::raise(SIGUSR1);
    return signals ? signals->recv() : std::nullopt;
  };
  BlockingIo{}.run([&] { EXPECT_EQ(receive(), SIGUSR1); });  // what it used, the child has, too
  EXPECT_EQ(in_forked_child([&] {
              int got = 0;
              BlockingIo{}.run([&] { got = receive().value_or(0); });
              return got == SIGUSR1 ? 7 : 8;
            }),
            7);
}

TEST(Signals, ThereAreNoneInSimulation) {
  SimIo{}.run([] {
    const Result<Signals> none = signals({SIGUSR1});
    EXPECT_EQ(none.error(), std::errc::operation_not_supported);
    EXPECT_TRUE(until_signal({SIGUSR1}, [] { sleep_for(1h); })) << "and so it ends by itself";
  });
  EXPECT_EQ(handler_of(SIGUSR1), SIG_DFL);
}

// ── until_signal ────────────────────────────────────────────────────────────────────────────────

TEST(UntilSignal, CancelsWhatRuns) {
  on_workers([] {
    std::atomic<int> unwound = 0;
    Latch begun{10};
    const bool ended = until_signal({SIGUSR1, SIGUSR2}, [&] {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 10; ++i)
          n.spawn([&] {
            struct Count {
              std::atomic<int>& count;
              ~Count() { ++count; }
            } const count{unwound};
            begun.count_down();
            sleep_for(1h);
          });
        n.spawn([&] {
          begun.wait();
          ::kill(::getpid(), SIGUSR2);
        });
      });
    });
    EXPECT_FALSE(ended);
    EXPECT_EQ(unwound, 10);
    EXPECT_EQ(handler_of(SIGUSR2), SIG_DFL);
  });
}

TEST(UntilSignal, ReturnsWhatEndsByItself) {
  const auto all = [] {
    EXPECT_TRUE(until_signal({SIGUSR1}, [] {}));
    EXPECT_EQ(until_signal({SIGUSR1}, [] { return 42; }), 42);
    EXPECT_EQ(*until_signal({SIGUSR1}, [] { return std::make_unique<int>(1); }).value(), 1);
    EXPECT_THROW(until_signal({SIGUSR1}, [] { throw std::domain_error{"no"}; }),
                 std::domain_error);
    EXPECT_THROW(until_signal({SIGKILL}, [] { ADD_FAILURE(); }), std::system_error);
    EXPECT_EQ(handler_of(SIGUSR1), SIG_DFL);
  };
  on_workers(all);
  BlockingIo{}.run(all);
}

TEST(UntilSignal, TheNextOneDoesWhatItDidBefore) {
  on_workers({1U}, [] {
    EXPECT_FALSE(until_signal({SIGUSR1}, [] {
      ::raise(SIGUSR1);
      try {
        sleep_for(1h);
      } catch (const Cancelled&) {
        EXPECT_EQ(handler_of(SIGUSR1), SIG_DFL);
        throw;
      }
    }));
  });
}

TEST(UntilSignal, IsCancelledFromOutside) {
  on_workers([] {
    EXPECT_FALSE(timeout(1ms, [] {
      static_cast<void>(until_signal({SIGUSR1}, [] { sleep_for(1h); }));
      ADD_FAILURE() << "went on";
    }));
    EXPECT_EQ(handler_of(SIGUSR1), SIG_DFL);
  });
}

}  // namespace
}  // namespace weft
