#include <weft/explore.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/broadcast.hpp>
#include <weft/channel.hpp>
#include <weft/cond_var.hpp>
#include <weft/core/error.hpp>
#include <weft/core/spec.hpp>
#include <weft/csp/spawn.hpp>
#include <weft/event.hpp>
#include <weft/latch.hpp>
#include <weft/mutex.hpp>
#include <weft/nursery.hpp>
#include <weft/semaphore.hpp>
#include <weft/shared_mutex.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>
#include <weft/watch.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A variable of the environment, for a while.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* const name_;
};

ExploreOptions quiet(ExploreOptions options = {}) {
  options.print = false;
  options.progress = Progress::never;
  return options;
}

// Two locks where one is needed.
void lose_an_update() {
  int balance = 100;
  Mutex mutex{"account"};
  const auto withdraw = [&] {
    int seen = 0;
    {
      const std::scoped_lock lock{mutex};
      seen = balance;
    }
    const std::scoped_lock lock{mutex};
    balance = seen - 10;
  };
  nursery([&](Nursery& n) {
    n.spawn("alice", withdraw);
    n.spawn("bob", withdraw);
  });
  if (balance != 80) throw std::runtime_error{"money lost"};
}

void lock_in_both_orders() {
  Mutex a{"a"};
  Mutex b{"b"};
  nursery([&](Nursery& n) {
    n.spawn("ab", [&] { const std::scoped_lock first{a}; const std::scoped_lock second{b}; });
    n.spawn("ba", [&] { const std::scoped_lock first{b}; const std::scoped_lock second{a}; });
  });
}

void behave() {
  int balance = 100;
  Mutex mutex;
  const auto withdraw = [&] {
    const std::scoped_lock lock{mutex};
    balance -= 10;
  };
  nursery([&](Nursery& n) {
    n.spawn(withdraw);
    n.spawn(withdraw);
  });
  if (balance != 80) throw std::runtime_error{"money lost"};
}

// ── what it finds ───────────────────────────────────────────────────────────────────────────────

class ExploreBy : public ::testing::TestWithParam<Schedule> {};

