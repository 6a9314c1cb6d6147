#include <weft/core/error.hpp>

#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

#include <support/child_process.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

template <class Engine, class F>
std::string deadlock_of(Engine&& engine, F f) {
  try {
    engine.run(f);
  } catch (const Deadlock& deadlock) {
    return deadlock.what();
  }
  return "no deadlock";
}

std::string spawned_at(unsigned line) {
  return ", spawned at engine/deadlock_test.cpp:" + std::to_string(line);
}

constexpr unsigned kWorkerCounts[] = {1, 2, 4, 16};

Options raising(unsigned workers) {
  return {.workers = workers, .on_deadlock = OnDeadlock::raise};
}

TEST(Deadlock, IsAStdExceptionThatCanBeCopied) {
  static_assert(std::is_base_of_v<std::exception, Deadlock>);
  const Deadlock original{"text"};
  const Deadlock copy = original;
  EXPECT_STREQ(copy.what(), "text");
}

TEST(Deadlock, NamesOneFiberAndWhatItWaitsFor) {
  const auto program = [] { Event{}.wait(); };
  const std::string expected =
      "deadlock: 1 fiber waits, and nobody is left to wake one\n"
      "  fiber #1 \"main\" on event wait @1 for ";
  EXPECT_EQ(deadlock_of(SimIo{}, program), expected + "0 s");
  for (const unsigned workers : kWorkerCounts)
    EXPECT_THAT(deadlock_of(FiberIo{raising(workers)}, program), StartsWith(expected)) << workers;
}

TEST(Deadlock, NamesEveryFiberByIdAndObject) {
  constexpr unsigned kLine = __LINE__ + 5;
  const auto program = [] {
    Event full{"inbox full"};
    Event done{std::string{"done"}};
    nursery({.name = "readers"}, [&](Nursery& n) {
      n.spawn("first", [&] { full.wait(); });
      sleep_for(2s);
      n.spawn([&] {
        auto on_full = full.on_set();
        auto on_done = done.on_set();
        Waitable* const arms[] = {&on_full, &on_done};
        static_cast<void>(wait(std::span<Waitable* const>{arms}));
      });
      this_fiber::yield();
      n.spawn(std::string{"third"}, [&] { done.wait(); });
    });
  };
  const std::string text = deadlock_of(SimIo{{.seed = 1}}, program);
  EXPECT_EQ(text,
            "deadlock: 4 fibers wait, and nobody is left to wake one\n"
            "  fiber #1 \"main\" on nursery join \"readers\" for 0 s\n"
            "  fiber #2 \"first\" on event wait \"inbox full\" for 2 s" + spawned_at(kLine) +
                "\n  fiber #3 on event wait \"inbox full\" or event wait \"done\" for 0 s" +
                spawned_at(kLine + 2) +
                "\n  fiber #4 \"third\" on event wait \"done\" for 0 s" + spawned_at(kLine + 9));
}

TEST(Deadlock, AFiberJoinedInPlaceIsNamedToo) {
  FiberIo io{raising(1)};
  const std::string text = deadlock_of(io, [] {
    nursery([](Nursery& n) { n.spawn("child", [] { Event{"never"}.wait(); }); });
  });
  EXPECT_THAT(text, AllOf(HasSubstr("\"child\" on event wait \"never\""), HasSubstr("deadlock: ")));
}

TEST(Deadlock, IsThrownInEveryWaitButTheJoins) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimIo io{{.seed = seed}};
    int caught = 0;
    io.run([&] {
      Event never;
      nursery([&](Nursery& n) {
        for (int i = 0; i < 5; ++i)
          n.spawn([&] {
            try {
              never.wait();
            } catch (const Deadlock&) {
              ++caught;
            }
          });
      });  // joined in good order
    });
    EXPECT_EQ(caught, 5);
  }
}

TEST(Deadlock, ThrownInAChildItFailsTheNursery) {
  SimIo io;
  int unwound = 0;
  EXPECT_THAT(deadlock_of(io,
                          [&] {
                            nursery([&](Nursery& n) {
                              for (int i = 0; i < 3; ++i)
                                n.spawn([&] {
                                  struct Mark {
                                    int& count;
                                    ~Mark() { ++count; }
                                  } mark{unwound};
                                  Event{}.wait();
                                });
                            });
                          }),
              HasSubstr("4 fibers wait"));
  EXPECT_EQ(unwound, 3);
}

TEST(Deadlock, WhoCatchesItMayWaitAgain) {
  SimIo io;
  io.run([] {
    Event event;
    for (int i = 0; i < 3; ++i) EXPECT_THROW(event.wait(), Deadlock);
    nursery([&](Nursery& n) {
      n.spawn([&] { event.set(); });
      event.wait();
    });
  });
  EXPECT_THROW(io.run([] { Event{}.wait(); }), Deadlock) << "and the engine may run again";
  EXPECT_EQ(io.run([] { return 1; }), 1);
}

TEST(Deadlock, ASleeperIsNotADeadlock) {
  SimIo sim;
  sim.run([] {
    Event event;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        sleep_for(1000h);
        event.set();
      });
      event.wait();
    });
    EXPECT_EQ(Clock::now(), Instant{1000h});
  });
  for (const unsigned workers : kWorkerCounts) {
    FiberIo io{raising(workers)};
    io.run([] {
      Event event;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          sleep_for(2ms);
          event.set();
        });
        event.wait();
      });
    });
  }
}

