// Several workers: who runs what while others are busy, asleep, or being looked at.
#include <weft/engine.hpp>

#include <weft/arch/fault.hpp>
#include <weft/arch/sanitizer.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/error.hpp>
#include <weft/event.hpp>
#include <weft/inspect.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <support/child_process.hpp>
#include <support/engines.hpp>
#include <support/frames.hpp>
#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::forked_fibonacci;
using testing::frames_in_use;
using ::testing::HasSubstr;
using testing::scaled;
using testing::spin_until;

constexpr bool kSanitized = arch::kAsan || arch::kTsan;

std::size_t threads_of_process() {
  const std::filesystem::directory_iterator tasks{"/proc/self/task"};
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

std::string dump_of(Engine& engine) {
  std::ostringstream out;
  dump(engine, out);
  return out.str();
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

// ── any number of workers ───────────────────────────────────────────────────────────────────────

class Workers : public ::testing::TestWithParam<unsigned> {
 protected:
  [[nodiscard]] static Options options() { return {.workers = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Of, Workers, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

TEST_P(Workers, ForkJoinGivesTheRightResult) {
  FiberIo io{options()};
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(io.run([] { return forked_fibonacci(kSanitized ? 15 : 20); }),
              kSanitized ? 610 : 6'765);
}

TEST_P(Workers, EveryChildRunsOnce) {
  FiberIo io{options()};
  const std::size_t count = static_cast<std::size_t>(scaled(20'000));
  std::vector<std::atomic<int>> runs(count);
  io.run([&] {
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < count; ++i)
        n.spawn([&runs, i] {
          if (i % 7 == 0) this_fiber::yield();
          runs[i].fetch_add(1);
        });
    });
  });
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(runs[i].load(), 1) << i;
}

TEST_P(Workers, IdsAreUnique) {
  FiberIo io{options()};
  constexpr std::size_t kFibers = 5'000;
  std::vector<FiberId> ids(kFibers);
  io.run([&] {
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < kFibers; ++i)
        n.spawn([&ids, i] {
          if (i % 3 == 0) this_fiber::yield();
          ids[i] = this_fiber::id();
        });
    });
  });
  EXPECT_EQ(std::set<FiberId>(ids.begin(), ids.end()).size(), kFibers);
}

TEST_P(Workers, RunAgainAndAgain) {
  FiberIo io{options()};
  std::atomic<int> ran{0};
  const int runs = scaled(200);
  for (int i = 0; i < runs; ++i)
    io.run([&] {
      nursery([&](Nursery& n) {
        for (int k = 0; k < 20; ++k)
          n.spawn([&] {
            this_fiber::yield();
            ran.fetch_add(1);
          });
      });
    });
  EXPECT_EQ(ran, 20 * runs);
}

TEST_P(Workers, AnEmptyRunEnds) {
  FiberIo io{options()};
  for (int i = 0; i < scaled(300); ++i) io.run([] {});
}

// The kernel removes a thread's entry a moment after the thread can be joined. Of the tests before
// this one some may still have been there when it counted.
void await_threads(std::size_t most) {
  while (threads_of_process() > most) std::this_thread::yield();
}

TEST_P(Workers, ThreadsAreGoneAfterRun) {
  const std::size_t before = threads_of_process();
  FiberIo io{options()};
  EXPECT_LE(threads_of_process(), before) << "none before run()";
  const std::size_t during = io.run([] { return threads_of_process(); });
  // This thread is one of the workers' already; `before` may have counted some of earlier tests.
  EXPECT_GT(during, GetParam()) << "the other workers', the watcher's";
  EXPECT_LE(during, before + io.options().max_workers) << "and temporary workers'";
  await_threads(before);
}

TEST_P(Workers, AThreadThatCannotBeMadeFailsRunAndNothingIsLost) {
  const std::size_t threads = threads_of_process();
  const std::size_t frames = frames_in_use();
  FiberIo io{options()};
  for (unsigned failing = 1; failing < std::min(GetParam(), 5U); ++failing) {
    const auto captured = std::make_shared<int>(0);
    const arch::fault::Scoped fault{arch::fault::Site::pthread_create,
                                    {.nth = failing, .error = EAGAIN}};
    try {
      io.run([captured] { ++*captured; });
      ADD_FAILURE() << "no exception";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EAGAIN);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("weft::FiberIo::run(): no thread for worker "),
                                      HasSubstr(std::to_string(failing))));
    }
    EXPECT_EQ(fault.failures(), 1U);
    EXPECT_EQ(*captured, 0);
    EXPECT_EQ(captured.use_count(), 1);
    EXPECT_EQ(frames_in_use(), frames);
    await_threads(threads);
    EXPECT_FALSE(io.post([] {})) << "it is not running";
  }
  EXPECT_EQ(io.run([] { return forked_fibonacci(10); }), 55) << "with threads it works";
}