TEST_P(ExploreBy, FindsALostUpdateAndMakesItSmall) {
  for (std::uint64_t base = 0; base < 20; ++base) {
    const Report report =
        explore(quiet({.seed = base * 1'000, .schedule = GetParam()}), lose_an_update);
    ASSERT_FALSE(report);
    ASSERT_TRUE(report.first);
    EXPECT_EQ(report.failures, 1U);
    EXPECT_EQ(report.first->kind, Failure::Kind::exception);
    EXPECT_EQ(report.first->what, "money lost");
    EXPECT_EQ(report.first->preemptions, 1U);
    EXPECT_EQ(report.first->switches, 1U);
    EXPECT_LE(report.first->preemptions, report.first->preemptions_found);
    EXPECT_EQ(report.first->run, report.runs);
    EXPECT_THROW(replay(report.first->schedule, lose_an_update), std::runtime_error);
    EXPECT_THROW(replay(report.first->found, lose_an_update), std::runtime_error);
  }
}

TEST_P(ExploreBy, FindsALockOrderInversion) {
  const Report report = explore(quiet({.schedule = GetParam()}), lock_in_both_orders);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::deadlock);
  EXPECT_THAT(report.first->what, AllOf(HasSubstr("held by #3 \"ba\""), HasSubstr("\"ab\"")));
  EXPECT_THROW(replay(report.first->schedule, lock_in_both_orders), Deadlock);
}

TEST_P(ExploreBy, FindsNothingInAGoodProgram) {
  const Report report = explore(quiet({.runs = 300, .schedule = GetParam()}), behave);
  EXPECT_TRUE(report);
  EXPECT_FALSE(report.first);
  if (GetParam() == Schedule::exhaustive) EXPECT_TRUE(report.complete);
  else EXPECT_EQ(report.runs, 300U);
}

INSTANTIATE_TEST_SUITE_P(Schedules, ExploreBy,
                         ::testing::Values(Schedule::random, Schedule::pct, Schedule::exhaustive));

TEST(Explore, WithoutPreemptionOnlyWaitsAndYieldsAreChoices) {
  EXPECT_TRUE(explore(quiet({.preempt = false}), lose_an_update));
}

TEST(Explore, ExhaustiveGoesThroughEveryOrderOnce) {
  std::vector<std::string> orders;
  const auto program = [&] {
    std::string& order = orders.emplace_back();
    nursery([&](Nursery& n) {
      for (const char who : {'a', 'b'})
        n.spawn([&order, who] {
          for (int i = 0; i < 3; ++i) {
            order += who;
            this_fiber::yield();
          }
        });
    });
  };
  const Report report = explore(
      quiet({.runs = 0,
             .schedule = Schedule::exhaustive,
             .preemptions = 100,
             .preempt = false,
             .twice = 0}),
      program);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.distinct, report.runs) << "no schedule twice";
  EXPECT_EQ(std::set(orders.begin(), orders.end()).size(), 20U) << "3 of 6 places";
}

TEST(Explore, ExhaustiveStaysWithinItsPreemptions) {
  const auto by = [](unsigned preemptions) {
    return explore(quiet({.runs = 0, .schedule = Schedule::exhaustive, .preemptions = preemptions}),
                   lose_an_update);
  };
  const Report none = by(0);
  EXPECT_TRUE(none);
  EXPECT_TRUE(none.complete);
  EXPECT_FALSE(by(1));
}

// To go on in spite of a yield counts like a preemption, or each run would take one turn more.
TEST(Explore, ExhaustiveEndsForALoopOfYields) {
  const Report report = explore(quiet({.runs = 10'000, .schedule = Schedule::exhaustive}), [] {
    bool done = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        while (!done) this_fiber::yield();
      });
      n.spawn([&] { done = true; });
    });
  });
  EXPECT_TRUE(report);
  EXPECT_TRUE(report.complete);
  EXPECT_LT(report.runs, 200U);
}

TEST(Explore, ExhaustiveEndsAfterItsRuns) {
  const Report report =
      explore(quiet({.runs = 3, .schedule = Schedule::exhaustive}), behave);
  EXPECT_EQ(report.runs, 3U);
  EXPECT_FALSE(report.complete);
}

TEST(Explore, GoesOnAfterFailuresIfAsked) {
  const Report report = explore(quiet({.runs = 500, .max_failures = 0}), lose_an_update);
  EXPECT_EQ(report.runs, 500U);
  EXPECT_GT(report.failures, 10U);
  EXPECT_LT(report.failures, 490U);
}

TEST(Explore, AnAssertionIsAFailure) {
  int run = 0;
  std::string failed;
  const Report report = explore(quiet({.runs = 50,
                                       .twice = 0,
                                       .assertion = [&] { return std::exchange(failed, ""); }}),
                                [&] {
                                  if (++run == 7) failed = "seven";
                                });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::assertion);
  EXPECT_EQ(report.first->what, "seven");
  EXPECT_EQ(report.first->run, 7U);
}

TEST(Explore, AFiberLeftBehindIsALeak) {
  const Report report = explore(quiet(), [] {
    csp::spawn([] {
      this_fiber::set_name("forgotten");
      Event{"never"}.wait();
    });
  });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::leak);
  EXPECT_THAT(report.first->what, HasSubstr("forgotten"));
}

TEST(Explore, ALeakThatTheFiberSwallowsIsALeakAllTheSame) {
  const Report report = explore(quiet(), [] {
    csp::spawn([] {
      for (int i = 0; i < 2; ++i) try {
          Event{"never"}.wait();
        } catch (const Deadlock&) {
        }
    });
  });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::leak);
}

TEST(Explore, ADeadlockThatTheProgramSwallowsIsAFailureAllTheSame) {
  const Report report = explore(quiet(), [] {
    try {
      Event{"never"}.wait();
    } catch (const Deadlock&) {
    }
  });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::deadlock);
}