TEST(Deadlock, ACancelledWaitIsNotOne) {
  for (const unsigned workers : kWorkerCounts) {
    FiberIo io{raising(workers)};
    io.run([] {
      nursery([](Nursery& n) {
        n.spawn([] { Event{}.wait(); });
        this_fiber::yield();
        n.cancel();
      });
    });
  }
}

TEST(Deadlock, OtherEnginesFibersAreNotListed) {
  FiberIo outer{{.workers = 1}};
  outer.run([] {
    nursery([](Nursery& n) {
      Event event{"outer event"};
      n.spawn("outer fiber", [&] { event.wait(); });
      this_fiber::yield();
      SimIo inner;
      const std::string text = deadlock_of(inner, [] { Event{"inner event"}.wait(); });
      EXPECT_THAT(text, AllOf(HasSubstr("1 fiber waits"), HasSubstr("inner event"),
                              Not(HasSubstr("outer"))));
      event.set();
      this_fiber::yield();
    });
  });
}

TEST(Deadlock, TheEndsOfAChannelThatLiveAreCounted) {
  const std::string text = deadlock_of(SimIo{}, [] {
    Channel<int> ch{{.name = "numbers"}};
    const auto forgotten = ch.tx;
    static_cast<void>(ch.rx.recv());
  });
  EXPECT_THAT(text, HasSubstr("on channel recv \"numbers\" (2 senders live) for 0 s"));
}

TEST(Deadlock, ABlockingCallIsNotOne) {
  for (const unsigned workers : kWorkerCounts) {
    FiberIo io{raising(workers)};
    io.run([] {
      Event event;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          blocking([] { std::this_thread::sleep_for(5ms); });
          event.set();
        });
        event.wait();
      });
    });
  }
}

// ── FiberIo's three policies ────────────────────────────────────────────────────────────────────

TEST(Deadlock, RaiseThrowsThoughOtherThreadsExist) {
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    while (!stop.load()) std::this_thread::yield();
  }};
  for (const unsigned workers : kWorkerCounts) {
    FiberIo io{raising(workers)};
    EXPECT_THAT(deadlock_of(io, [] { Event{}.wait(); }), HasSubstr("event wait"));
  }
  stop.store(true);
  other.join();
}

TEST(Deadlock, AutomaticKeepsWaitingWhileAThreadCouldWake) {
  Event event, waiting;
  std::thread waker{[&] {
    waiting.wait();
    event.set();
  }};
  FiberIo io{{.on_deadlock = OnDeadlock::automatic}};
  io.run([&] {
    waiting.set();
    event.wait();
  });
  waker.join();
}

// What the process writes to its standard error while this object lives.
class StderrPipe {
 public:
  StderrPipe() : saved_(::dup(STDERR_FILENO)) {
    if (saved_ < 0 || ::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error{"pipe2"};
    ::dup2(ends_[1], STDERR_FILENO);
    ::close(ends_[1]);
  }
  ~StderrPipe() {
    restore();
    ::close(ends_[0]);
    ::close(saved_);
  }
  StderrPipe(const StderrPipe&) = delete;
  StderrPipe& operator=(const StderrPipe&) = delete;

  void restore() { ::dup2(saved_, STDERR_FILENO); }  // closes the pipe's writing end
  // Appends what comes next to `text`; false at the end.
  bool read_more(std::string& text) {
    char buffer[512];
    const ssize_t got = ::read(ends_[0], buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  }

 private:
  int saved_;
  int ends_[2]{};
};

TEST(Deadlock, ReportPrintsOnceAndKeepsWaiting) {
  StderrPipe written;
  std::string text;
  Event event{"rescued"};
  FiberIo io{{.on_deadlock = OnDeadlock::report}};
  std::thread rescuer{[&] {
    while (text.find("\"rescued\"") == std::string::npos && written.read_more(text)) {
    }
    for (int i = 0; i < 10; ++i) {  // the worker finds nothing to do again and again
      Event ran;
      EXPECT_TRUE(io.post([&] { ran.set(); }));
      ran.wait();
    }
    event.set();
  }};
  io.run([&] { event.wait(); });
  rescuer.join();
  written.restore();
  while (written.read_more(text)) {
  }
  EXPECT_THAT(text, MatchesRegex("weft: deadlock: 1 fiber waits, and nobody is left to wake one\n"
                                 "  fiber #1 \"main\" on event wait \"rescued\" for [^\n]*\n"));
}

// This program's main() has a watchdog thread; the child that the test starts has none.
TEST(Deadlock, AutomaticThrowsInAProcessWithOneThread) {
  if (std::getenv("WEFT_TEST_ALONE") == nullptr) {
    const ::weft::testing::ChildResult child = ::weft::testing::run_child(
        {::weft::testing::sibling_program("deadlock_test"),
         "--gtest_filter=Deadlock.AutomaticThrowsInAProcessWithOneThread"},
        {"WEFT_TEST_TIME_SCALE=0", "WEFT_TEST_ALONE=1"});
    EXPECT_EQ(child.exit_code, 0) << child.output;
    EXPECT_THAT(child.output, HasSubstr("[  PASSED  ] 1 test"));
    return;
  }
  for (const unsigned workers : kWorkerCounts) {
    for (const int signal : {0, SIGUSR1}) {  // whose thread is ours, too
      FiberIo io{{.workers = workers, .dump_signal = signal}};
      EXPECT_THAT(deadlock_of(io, [] { Event{"nobody's"}.wait(); }),
                  HasSubstr("fiber #1 \"main\" on event wait \"nobody's\" for "))
          << workers << ' ' << signal;
    }
  }
}

}  // namespace
}  // namespace weft