TEST_P(Workers, ExceptionsCrossWorkers) {
  FiberIo io{options()};
  for (int round = 0; round < scaled(100); ++round) {
    std::atomic<int> unwound{0};
    try {
      io.run([&] {
        nursery([&](Nursery& n) {
          for (int i = 0; i < 50; ++i)
            n.spawn([&unwound, i] {
              struct Mark {
                std::atomic<int>& count;
                ~Mark() { count.fetch_add(1); }
              } mark{unwound};
              this_fiber::yield();
              if (i % 10 == 3) throw i;
              Event{}.wait();
            });
        });
      });
      ADD_FAILURE() << "no exception";
    } catch (int thrown) {
      EXPECT_EQ(thrown % 10, 3);
    }
    EXPECT_LE(unwound, 50);
    EXPECT_GT(unwound, 0);
  }
}

TEST_P(Workers, CancelReachesFibersEverywhere) {
  FiberIo io{options()};
  io.run([] {
    for (int round = 0; round < scaled(50); ++round) {
      std::atomic<int> begun{0};
      std::atomic<int> cancelled{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 40; ++i)
          n.spawn([&, i] {
            begun.fetch_add(1);
            try {
              if (i % 4 == 0) sleep_for(1h);
              if (i % 4 == 1) Event{}.wait();
              for (;;) this_fiber::yield();
            } catch (const Cancelled&) {
              cancelled.fetch_add(1);
              throw;
            }
          });
        while (begun.load() < 40) this_fiber::yield();
        n.cancel();
      });
      EXPECT_EQ(cancelled.load(), 40);
    }
  });
}

TEST_P(Workers, EqualSleepersAllWakeAndNoneEarly) {
  FiberIo io{options()};
  std::atomic<int> woken{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 500; ++i)
        n.spawn([&, i] {
          const Instant due = Clock::now() + (i * 37) % 100 * 20us;
          sleep_until(due);
          EXPECT_GE(Clock::now(), due);
          woken.fetch_add(1);
        });
    });
  });
  EXPECT_EQ(woken, 500);
}

TEST_P(Workers, APostIsHeardWhenAllSleep) {
  FiberIo io{options()};
  Event stop;
  std::thread poster;
  std::atomic<int> ran{0};
  const int posts = scaled(500);
  io.run([&] {
    poster = std::thread{[&] {
      for (int i = 0; i < posts; ++i) {
        Event done;  // one after the other, so that everybody falls asleep in between
        EXPECT_TRUE(io.post([&] {
          ran.fetch_add(1);
          done.set();
        }));
        done.wait();
        if (i % 50 == 0) std::this_thread::sleep_for(2ms);  // deep asleep
      }
      stop.set();
    }};
    stop.wait();
  });
  poster.join();
  EXPECT_EQ(ran, posts);
}