TEST(Explore, TooManySteps) {
  const Report report = explore(quiet({.max_steps = 1'000}), [] {
    nursery([](Nursery& n) {
      n.spawn("spinner", [] {
        for (;;) this_fiber::yield();
      });
      Event{"never"}.wait();
    });
  });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::step_limit);
  EXPECT_THAT(report.first->what, AllOf(HasSubstr("spinner"), HasSubstr("never"),
                                        HasSubstr("1000 steps")));
}

// The callback of a stop token runs while the fiber that met the limit parks.
TEST(Explore, WhoIsToldOfTheLimitMayUseWeft) {
  const Report report = explore(quiet({.runs = 20, .max_steps = 20}), [] {
    Event told;
    Channel<int> there;
    Channel<int> back;
    nursery([&](Nursery& n) {
      const std::stop_callback on_stop{n.stop_token(), [&] { told.set(); }};
      nursery([&](Nursery& players) {
        players.spawn([&] {
          for (;;) static_cast<void>(there.tx.send(1)), static_cast<void>(back.rx.recv());
        });
        players.spawn([&] {
          for (;;) static_cast<void>(there.rx.recv()), static_cast<void>(back.tx.send(1));
        });
        players.spawn([] {
          for (;;) this_fiber::yield();
        });
      });
    });
  });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::step_limit);
}

TEST(Explore, PctIsNotMisledByALivelock) {
  int run = 0;
  const Report report = explore(quiet({.runs = 1'000,
                                       .schedule = Schedule::pct,
                                       .max_steps = 5'000,
                                       .max_failures = 0,
                                       .shrink = false,
                                       .twice = 0}),
                                [&] {
                                  while (run == 1) {
                                    try {
                                      this_fiber::yield();
                                    } catch (const Cancelled&) {
                                      ++run;
                                      throw;
                                    }
                                  }
                                  ++run;
                                  lose_an_update();
                                });
  EXPECT_GT(report.failures, 30U);
}

// More choices than a text may have.
TEST(Explore, ALongRunIsReportedToo) {
  const Report report =
      explore(quiet({.runs = 1, .max_steps = 0, .shrink = false, .twice = 0, .log_lines = 3}), [] {
        nursery([](Nursery& n) {
          for (int i = 0; i < 2; ++i)
            n.spawn([] {
              for (int k = 0; k < 1'500'000; ++k) this_fiber::yield();
            });
        });
        throw std::runtime_error{"after all"};
      });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->what, "after all");
  EXPECT_THAT(report.first->replay, HasSubstr("too long"));
  EXPECT_LT(to_string(*report.first).size(), 10'000U);
}

// try_send never waits, so it may be called with the lock held. Only checked builds know of it.
TEST(Explore, AStdMutexHeldOverAnOperationThatNeverWaits) {
  if (!spec::kSpecAssert || arch::kAsan || arch::kTsan)
    GTEST_SKIP() << "this build does not know who holds a std::mutex";
  const Report report = explore(quiet({.runs = 200}), [] {
    std::mutex mutex;
    Channel<int> channel{4};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i)
        n.spawn([&] {
          const std::lock_guard lock{mutex};
          static_cast<void>(channel.tx.try_send(1));
        });
    });
  });
  EXPECT_TRUE(report);
}

TEST(Explore, WhatIsNotTheSameTwiceIsNotDeterministic) {
  int run = 0;
  const Report report = explore(quiet(), [&] {
    for (int i = ++run; i > 0; --i) this_fiber::yield();
  });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::nondeterminism);
  EXPECT_THAT(report.first->what, HasSubstr("real clock"));
}

TEST(Explore, OptionsThatMakeNoSense) {
  EXPECT_THROW(explore(quiet({.runs = 0}), behave), std::invalid_argument);
  EXPECT_THROW(explore(quiet({.depth = 0}), behave), std::invalid_argument);
  SimIo{}.run([] { EXPECT_THROW(explore(quiet(), behave), std::logic_error); });
}

// ── what it says ────────────────────────────────────────────────────────────────────────────────

TEST(Explore, SaysWhatFailedAndHowToSeeItAgain) {
  ::testing::internal::CaptureStderr();
  const Report report = explore({.name = "bank", .progress = Progress::never}, lose_an_update);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(report.first);
  const Failure& failure = *report.first;
  EXPECT_THAT(said, AllOf(HasSubstr("seed " + std::to_string(failure.seed)),
                          HasSubstr("exception: money lost"), HasSubstr(failure.schedule),
                          HasSubstr("1 switch, 1 preemption; made smaller in"),
                          HasSubstr("is preempted"), HasSubstr("\"alice\""),
                          HasSubstr("WEFT_REPLAY='bank@" + failure.schedule + "' "),
                          HasSubstr("runs/s")));
  // The line does what it says.
  const Environment again{"WEFT_REPLAY", "bank@" + failure.schedule};
  const Report replayed = explore(quiet({.name = "bank"}), lose_an_update);
  EXPECT_EQ(replayed.runs, 1U);
  ASSERT_TRUE(replayed.first);
  EXPECT_EQ(replayed.first->what, "money lost");
  EXPECT_TRUE(explore(quiet({.name = "other", .runs = 10}), behave)) << "it is not for this one";
}

TEST(Explore, TheLineToPasteIsQuoted) {
  const Report report = explore(quiet({.name = "it's"}), lose_an_update);
  ASSERT_TRUE(report.first);
  EXPECT_THAT(report.first->replay, StartsWith("WEFT_REPLAY='it'\\''s@w1:"));
}

TEST(Explore, AReplayOfAnotherProgramIsNoticed) {
  const Environment again{"WEFT_REPLAY", "w1:0p:0x3.7.0x2.1.*"};
  const Report report = explore(quiet(), behave);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Failure::Kind::nondeterminism);
  EXPECT_THAT(report.first->what, HasSubstr("another program"));
}

TEST(Explore, TheEnvironmentDecidesSeedsAndRuns) {
  {
    const Environment seed{"WEFT_SEED", "77"};
    const Environment runs{"WEFT_RUNS", "3"};
    std::vector<std::uint64_t> numbers;
    explore(quiet({.twice = 0}), [&] { numbers.push_back(io().random()); });
    std::vector<std::uint64_t> expected;
    for (std::uint64_t s = 77; s < 80; ++s)
      SimIo{{.seed = s}}.run([&] { expected.push_back(io().random()); });
    EXPECT_EQ(numbers, expected);
  }
  const Environment nonsense{"WEFT_RUNS", "many"};
  EXPECT_THROW(explore(quiet(), behave), std::invalid_argument);
}

TEST(Explore, ShowsItsProgress) {
  ::testing::internal::CaptureStderr();
  explore({.name = "slow", .runs = 30, .twice = 0, .progress = Progress::always, .print = false},
          [] {
            // Real time, for the line is renewed by it; what is asserted does not depend on it.
            const auto end = std::chrono::steady_clock::now() + 5ms;
            while (std::chrono::steady_clock::now() < end) {
            }
          });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("explore \"slow\": "), HasSubstr(" of 30 runs, 0 failed, ")));
}

TEST(Explore, TheReportIsALine) {
  const Report report = explore(quiet({.name = "good", .runs = 10}), behave);
  EXPECT_THAT(to_string(report),
              AllOf(StartsWith("explore \"good\": 10 runs, no failure, "), Not(HasSubstr("\n"))));
}

TEST(ForSeeds, GoesThroughThemAndSaysWhichFailed) {
  std::vector<std::uint64_t> seeds;
  for_seeds(5, [&](std::uint64_t seed) { seeds.push_back(seed); });
  EXPECT_EQ(seeds, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(for_seeds(5, [](std::uint64_t seed) {
                 if (seed == 3) throw std::runtime_error{"three"};
               }),
               std::runtime_error);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("WEFT_SEED=3"));
  const Environment only{"WEFT_SEED", "9"};
  seeds.clear();
  for_seeds(5, [&](std::uint64_t seed) { seeds.push_back(seed); });
  EXPECT_EQ(seeds, (std::vector<std::uint64_t>{9}));
}