TEST_P(Workers, AWakeIsHeardWhenAllSleep) {
  FiberIo io{options()};
  const int rounds = scaled(500);
  Event ping, pong;
  std::thread thread{[&] {
    for (int i = 0; i < rounds; ++i) {
      ping.wait();
      ping.reset();
      if (i % 50 == 0) std::this_thread::sleep_for(2ms);  // deep asleep
      pong.set();
    }
  }};
  io.run([&] {
    for (int i = 0; i < rounds; ++i) {
      ping.set();
      pong.wait();
      pong.reset();
    }
  });
  thread.join();
}

// ── workers that sleep cost nothing ─────────────────────────────────────────────────────────────

std::uint64_t voluntary_switches(const std::set<std::string>& tasks) {
  std::uint64_t sum = 0;
  for (const std::string& task : tasks) {
    std::ifstream status{"/proc/self/task/" + task + "/status"};
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("voluntary_ctxt_switches:")) sum += std::stoull(line.substr(24));
  }
  return sum;
}

std::set<std::string> worker_tasks(const std::string& worker0) {
  std::set<std::string> tasks{worker0};
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/task"}) {
    std::string name;
    std::ifstream{entry.path() / "comm"} >> name;
    if (name.starts_with("weft-")) tasks.insert(entry.path().filename());
  }
  return tasks;
}

// Runs `prepare` in an engine whose fibers then all wait, and counts what its workers do meanwhile.
template <class F>
void expect_an_idle_engine(FiberIo& io, F prepare) {
  Event go;
  std::thread observer;
  const std::string worker0 = std::to_string(::gettid());
  io.run([&] {
    [[maybe_unused]] const auto prepared = prepare();
    observer = std::thread{[&] {
      std::set<std::string> tasks;
      while (tasks.size() < io.options().workers) tasks = worker_tasks(worker0);  // once named
      const auto switches_in = [&](Duration span) {
        const std::uint64_t before = voluntary_switches(tasks);
        std::this_thread::sleep_for(span);
        return voluntary_switches(tasks) - before;
      };
      // Until all have fallen asleep, which takes as long as others keep the cores from them;
      // never, if one keeps watch. A worker that has left meanwhile makes the sum wrap.
      while (switches_in(200ms) > 3) {
      }
      go.set();
    }};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i) n.spawn([&] { go.wait(); });
    });
  });
  observer.join();
}

TEST_P(Workers, AnIdleEngineMakesNoWakeUps) {
  FiberIo io{options()};
  expect_an_idle_engine(io, [] { return 0; });
}

class FarAway final : public Timer {
 public:
  FarAway() {
    when = Clock::now() + 1h;
    io().arm(*this);
  }
  ~FarAway() { io().disarm(*this); }

 private:
  void fire(Fired&) noexcept override { ADD_FAILURE() << "an hour early"; }
};

TEST_P(Workers, AMillionTimeoutsThatNeverFireMakeNoWakeUps) {
  FiberIo io{options()};
  expect_an_idle_engine(
      io, [] { return std::deque<FarAway>(static_cast<std::size_t>(scaled(1'000'000))); });
}

TEST_P(Workers, OptionsSayHowManyThereAre) {
  FiberIo io{options()};
  EXPECT_EQ(io.options().workers, GetParam());
}

// ── work does not wait for a fiber that computes ────────────────────────────────────────────────

class BusyWorkers : public Workers {};
INSTANTIATE_TEST_SUITE_P(Of, BusyWorkers, ::testing::Values(2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

TEST_P(BusyWorkers, AnUnbornChildRunsElsewhereMeanwhile) {
  FiberIo io{options()};
  io.run([] {
    for (int round = 0; round < scaled(50); ++round)
      nursery([](Nursery& n) {
        std::atomic<bool> ran{false};
        n.spawn([&ran] { ran.store(true); });
        spin_until(ran);
      });
  });
}

TEST_P(BusyWorkers, AYieldedFiberRunsElsewhereMeanwhile) {
  FiberIo io{options()};
  io.run([] {
    for (int round = 0; round < scaled(50); ++round) {
      std::atomic<bool> begun{false};
      std::atomic<bool> ran{false};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          begun.store(true);
          this_fiber::yield();
          ran.store(true);
        });
        while (!begun.load()) this_fiber::yield();
        spin_until(ran);
      });
    }
  });
}