TEST(Replay, ReturnsAndThrowsLikeTheFunction) {
  EXPECT_EQ(replay("w1:0:", [] { return 7; }), 7);
  EXPECT_THROW(replay("w1:0:", [] { throw std::runtime_error{"no"}; }), std::runtime_error);
  EXPECT_THROW(replay("nonsense", [] {}), std::invalid_argument);
  EXPECT_THROW(replay("w1:0:1.1.1", [] {}), ScheduleMismatch) << "there are no choices";
}

TEST(Replay, OfALivelockEnds) {
  const auto spin = [] {
    for (;;) this_fiber::yield();
  };
  const Report report = explore(quiet({.max_steps = 1'000}), spin);
  ASSERT_TRUE(report.first);
  EXPECT_THROW(replay(report.first->schedule, spin, 1'000), StepLimit);
}

TEST(Replay, AMismatchIsOneEvenIfThereIsALimit) {
  const auto program = [] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 10; ++i)
        n.spawn([] {
          for (int k = 0; k < 5; ++k) this_fiber::yield();
        });
    });
  };
  EXPECT_THROW(replay("w1:0:0x12.99.*", program, 20), ScheduleMismatch);
}

// ── schedules ───────────────────────────────────────────────────────────────────────────────────

std::string turns(const SimOptions& options) {
  std::string order;
  SimIo{options}.run([&] {
    nursery([&](Nursery& n) {
      for (const char who : {'a', 'b', 'c'})
        n.spawn([&order, who] {
          for (int i = 0; i < 3; ++i) {
            order += who;
            this_fiber::yield();
          }
        });
    });
  });
  return order;
}

TEST(Schedules, RoundRobinTakesTurns) {
  EXPECT_EQ(turns({.schedule = Schedule::round_robin}), "abcabcabc");
}

TEST(Schedules, TheCalmestRunsEachUntilItWaits) {
  EXPECT_EQ(turns({.schedule = Schedule::exhaustive}), "abcabcabc") << "a yield is a wait";
  std::string order;
  SimIo{{.schedule = Schedule::exhaustive, .preempt = true}}.run([&] {
    Mutex mutex;
    nursery([&](Nursery& n) {
      for (const char who : {'a', 'b', 'c'})
        n.spawn([&, who] {
          for (int i = 0; i < 3; ++i) {
            const std::scoped_lock lock{mutex};
            order += who;
          }
        });
    });
  });
  EXPECT_EQ(order, "aaabbbccc");
}

TEST(Schedules, PctSwitchesSeldomAndDoesNotLetYieldersStarve) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    bool done = false;
    std::string order;
    SimIo{{.seed = seed, .schedule = Schedule::pct, .preempt = true, .max_steps = 10'000}}.run([&] {
      Mutex mutex;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          while (!done) this_fiber::yield();
        });
        for (const char who : {'a', 'b', 'c'})
          n.spawn([&, who] {
            for (int i = 0; i < 3; ++i) {
              const std::scoped_lock lock{mutex};
              order += who;
            }
            done = order.size() == 9;
          });
      });
    });
    orders.insert(order);
  }
  EXPECT_TRUE(orders.contains("aaabbbccc"));
  EXPECT_TRUE(orders.contains("cccbbbaaa"));
  EXPECT_GT(orders.size(), 6U) << "and some with a change in between";
}

TEST(Schedules, PctOfDepthOneNeverPreempts) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::string order = [&] {
      std::string all;
      SimIo{{.seed = seed, .schedule = Schedule::pct, .depth = 1, .preempt = true}}.run([&] {
        Mutex mutex;
        nursery([&](Nursery& n) {
          for (const char who : {'a', 'b'})
            n.spawn([&, who] {
              for (int i = 0; i < 3; ++i) {
                const std::scoped_lock lock{mutex};
                all += who;
              }
            });
        });
      });
      return all;
    }();
    EXPECT_TRUE(order == "aaabbb" || order == "bbbaaa") << order;
  }
}

TEST(Schedules, EveryKindReplays) {
  for (const Schedule kind :
       {Schedule::random, Schedule::pct, Schedule::round_robin, Schedule::exhaustive})
    for (const bool preempt : {false, true})
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        SimIo original{{.seed = seed, .schedule = kind, .preempt = preempt, .log_events = 100}};
        original.run(behave);
        SimIo again{{.replay = original.schedule(), .strict_replay = true, .log_events = 100}};
        again.run(behave);
        ASSERT_EQ(again.trace_hash(), original.trace_hash());
        ASSERT_EQ(again.schedule(), original.schedule());
        ASSERT_EQ(again.log(), original.log());
      }
}

TEST(Schedules, TheLogTellsWhoDidWhat) {
  SimIo sim{{.schedule = Schedule::exhaustive, .log_events = 100}};
  sim.run([] {
    Event go{"go"};
    nursery([&](Nursery& n) {
      n.spawn("waiter", [&] { go.wait(); });
      n.spawn("setter", [&] {
        sleep_for(5ms);
        go.set();
      });
    });
  });
  EXPECT_THAT(sim.log(),
              AllOf(HasSubstr("spawns #2 \"waiter\" at sim/explore_test.cpp:"),
                    HasSubstr("#2 \"waiter\"      waits: event wait \"go\""),
                    HasSubstr("5 ms later"), HasSubstr("#3 \"setter\"      wakes #2 \"waiter\""),
                    HasSubstr("#1 \"main\"        ends")));
  SimIo brief{{.log_events = 2}};
  brief.run([] { nursery([](Nursery& n) { n.spawn([] {}); }); });
  EXPECT_THAT(brief.log(), StartsWith("("));
  EXPECT_EQ(SimIo{}.log(), "");
}

// ── preemption ──────────────────────────────────────────────────────────────────────────────────

struct World {
  Mutex mutex, held;
  SharedMutex shared;
  Event set, unset;
  Semaphore permits{5};
  Latch latch{5};
  CondVar condition;
  Channel<int> channel{8};
  Broadcast<int> news{8};
  Broadcast<int>::Subscriber reader = news.subscribe();
  Watch<int> latest{0};
  Watch<int>::Subscriber watcher = latest.subscribe();
  World() { set.set(); }
};
struct Operation {
  const char* name;
  void (*run)(World&);
};
void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

const Operation kOperations[] = {
    {"lock", [](World& w) { w.mutex.lock(); w.mutex.unlock(); }},
    {"try_lock", [](World& w) { if (w.mutex.try_lock()) w.mutex.unlock(); }},
    {"try_lock_for", [](World& w) { if (w.mutex.try_lock_for(1s)) w.mutex.unlock(); }},
    {"shared_lock", [](World& w) { w.shared.lock_shared(); w.shared.unlock_shared(); }},
    {"exclusive_lock", [](World& w) { w.shared.lock(); w.shared.unlock(); }},
    {"try_lock_shared", [](World& w) { if (w.shared.try_lock_shared()) w.shared.unlock_shared(); }},
    {"event_set", [](World& w) { w.unset.set(); }},
    {"event_wait", [](World& w) { w.set.wait(); }},
    {"event_reset", [](World& w) { w.unset.reset(); }},
    {"semaphore_acquire", [](World& w) { w.permits.acquire(); }},
    {"semaphore_try", [](World& w) { static_cast<void>(w.permits.try_acquire()); }},
    {"semaphore_release", [](World& w) { w.permits.release(); }},
    {"latch_count_down", [](World& w) { w.latch.count_down(); }},
    {"notify_one", [](World& w) { w.condition.notify_one(); }},
    {"notify_all", [](World& w) { w.condition.notify_all(); }},
    {"send", [](World& w) { static_cast<void>(w.channel.tx.send(1)); }},
    {"try_send", [](World& w) { static_cast<void>(w.channel.tx.try_send(1)); }},
    {"try_recv", [](World& w) { static_cast<void>(w.channel.rx.try_recv()); }},
    {"close", [](World& w) { w.channel.tx.close(); }},
    {"broadcast", [](World& w) { static_cast<void>(w.news.send(1)); }},
    {"broadcast_try_recv", [](World& w) { static_cast<void>(w.reader.try_recv()); }},
    {"watch_set", [](World& w) { static_cast<void>(w.latest.set(1)); }},
    {"watch_get", [](World& w) { static_cast<void>(w.watcher.get()); }},
    {"nursery_cancel", [](World&) { nursery([](Nursery& n) { n.cancel(); }); }},
    {"spawn", [](World&) { nursery([](Nursery& n) { n.spawn([] {}); }); }},
    {"checkpoint", [](World&) { this_fiber::checkpoint(); }},
    {"yield", [](World&) { this_fiber::yield(); }},
};