TEST_P(BusyWorkers, ALoneWokenFiberIsTakenFromItsWaker) {
  FiberIo io{options()};
  io.run([] {
    for (int round = 0; round < scaled(50); ++round) {
      Event event;
      std::atomic<bool> waiting{false};
      std::atomic<bool> ran{false};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          waiting.store(true);
          event.wait();
          ran.store(true);
        });
        while (!waiting.load()) this_fiber::yield();
        event.set();
        spin_until(ran);
      });
    }
  });
}

TEST_P(BusyWorkers, ManyWokenFibersAreTakenFromTheirWaker) {
  FiberIo io{options()};
  constexpr int kFibers = 100;
  io.run([] {
    for (int round = 0; round < scaled(20); ++round) {
      Event event;
      std::atomic<int> waiting{0};
      std::atomic<int> left{kFibers};
      std::atomic<bool> all{false};
      nursery([&](Nursery& n) {
        for (int i = 0; i < kFibers; ++i)
          n.spawn([&] {
            waiting.fetch_add(1);
            event.wait();
            if (left.fetch_sub(1) == 1) all.store(true);
          });
        while (waiting.load() < kFibers) this_fiber::yield();
        event.set();
        spin_until(all);
      });
    }
  });
}

// Fibers that compute for a while each, in turns: the queue is never empty, and never the same for
// long, so that nobody is called. Another worker joins in all the same.
TEST_P(BusyWorkers, FibersThatComputeInTurnsAreShared) {
  FiberIo io{options()};
  io.run([] {
    const std::thread::id first = std::this_thread::get_id();
    std::atomic<bool> shared = false;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&] {
          while (!shared) {
            const auto until = std::chrono::steady_clock::now() + 10us;
            while (std::chrono::steady_clock::now() < until) {}
            this_fiber::yield();
            if (std::this_thread::get_id() != first) shared = true;
          }
        });
    });
    EXPECT_TRUE(shared);
  });
}

// Woken from outside, a fiber is sent to the worker it parked on; that one computes.
TEST_P(BusyWorkers, AnInboxIsTakenOver) {
  FiberIo io{options()};
  int sent_to_the_busy_one = 0;
  io.run([&] {
    for (int round = 0; sent_to_the_busy_one < scaled(20); ++round) {
      Event event, parked;
      std::atomic<const Carrier*> where{nullptr};
      std::atomic<bool> ran{false};
      std::thread waker{[&] {
        parked.wait();
        event.set();
      }};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          where.store(&Carrier::here());
          event.wait();
          ran.store(true);
        });
        while (!where.load()) this_fiber::yield();
        sent_to_the_busy_one += where.load() == &Carrier::here();
        parked.set();
        spin_until(ran);
      });
      waker.join();
    }
  });
}

TEST_P(BusyWorkers, TimersOfAWorkerThatComputesFire) {
  FiberIo io{options()};
  io.run([] {
    for (int round = 0; round < scaled(20); ++round) {
      std::atomic<bool> asleep{false};
      std::atomic<bool> woken{false};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          asleep.store(true);
          sleep_for(100us);
          woken.store(true);
        });
        while (!asleep.load()) this_fiber::yield();
        spin_until(woken);
      });
    }
  });
}

TEST_P(BusyWorkers, APostRunsBesideAFiberThatComputes) {
  FiberIo io{options()};
  io.run([&] {
    for (int round = 0; round < scaled(50); ++round) {
      std::atomic<bool> ran{false};
      std::thread poster{[&] { EXPECT_TRUE(io.post([&] { ran.store(true); })); }};
      spin_until(ran);
      poster.join();
    }
  });
}

TEST_P(BusyWorkers, ASpawnFromAThreadRunsBesideAFiberThatComputes) {
  FiberIo io{options()};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int round = 0; round < scaled(50); ++round) {
        std::atomic<bool> ran{false};
        std::thread spawner{[&] { n.spawn([&] { ran.store(true); }); }};
        spin_until(ran);
        spawner.join();
      }
    });
  });
}

// All but one compute; the last one does everybody else's work.
TEST_P(BusyWorkers, OneFreeWorkerIsEnough) {
  FiberIo io{options()};
  std::atomic<bool> stop{false};
  std::atomic<int> ran{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      std::atomic<unsigned> computing{0};
      for (unsigned i = 1; i < GetParam(); ++i)
        n.spawn([&] {
          computing.fetch_add(1);
          spin_until(stop);
        });
      while (computing.load() < GetParam() - 1) this_fiber::yield();
      for (int i = 0; i < 100; ++i)
        nursery([&](Nursery& m) {
          for (int k = 0; k < 10; ++k)
            m.spawn([&ran, k] {
              if (k % 2 == 0) this_fiber::yield();
              if (k % 5 == 0) sleep_for(1us);
              ran.fetch_add(1);
            });
        });
      stop.store(true);
    });
  });
  EXPECT_EQ(ran, 1'000);
}

// ── deadlock ────────────────────────────────────────────────────────────────────────────────────

TEST_P(Workers, ADeadlockIsRaised) {
  FiberIo io{{.workers = GetParam(), .on_deadlock = OnDeadlock::raise}};
  for (int round = 0; round < scaled(20); ++round) {
    std::string text;
    try {
      io.run([] {
        Event never{"never"};
        nursery({.name = "all"}, [&](Nursery& n) {
          for (int i = 0; i < 20; ++i)
            n.spawn([&never, i] {
              if (i % 2 == 0) this_fiber::yield();
              never.wait();
            });
        });
      });
    } catch (const Deadlock& deadlock) {
      text = deadlock.what();
    }
    // Main waits, too, or has called the last of them in place.
    EXPECT_THAT(text, AnyOf(HasSubstr("deadlock: 21 fibers wait"),
                            HasSubstr("deadlock: 20 fibers wait")));
    EXPECT_EQ(occurrences(text, " on event wait \"never\""), 20U) << text;
  }
}

TEST_P(Workers, ASleeperIsNoDeadlock) {
  FiberIo io{{.workers = GetParam(), .on_deadlock = OnDeadlock::raise}};
  for (int round = 0; round < scaled(20); ++round)
    io.run([] {
      Event event;
      nursery([&](Nursery& n) {
        for (int i = 0; i < 10; ++i)
          n.spawn([&event, i] {
            sleep_for(100us * (i + 1));
            if (i == 9) event.set();
          });
        n.spawn([&] { event.wait(); });
      });
    });
}

// This program's main() has a watchdog thread; the child that the test starts has none.
TEST(WorkersDeadlock, AutomaticThrowsInAProcessWithNothingButWorkers) {
  if constexpr (arch::kTsan) GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
  if (std::getenv("WEFT_TEST_ALONE") == nullptr) {
    const ::weft::testing::ChildResult child = ::weft::testing::run_child(
        {::weft::testing::sibling_program("workers_test"),
         "--gtest_filter=WorkersDeadlock.AutomaticThrowsInAProcessWithNothingButWorkers"},
        {"WEFT_TEST_TIME_SCALE=0", "WEFT_TEST_ALONE=1"});
    EXPECT_EQ(child.exit_code, 0) << child.output;
    EXPECT_THAT(child.output, HasSubstr("[  PASSED  ] 1 test"));
    return;
  }
  for (const unsigned workers : {2U, 4U}) {
    FiberIo io{{.workers = workers}};
    for (int round = 0; round < 5; ++round)
      EXPECT_THROW(io.run([] { Event{"nobody's"}.wait(); }), Deadlock);
  }
}

// ── looking at it ───────────────────────────────────────────────────────────────────────────────