class PreemptedAt : public ::testing::TestWithParam<Operation> {};

// In some schedule, another fiber runs between what comes before the operation and what comes
// after it.
TEST_P(PreemptedAt, AnotherMayComeInBetween) {
  int overtaken = 0;
  int undisturbed = 0;
  const Report report = explore(
      quiet({.runs = 0, .schedule = Schedule::exhaustive, .preemptions = 1, .twice = 0}), [&] {
        World world;
        int others = 0;
        nursery([&](Nursery& n) {
          n.spawn([&] {
            const int before = others;
            GetParam().run(world);
            ++(others != before ? overtaken : undisturbed);
          });
          n.spawn([&] { ++others; });
        });
      });
  EXPECT_TRUE(report);
  EXPECT_GT(overtaken, 0);
  EXPECT_GT(undisturbed, 0);
}

INSTANTIATE_TEST_SUITE_P(Operations, PreemptedAt, ::testing::ValuesIn(kOperations),
                         [](const auto& tried) { return std::string{tried.param.name}; });

// What was enabled by a wake may run before the one that woke it goes on.
TEST(Preemption, WhoWakesSomebodyMayBeOvertakenByIt) {
  const Report report = explore(quiet(), [] {
    Event ready;
    int data = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        ready.wait();
        if (data == 0) throw std::logic_error{"told too early"};
      });
      n.spawn([&] {
        ready.set();
        data = 1;
      });
    });
  });
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->what, "told too early");
}

TEST(StepLimit, EndsTheRunAndSaysWhoRuns) {
  SimIo sim{{.max_steps = 500}};
  int unwound = 0;
  try {
    sim.run([&] {
      struct Mark {
        int& count;
        ~Mark() { ++count; }
      } mark{unwound};
      nursery([&](Nursery& n) {
        n.spawn("busy", [&] {
          const Mark too{unwound};
          for (;;) this_fiber::yield();
        });
        Event{"never"}.wait();
      });
    });
    FAIL();
  } catch (const StepLimit& limit) {
    EXPECT_THAT(limit.what(), AllOf(HasSubstr("after 500 steps"), HasSubstr("\"busy\"")));
  }
  EXPECT_EQ(unwound, 2);
}

TEST(StepLimit, TheNextRunBeginsAnew) {
  SimIo sim{{.max_steps = 100, .log_events = 1'000}};
  const auto spin = [] {
    for (;;) this_fiber::yield();
  };
  EXPECT_THROW(sim.run(spin), StepLimit);
  for (int i = 0; i < 10; ++i) sim.run(behave);  // more steps than the limit, together
  EXPECT_THAT(sim.log(), AllOf(HasSubstr("gives up"), HasSubstr("spawns")));
  EXPECT_THAT(sim.log(), Not(HasSubstr("is preempted")));
  EXPECT_THROW(sim.run(spin), StepLimit);
}

TEST(StepLimitDeathTest, WhoDoesNotEndWhenCancelledEndsTheProgram) {
  EXPECT_DEATH((SimIo{{.max_steps = 100}}.run([] {
                 for (;;) {
                   try {
                     this_fiber::yield();
                   } catch (...) {
                   }
                 }
               })),
               "does not end now that it is cancelled");
}

}  // namespace
}  // namespace weft