// As many fibers as workers and more, all busy and all willing to give way.
template <class F>
void beside_busy_fibers(FiberIo& io, F f) {
  io.run([&] {
    std::atomic<bool> stop{false};
    nursery({.name = "crowd"}, [&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn("busy", [&stop, i] {
          while (!stop.load()) {
            if (i % 2 == 0) this_fiber::yield();
            else nursery([](Nursery& m) { m.spawn([] { this_fiber::yield(); }); });
          }
        });
      f();
      stop.store(true);
    });
  });
}

// With more workers than cores some may not get round to it within a second; then the dump says so.
bool was_answered(const std::string& text) {
  if (occurrences(text, "does not give way") != 0) return false;
  EXPECT_EQ(occurrences(text, "\"busy\""), 8U) << text;
  return true;
}

TEST_P(Workers, ADumpByAFiberAmongBusyOnes) {
  FiberIo io{options()};
  beside_busy_fibers(io, [&] {
    for (int answers = 0; answers < scaled(10);) {
      const std::string text = dump_of(io);
      if (was_answered(text)) {
        ++answers;
        ASSERT_THAT(text, HasSubstr("nursery \"crowd\" open\n"));
        ASSERT_THAT(text, HasSubstr("#1 \"main\" running, run at "));
      }
      this_fiber::yield();
    }
  });
}

TEST_P(Workers, ADumpByAThreadBesideBusyFibers) {
  FiberIo io{options()};
  beside_busy_fibers(io, [&] {
    Event done;
    std::thread asker{[&] {
      for (int answers = 0; answers < scaled(10);) answers += was_answered(dump_of(io));
      done.set();
    }};
    done.wait();
    asker.join();
  });
}

TEST_P(Workers, SeveralDumpsAtOnce) {
  FiberIo io{options()};
  beside_busy_fibers(io, [&] {
    std::atomic<int> asking{2};
    std::atomic<int> answers{0};
    Event done;
    std::vector<std::thread> askers;
    for (int t = 0; t < 2; ++t)
      askers.emplace_back([&] {
        while (answers.load() < 5) answers += was_answered(dump_of(io));
        if (asking.fetch_sub(1) == 1) done.set();
      });
    nursery([&](Nursery& n) {
      for (int f = 0; f < 2; ++f)
        n.spawn([&] {
          while (answers.load() < 5) {
            answers += was_answered(dump_of(io));
            this_fiber::yield();
          }
        });
    });
    done.wait();
    for (std::thread& asker : askers) asker.join();
  });
}

TEST_P(Workers, ADumpOfASleepingEngine) {
  FiberIo io{options()};
  Event go{"go"};
  std::thread asker;
  io.run([&] {
    std::atomic<int> waiting{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 10; ++i)
        n.spawn("sleeper", [&] {
          waiting.fetch_add(1);
          go.wait();
        });
      while (waiting.load() < 10) this_fiber::yield();
      asker = std::thread{[&] {
        std::string text;
        while (occurrences(text, "\"sleeper\" parked on event wait \"go\" for ") < 10)
          text = dump_of(io);
        go.set();
      }};
    });
  });
  asker.join();
}

TEST_P(Workers, ADumpSaysSoWhenAFiberDoesNotGiveWay) {
  FiberIo io{options()};
  std::atomic<bool> stop{false};
  std::atomic<bool> spinning{false};
  io.run([&] {
    std::thread asker{[&] {
      while (!spinning.load()) std::this_thread::yield();
      EXPECT_THAT(dump_of(io), HasSubstr("runs #1 and does not give way\n"));
      stop.store(true);
    }};
    spinning.store(true);
    spin_until(stop);
    asker.join();
  });
  EXPECT_EQ(dump_of(io), "FiberIo: 0 fibers\n") << "the engine is none the worse";
  EXPECT_EQ(io.run([] { return forked_fibonacci(10); }), 55);
}

}  // namespace
}  // namespace weft
