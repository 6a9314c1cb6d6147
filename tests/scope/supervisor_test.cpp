#include <weft/supervisor.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/cancel.hpp>
#include <weft/core/error.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using testing::text_of;
using testing::what;

constexpr std::uint64_t kSeeds = arch::kTsan ? 30 : 150;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr Backoff kAtOnce{.first = 0s, .most = 0s, .jitter = 0};
constexpr Backoff kExact{.jitter = 0};

void on_seeds(const std::function<void()>& f, std::uint64_t seeds = kSeeds) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("SimIo, seed " + std::to_string(seed));
    SimIo{{.seed = seed}}.run(f);
  }
}

void on_workers(const std::function<void()>& f) {
  for (const unsigned workers : {1U, 2U, 4U}) {
    SCOPED_TRACE("FiberIo, workers: " + std::to_string(workers));
    FiberIo{{.workers = workers}}.run(f);
  }
}

void everywhere(const std::function<void()>& f) {
  on_seeds(f);
  on_workers(f);
  testing::on_blocking(f);
}

// In simulation, for the only fiber: a timer that somebody left armed would move the clock.
void expect_no_timer_left() {
  const Instant before = Clock::now();
  EXPECT_THROW(Event{}.wait(), Deadlock);
  EXPECT_EQ(Clock::now(), before) << "a timer was left behind";
}

std::size_t frames_in_use() {
  std::size_t count = 0;
  for_each_frame(
      [](Fiber& fiber, void* at) { *static_cast<std::size_t*>(at) += fiber.io != nullptr; },
      &count);
  return count;
}

[[noreturn]] void fail(const char* text = "failed") { throw std::runtime_error{text}; }

void forever() { Event{}.wait(); }

long long ms(Duration d) { return d / 1ms; }

// ── what comes back ─────────────────────────────────────────────────────────────────────────────

TEST(Supervisor, ReturnsTheBodysValueOnceNobodyRuns) {
  everywhere([] {
    std::atomic<bool> ended{false};
    EXPECT_EQ(supervise([&](Supervisor& s) {
                s.child("worker", [&] {
                  sleep_for(1ms);
                  ended = true;
                });
                return 42;
              }),
              42);
    EXPECT_TRUE(ended);
    EXPECT_EQ(*supervise([](Supervisor&) { return std::make_unique<int>(7); }), 7);
    supervise({.name = "idle"}, [](Supervisor& s) { EXPECT_EQ(s.name(), "idle"); });
  });
}

TEST(Supervisor, AFailedChildIsStartedAgainUntilItReturns) {
  everywhere([] {
    std::atomic<int> runs{0};
    std::size_t restarts = 0;
    supervise([&](Supervisor& s) {
      Event done;
      s.child("flaky", [&] {
        if (++runs < 4) fail();
        done.set();
      });
      done.wait();
      restarts = s.restarts();
    });
    EXPECT_EQ(runs, 4);
    EXPECT_EQ(restarts, 3U);
  });
}

TEST(Supervisor, OutsideAnEngineItIsRefused) {
  EXPECT_THROW(supervise([](Supervisor&) {}), std::logic_error);
}

TEST(Supervisor, AFailureOfTheBodyStopsTheChildrenAndIsThrown) {
  everywhere([] {
    std::atomic<int> unwound{0};
    std::vector<std::string> suppressed;
    const SupervisorOptions options{
        .name = "s", .on_suppressed = [&](std::string_view whose, std::exception_ptr error) {
          suppressed.push_back(std::string{whose} + ": " + what(error));
        }};
    EXPECT_THAT(text_of<std::runtime_error>([&] {
                  supervise(options, [&](Supervisor& s) {
                    Event started;
                    s.child("bad loser", [&] {
                      started.set();
                      try {
                        forever();
                      } catch (const Cancelled&) {
                        ++unwound;
                      }
                      fail("while unwinding");
                    });
                    started.wait();
                    fail("body");
                  });
                }),
                "body");
    EXPECT_EQ(unwound, 1);
    EXPECT_THAT(suppressed, ElementsAre("bad loser: while unwinding"));
  });
}

// ── when a child is started again ───────────────────────────────────────────────────────────────

TEST(Supervisor, OnFailureAChildThatReturnedIsDone) {
  on_seeds([] {
    int runs = 0;
    supervise([&](Supervisor& s) {
      s.child({.name = "once", .restart = Restart::on_failure}, [&] { ++runs; });
      sleep_for(1h);
      EXPECT_EQ(s.live(), 0U);
      EXPECT_EQ(s.restarts(), 0U);
    });
    EXPECT_EQ(runs, 1);
  });
}

TEST(Supervisor, AlwaysMeansAfterAReturnToo) {
  on_seeds([] {
    int runs = 0;
    std::vector<std::string> errors;
    const SupervisorOptions options{
        .max_restarts = 100, .backoff = kAtOnce, .on_restart = [&](const RestartEvent& event) {
          errors.push_back(what(event.error));
        }};
    supervise(options, [&](Supervisor& s) {
      s.child({.name = "always", .restart = Restart::always}, [&] {
        ++runs;
        if (runs == 2) fail("once");
        if (runs == 4) s.stop();
      });
    });
    EXPECT_EQ(runs, 4);
    EXPECT_THAT(errors, ElementsAre("no error", "once", "no error"));
  });
}

TEST(Supervisor, NeverMeansThatTheFailureIsToldAndTheOthersGoOn) {
  everywhere([] {
    std::atomic<int> runs{0};
    std::atomic<bool> other{false};
    std::vector<std::string> suppressed;
    const SupervisorOptions options{
        .name = "s",
        .max_restarts = 0,
        .on_suppressed = [&](std::string_view whose, std::exception_ptr error) {
          suppressed.push_back(std::string{whose} + ": " + what(error));
        }};
    supervise(options, [&](Supervisor& s) {
      s.child({.name = "connection", .restart = Restart::never}, [&] {
        ++runs;
        fail("reset by peer");
      });
      s.child({.name = "quiet", .restart = Restart::never}, [&] { ++runs; });
      s.child("other", [&] {
        sleep_for(2ms);
        other = true;
      });
    });
    EXPECT_EQ(runs, 2);
    EXPECT_TRUE(other);
    EXPECT_THAT(suppressed, ElementsAre("connection: reset by peer"));
  });
}

TEST(Supervisor, WithoutAHookSuppressedFailuresArePrinted) {
  ::testing::internal::CaptureStderr();
  SimIo{}.run([] {
    supervise({.name = "server"}, [](Supervisor& s) {
      s.child({.name = "connection", .restart = Restart::never}, [] { fail("reset by peer"); });
      s.child({.name = "odd", .restart = Restart::never}, [] { throw 42; });
    });
  });
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("\"connection\" of supervisor \"server\" failed"), HasSubstr("reset by peer"),
            HasSubstr("\"odd\""), HasSubstr("not a std::exception")));
}

TEST(Supervisor, TheFunctionIsKeptAndCalledAgain) {
  on_seeds([] {
    auto token = std::make_shared<int>(0);
    const std::weak_ptr<int> watch = token;
    supervise({.backoff = kAtOnce}, [&](Supervisor& s) {
      s.child("counter", [token = std::move(token), calls = 0]() mutable {
        *token = ++calls;
        if (calls < 3) fail();
        EXPECT_EQ(*token, 3);
      });
      EXPECT_EQ(s.live(), 1U);
      settle();
      EXPECT_EQ(s.live(), 0U);
      EXPECT_TRUE(watch.expired()) << "it has ended for good";
    });
  });
}

void (*const volatile kNoFunction)() = nullptr;

TEST(Supervisor, FunctionsOfAllKinds) {
  SimIo{}.run([] {
    static int runs = 0;
    runs = 0;
    supervise({.backoff = kAtOnce}, [](Supervisor& s) {
      s.child(
          "pointer", +[] { ++runs; });
      s.child("std::function", std::function<void()>{[] { ++runs; }});
      s.child("move-only", [one = std::make_unique<int>(1)] { runs += *one; });
      s.child(std::string{"with a name on the heap that is long"}, [] { ++runs; });
      s.child(ChildOptions{}, [] { ++runs; });
      EXPECT_THAT(text_of<std::invalid_argument>([&] { s.child("x", std::function<void()>{}); }),
                  HasSubstr("empty function"));
      EXPECT_THROW(s.child("x", +kNoFunction), std::invalid_argument);
      EXPECT_EQ(s.live(), 5U);
    });
    EXPECT_EQ(runs, 5);
  });
}

TEST(Supervisor, ChildrenRunUnderTheirNames) {
  on_seeds([] {
    std::vector<std::string> names;
    supervise({.name = "s", .backoff = kAtOnce}, [&](Supervisor& s) {
      s.child("reader", [&] {
        names.emplace_back(this_fiber::name());
        if (names.size() < 3) fail();
      });
    });
    EXPECT_THAT(names, ElementsAre("reader", "reader", "reader"));
  });
}

// ── back-off ────────────────────────────────────────────────────────────────────────────────────

// When a child that fails at once was started, in milliseconds.
std::vector<long long> starts(SupervisorOptions options, std::size_t count) {
  std::vector<long long> at;
  options.max_restarts = kNoLimit;
  const Instant begin = Clock::now();
  supervise(std::move(options), [&](Supervisor& s) {
    s.child("failing", [&] {
      at.push_back(ms(Clock::now() - begin));
      if (at.size() < count) fail();
    });
  });
  return at;
}

TEST(Supervisor, TheBackOffGrowsByItsFactor) {
  on_seeds([] {
    EXPECT_THAT(starts({.backoff = kExact}, 7), ElementsAre(0, 10, 30, 70, 150, 310, 630));
    EXPECT_THAT(starts({.backoff = {.first = 1s, .factor = 1, .jitter = 0}}, 4),
                ElementsAre(0, 1000, 2000, 3000));
    EXPECT_THAT(starts({.backoff = {.first = 8ms, .factor = 1.5, .jitter = 0}}, 5),
                ElementsAre(0, 8, 20, 38, 65));
    EXPECT_THAT(starts({.backoff = kAtOnce}, 4), ElementsAre(0, 0, 0, 0));
  });
}

// Also when `most` is longer than `within`: the time of rest is no time of running.
TEST(Supervisor, TheBackOffGrowsUpToItsMost) {
  on_seeds([] {
    EXPECT_THAT(
        starts({.within = 1s, .backoff = {.first = 1s, .factor = 3, .most = 10s, .jitter = 0}}, 6),
        ElementsAre(0, 1000, 4000, 13000, 23000, 33000));
    EXPECT_THAT(starts({.backoff = {.first = 1h, .most = 5ms, .jitter = 0}}, 3),
                ElementsAre(0, 5, 10));
  });
}

TEST(Supervisor, TheBackOffBeginsAnewAfterALongEnoughRun) {
  on_seeds([] {
    std::vector<std::pair<std::size_t, long long>> seen;
    int runs = 0;
    const SupervisorOptions options{.max_restarts = kNoLimit,
                                    .within = 1s,
                                    .backoff = kExact,
                                    .on_restart = [&](const RestartEvent& event) {
                                      seen.emplace_back(event.attempt, ms(event.delay));
                                    }};
    supervise(options, [&](Supervisor& s) {
      s.child("flaky", [&] {
        ++runs;
        if (runs == 4) sleep_for(1s - 1ns);  // not long enough
        if (runs == 5) sleep_for(1s);
        if (runs < 8) fail();
      });
    });
    using P = std::pair<std::size_t, long long>;
    EXPECT_THAT(seen,
                ElementsAre(P{1, 10}, P{2, 20}, P{3, 40}, P{4, 80}, P{1, 10}, P{2, 20}, P{3, 40}));
  });
}

TEST(Supervisor, OneForOneEveryChildHasItsOwnBackOff) {
  on_seeds([] {
    std::vector<std::string> log;
    const Instant begin = Clock::now();
    const auto say = [&](const char* who) {
      log.push_back(who + std::to_string(ms(Clock::now() - begin)));
      return std::ranges::count_if(log, [&](const std::string& line) { return line[0] == *who; });
    };
    supervise({.max_restarts = 10, .backoff = {.first = 100ms, .jitter = 0}}, [&](Supervisor& s) {
      s.child("a", [&] {
        if (say("a") < 4) fail();
      });
      s.child("b", [&] {
        if (say("b") > 1) return;
        sleep_for(150ms);  // fails while a rests
        fail();
      });
    });
    std::ranges::sort(log);
    EXPECT_THAT(log, ElementsAre("a0", "a100", "a300", "a700", "b0", "b250"));
  });
}

TEST(Supervisor, JitterStaysWithinItsBoundsAndUsesThem) {
  std::vector<double> parts;
  std::set<Duration> delays;
  on_seeds([&] {
    std::vector<Duration> seen;
    const SupervisorOptions options{
        .max_restarts = kNoLimit,
        .backoff = {.first = 1s, .factor = 2, .most = 8s, .jitter = 0.25},
        .on_restart = [&](const RestartEvent& event) { seen.push_back(event.delay); }};
    int runs = 0;
    supervise(options, [&](Supervisor& s) {
      s.child("failing", [&] {
        if (++runs <= 6) fail();
      });
    });
    const std::array<Duration, 6> plain{1s, 2s, 4s, 8s, 8s, 8s};
    ASSERT_EQ(seen.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_GE(seen[i], plain[i] * 3 / 4);
      EXPECT_LE(seen[i], plain[i] * 5 / 4);
      parts.push_back(static_cast<double>(seen[i].count()) / static_cast<double>(plain[i].count()));
      delays.insert(seen[i]);
    }
  });
  EXPECT_LT(*std::ranges::min_element(parts), 0.80);
  EXPECT_GT(*std::ranges::max_element(parts), 1.20);
  EXPECT_EQ(delays.size(), parts.size()) << "nanoseconds are many";
}

TEST(Supervisor, JitterIsPartOfTheRecordedSchedule) {
  const auto run = [](SimIo& io) {
    std::vector<Duration> seen;
    io.run([&] {
      int runs = 0;
      const SupervisorOptions options{
          .max_restarts = 20,
          .backoff = {.jitter = 1},
          .on_restart = [&](const RestartEvent& event) { seen.push_back(event.delay); }};
      supervise(options, [&](Supervisor& s) {
        for (const char* const name : {"a", "b"})
          s.child(Name{std::string_view{name}}, [&] {
            if (++runs < 10) fail();
          });
      });
    });
    return seen;
  };
  std::set<std::vector<Duration>> all;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimIo original{{.seed = seed}};
    const auto delays = run(original);
    SimIo replayed{{.seed = 99, .replay = original.schedule()}};
    EXPECT_EQ(run(replayed), delays);
    EXPECT_EQ(replayed.trace_hash(), original.trace_hash());
    all.insert(delays);
  }
  EXPECT_EQ(all.size(), 20U);
}

TEST(Supervisor, EndlessDelaysAreEndless) {
  on_seeds(
      [] {
        int runs = 0;
        EXPECT_FALSE(timeout(100 * 365 * 24h, [&] {
          supervise({.max_restarts = kNoLimit,
                     .within = Duration::max(),
                     .backoff = {.first = 1ms,
                                 .factor = std::numeric_limits<double>::max(),
                                 .most = Duration::max(),
                                 .jitter = 1}},
                    [&](Supervisor& s) {
                      s.child("failing", [&] {
                        if (++runs < 10) fail();
                      });
                    });
        }));
        EXPECT_EQ(runs, 2) << "the second rest is longer than a century";
      },
      20);
}

// ── how many restarts ───────────────────────────────────────────────────────────────────────────

TEST(Supervisor, OneRestartTooManyIsThrown) {
  everywhere([] {
    std::atomic<int> runs{0};
    try {
      supervise({.name = "crawler", .max_restarts = 3, .within = 1h, .backoff = kAtOnce},
                [&](Supervisor& s) {
                  s.child("fetch", [&] { fail(("no route " + std::to_string(++runs)).c_str()); });
                });
      FAIL() << "nothing was thrown";
    } catch (const RestartsExhausted& error) {
      EXPECT_EQ(error.child(), "fetch");
      EXPECT_EQ(error.max_restarts(), 3U);
      EXPECT_EQ(error.within(), 1h);
      EXPECT_EQ(what(error.cause()), "no route 4");
      EXPECT_STREQ(error.what(),
                   "weft: supervisor \"crawler\" gives up on child \"fetch\": more than 3 restarts "
                   "within 3600 s; the last failure: no route 4");
      const RestartsExhausted copy = error;
      EXPECT_EQ(copy.child(), "fetch");
    }
    EXPECT_EQ(runs, 4);
  });
}

TEST(Supervisor, WithNoRestartsAllowedTheFirstFailureIsTheLast) {
  on_seeds([] {
    int runs = 0;
    const auto supervised = [&](Restart restart, bool fails) {
      supervise({.max_restarts = 0, .within = 1500us}, [&](Supervisor& s) {
        s.child({.name = "only", .restart = restart}, [&] {
          ++runs;
          if (fails) throw 42;
        });
      });
    };
    EXPECT_THAT(
        text_of<RestartsExhausted>([&] { supervised(Restart::on_failure, true); }),
        AllOf(HasSubstr("more than 0 restarts within 1500 us"), HasSubstr("not a std::exception")));
    EXPECT_THAT(text_of<RestartsExhausted>([&] { supervised(Restart::always, false); }),
                HasSubstr("the last failure: it returned"));
    supervised(Restart::on_failure, false);
    EXPECT_EQ(runs, 3);
  });
}

// Fails at the given times, in nanoseconds; tells how many runs there were.
int runs_of(std::vector<std::int64_t> failures, std::size_t max_restarts, Duration within) {
  int runs = 0;
  const Instant begin = Clock::now();
  try {
    supervise({.max_restarts = max_restarts, .within = within, .backoff = kAtOnce},
              [&](Supervisor& s) {
                s.child("failing", [&] {
                  const auto run = static_cast<std::size_t>(runs++);
                  if (run == failures.size()) return;
                  sleep_until(begin + Duration{failures[run]});
                  fail();
                });
              });
  } catch (const RestartsExhausted&) {
    return -runs;
  }
  return runs;
}

TEST(Supervisor, TheWindowSlidesAndIsExact) {
  on_seeds(
      [] {
        EXPECT_EQ(runs_of({0, 10, 20, 30}, 3, 30ns), 5) << "the first has just become too old";
        EXPECT_EQ(runs_of({0, 10, 20, 29}, 3, 30ns), -4);
        EXPECT_EQ(runs_of({0, 10, 20, 30, 39}, 3, 30ns), -5);
        EXPECT_EQ(runs_of({0, 10, 20, 30, 40, 50, 60, 70, 80, 90}, 3, 30ns), 11);
        EXPECT_EQ(runs_of({0, 0, 0, 100, 100, 100, 200, 200, 200}, 3, 100ns), 10);
        EXPECT_EQ(runs_of({0, 0, 0, 99}, 3, 100ns), -4);
        EXPECT_EQ(runs_of({5, 5, 5, 5, 5}, 1, 0ns), 6) << "no two are within no time";
        EXPECT_EQ(runs_of({5, 1'000'000'000}, 1, Duration::max()), -2);
      },
      20);
}

TEST(Supervisor, TheRestartsOfAllChildrenCount) {
  on_seeds([] {
    std::vector<std::string> who;
    EXPECT_THROW(supervise({.max_restarts = 4, .within = 1h, .backoff = kAtOnce},
                           [&](Supervisor& s) {
                             for (const char name : {'a', 'b', 'c', 'd', 'e'})
                               s.child(Name{std::string(1, name)}, [&, runs = 0]() mutable {
                                 who.emplace_back(this_fiber::name());
                                 if (++runs == 1) fail();
                                 forever();
                               });
                             forever();
                           }),
                 RestartsExhausted);
    EXPECT_GE(who.size(), 5U);
    EXPECT_LE(who.size(), 9U);
  });
}

TEST(Supervisor, WhenItGivesUpTheNewestChildIsStoppedFirstAndTheBodyLast) {
  on_seeds([] {
    std::vector<std::string> log;
    struct Leaving {
      std::vector<std::string>& log;
      std::string who;
      ~Leaving() {
        shielded([] { sleep_for(1ms); });  // the next one is not told before
        log.push_back(who);
      }
    };
    EXPECT_THROW(supervise({.max_restarts = 0},
                           [&](Supervisor& s) {
                             const Leaving leaving{log, "body"};
                             for (const char* const name : {"a", "b", "c"})
                               s.child(Name{std::string_view{name}}, [&log, name] {
                                 const Leaving child_leaving{log, name};
                                 forever();
                               });
                             settle();
                             s.child("failing", [] { fail(); });
                             s.child({.name = "rests", .restart = Restart::always},
                                     [] { forever(); });
                             forever();
                           }),
                 RestartsExhausted);
    EXPECT_THAT(log, ElementsAre("c", "b", "a", "body"));
    expect_no_timer_left();
  });
}

TEST(Supervisor, EscalatesThroughTwoLevels) {
  on_seeds([] {
    int runs = 0;
    int inner_bodies = 0;
    std::vector<std::string> causes;
    const SupervisorOptions outer{
        .name = "outer",
        .max_restarts = 2,
        .within = 1h,
        .backoff = {.first = 1s, .jitter = 0},
        .on_restart = [&](const RestartEvent& event) { causes.push_back(what(event.error)); }};
    const SupervisorOptions inner{
        .name = "inner", .max_restarts = 3, .within = 1h, .backoff = kExact};
    const Instant begin = Clock::now();
    try {
      supervise(outer, [&](Supervisor& s) {
        s.child("subsystem", [&] {
          ++inner_bodies;
          supervise(inner, [&](Supervisor& t) {
            t.child("leaf", [&] {
              ++runs;
              fail("disk on fire");
            });
          });
        });
      });
      FAIL() << "nothing was thrown";
    } catch (const RestartsExhausted& error) {
      EXPECT_EQ(error.child(), "subsystem");
      EXPECT_THAT(error.what(), AllOf(HasSubstr("\"outer\""), HasSubstr("\"inner\""),
                                      HasSubstr("\"leaf\""), HasSubstr("disk on fire")));
      try {
        std::rethrow_exception(error.cause());
      } catch (const RestartsExhausted& cause) {
        EXPECT_EQ(cause.child(), "leaf");
        EXPECT_EQ(what(cause.cause()), "disk on fire");
      }
    }
    EXPECT_EQ(inner_bodies, 3);
    EXPECT_EQ(runs, 3 * 4);
    EXPECT_EQ(causes.size(), 2U);
    EXPECT_EQ(Clock::now() - begin, 3 * 70ms + 1s + 2s);
    expect_no_timer_left();
  });
}

// ── groups ──────────────────────────────────────────────────────────────────────────────────────

// Children a, b, c, d that say when they start and end. `failing` fails once, after a second.
struct Group {
  std::vector<std::string> log;
  Instant begin = Clock::now();

  void say(const std::string& text) { log.push_back(text); }
  void run(Strategy strategy, char failing, Duration unwinding = 1ms) {
    supervise({.strategy = strategy, .backoff = {.first = 100ms, .jitter = 0}}, [&](Supervisor& s) {
      for (const char name : {'a', 'b', 'c', 'd'})
        s.child(Name{std::string(1, name)}, [this, name, failing, unwinding, runs = 0]() mutable {
          say(std::string{'+', name});
          Ends ends{*this, name, unwinding};
          if (++runs == 1 && name == failing) {
            sleep_for(1s);
            fail();
          }
          sleep_for(1min);
        });
    });
  }
  struct Ends {
    Group& group;
    char name;
    Duration unwinding;
    ~Ends() {
      shielded([&] { sleep_for(unwinding); });
      group.say(std::string{'-', name});
    }
  };
};

std::vector<std::string> part(const std::vector<std::string>& log, std::size_t from,
                              std::size_t count) {
  const auto begin = log.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

TEST(Supervisor, OneForAllStopsInReverseOrderAndStartsInOrder) {
  // Who was started first runs first only by chance: the starts are looked at as a set.
  on_seeds([] {
    Group group;
    group.run(Strategy::one_for_all, 'b');
    ASSERT_EQ(group.log.size(), 16U);
    EXPECT_THAT(part(group.log, 0, 4), UnorderedElementsAre("+a", "+b", "+c", "+d"));
    EXPECT_THAT(part(group.log, 4, 4), ElementsAre("-b", "-d", "-c", "-a"));
    EXPECT_THAT(part(group.log, 8, 4), UnorderedElementsAre("+a", "+b", "+c", "+d"));
    EXPECT_EQ(Clock::now() - group.begin, 1s + 1ms + 100ms + 1min + 1ms)
        << "the rest is counted from the failure";
    expect_no_timer_left();
  });
}

// The simulator's first in, first out: who is started first runs first.
TEST(Supervisor, AGroupStartsInTheOrderItWasAdded) {
  SimIo io{{.replay = "w1:0:0x100000"}};
  io.run([] {
    Group group;
    group.run(Strategy::one_for_all, 'd');
    EXPECT_THAT(part(group.log, 0, 4), ElementsAre("+a", "+b", "+c", "+d"));
    EXPECT_THAT(part(group.log, 8, 4), ElementsAre("+a", "+b", "+c", "+d"));
  });
}

TEST(Supervisor, NobodyOfAGroupStartsBeforeAllHaveEnded) {
  on_seeds([] {
    Group group;
    group.run(Strategy::one_for_all, 'a', 1s);  // longer than the rest
    ASSERT_EQ(group.log.size(), 16U);
    EXPECT_THAT(part(group.log, 4, 4), ElementsAre("-a", "-d", "-c", "-b"));
    EXPECT_EQ(Clock::now() - group.begin, 1s + 4 * 1s + 1min + 1s);
  });
}

TEST(Supervisor, RestForOneLeavesTheOlderOnesAlone) {
  on_seeds([] {
    Group group;
    group.run(Strategy::rest_for_one, 'b');
    ASSERT_EQ(group.log.size(), 14U);
    EXPECT_THAT(part(group.log, 0, 4), UnorderedElementsAre("+a", "+b", "+c", "+d"));
    EXPECT_THAT(part(group.log, 4, 3), ElementsAre("-b", "-d", "-c"));
    EXPECT_THAT(part(group.log, 7, 3), UnorderedElementsAre("+b", "+c", "+d"));
    EXPECT_EQ(group.log[10], "-a") << "its minute is over first";
  });
  on_seeds([] {
    Group group;
    group.run(Strategy::rest_for_one, 'd');
    EXPECT_THAT(part(group.log, 4, 2), ElementsAre("-d", "+d"));
    EXPECT_EQ(group.log.size(), 10U);
  });
}

TEST(Supervisor, OneForOneLeavesAllOthersAlone) {
  on_seeds([] {
    Group group;
    group.run(Strategy::one_for_one, 'b');
    EXPECT_THAT(part(group.log, 4, 2), ElementsAre("-b", "+b"));
    EXPECT_EQ(group.log.size(), 10U);
  });
}

// c fails and rests; meanwhile a fails as well, and takes b along. The longer rest counts.
TEST(Supervisor, AnOlderChildThatFailsDuringTheRestTakesMoreAlong) {
  on_seeds([] {
    std::vector<std::string> log;
    const Instant begin = Clock::now();
    const auto start = [&](const char* who) {
      log.push_back(who + std::to_string(ms(Clock::now() - begin)));
    };
    supervise({.strategy = Strategy::rest_for_one, .backoff = {.first = 100ms, .jitter = 0}},
              [&](Supervisor& s) {
                s.child("a", [&, runs = 0]() mutable {
                  start("a");
                  if (++runs > 1) return;
                  sleep_for(50ms);
                  fail();
                });
                s.child("b", [&, runs = 0]() mutable {
                  start("b");
                  if (++runs == 1) forever();
                });
                s.child("c", [&, runs = 0]() mutable {
                  start("c");
                  if (++runs == 1) fail();
                });
                sleep_for(10s);
                EXPECT_EQ(s.restarts(), 2U);
              });
    std::ranges::sort(log);
    EXPECT_THAT(log, ElementsAre("a0", "a250", "b0", "b250", "c0", "c250"));
  });
}

// With jitter the second rest may be over before the first would have been.
TEST(Supervisor, TheLaterEndOfTwoRestsCounts) {
  on_seeds([] {
    const Instant begin = Clock::now();
    Instant due{};
    int events = 0;
    std::vector<Instant> starts_of_c;
    const SupervisorOptions options{.strategy = Strategy::rest_for_one,
                                    .backoff = {.first = 100ms, .factor = 1, .jitter = 1},
                                    .on_restart = [&](const RestartEvent& event) {
                                      due = std::max(due, Clock::now() + event.delay);
                                      ++events;
                                    }};
    supervise(options, [&](Supervisor& s) {
      s.child("a", [runs = 0]() mutable {
        if (++runs > 1) return;
        sleep_for(5ms);
        fail();
      });
      s.child("c", [&] {
        starts_of_c.push_back(Clock::now());
        if (starts_of_c.size() == 1) fail();
      });
    });
    ASSERT_EQ(events, 2);
    ASSERT_EQ(starts_of_c.size(), 2U);
    if (starts_of_c[1] < begin + 5ms) return;  // its rest was over before a failed
    EXPECT_EQ(starts_of_c[1] - begin, due - begin);
  });
}

TEST(Supervisor, FailuresAtTheSameTimeAreOneRestartAndNoneIsLost) {
  on_seeds([] {
    std::vector<std::string> seen;
    int restarts = 0;
    const SupervisorOptions options{
        .strategy = Strategy::one_for_all,
        .max_restarts = 1,
        .backoff = kAtOnce,
        .on_restart =
            [&](const RestartEvent& event) {
              ++restarts;
              seen.push_back(std::string{event.child} + what(event.error));
            },
        .on_suppressed =
            [&](std::string_view whose, std::exception_ptr error) {
              seen.push_back(std::string{whose} + what(error));
            }};
    supervise(options, [&](Supervisor& s) {
      for (const char* const name : {"a", "b", "c"})
        s.child(Name{std::string_view{name}}, [runs = 0]() mutable {
          if (++runs > 1) return;
          try {
            sleep_for(1s);
          } catch (const Cancelled&) {  // c, in most schedules
          }
          fail("!");
        });
    });
    EXPECT_EQ(restarts, 1);
    EXPECT_THAT(seen, UnorderedElementsAre("a!", "b!", "c!"));
  });
}

// What a group restart does to those that are not failures themselves.
TEST(Supervisor, AGroupTakesAlongWhoIsToBeRestartedAndNobodyElse) {
  on_seeds([] {
    std::vector<std::string> log;
    supervise({.strategy = Strategy::one_for_all, .backoff = kAtOnce}, [&](Supervisor& s) {
      s.child({.name = "temporary", .restart = Restart::never}, [&] {
        log.emplace_back("temporary");
        forever();
      });
      s.child("done", [&] { log.emplace_back("done"); });
      s.child("polite", [&, runs = 0]() mutable {  // told to stop, it returns
        log.emplace_back("polite");
        if (++runs == 1) static_cast<void>(sleep_for(1h, no_throw));
      });
      s.child("unwound", [&, runs = 0]() mutable {
        log.emplace_back("unwound");
        if (++runs == 1) forever();
      });
      settle();
      s.child("failing", [&, runs = 0]() mutable {
        log.emplace_back("failing");
        if (++runs == 1) fail();
      });
      settle();
      EXPECT_EQ(s.live(), 0U);
      EXPECT_EQ(s.restarts(), 1U);
    });
    std::ranges::sort(log);
    EXPECT_THAT(log, ElementsAre("done", "failing", "failing", "polite", "polite", "temporary",
                                 "unwound", "unwound"));
  });
}

TEST(Supervisor, AChildSeesWhyItIsStopped) {
  on_seeds([] {
    std::vector<std::string> log;
    const auto wait_and_tell = [&] {
      try {
        forever();
      } catch (const Cancelled& cancelled) {
        log.emplace_back(to_string(cancelled.reason()));
        throw;
      }
    };
    supervise({.strategy = Strategy::one_for_all, .backoff = kAtOnce}, [&](Supervisor& s) {
      s.child("waits", wait_and_tell);
      settle();
      s.child("fails once", [runs = 0]() mutable {
        if (++runs == 1) fail();
      });
      settle();
      s.stop();
    });
    EXPECT_THAT(log, ElementsAre("sibling failed", "requested"));
  });
}

// ── children that come late ─────────────────────────────────────────────────────────────────────

TEST(Supervisor, ChildrenMayAddChildren) {
  everywhere([] {
    std::atomic<int> runs{0};
    supervise([&](Supervisor& s) {
      struct Tree {
        Supervisor& s;
        std::atomic<int>& runs;
        void grow(int depth) const {
          ++runs;
          if (depth == 0) return;
          for (int i = 0; i < 2; ++i) s.child("branch", [this, depth] { grow(depth - 1); });
        }
      };
      const auto tree = std::make_shared<Tree>(Tree{s, runs});
      s.child("root", [tree] { tree->grow(6); });
      s.child("keeper", [tree, &runs] {
        while (runs < 127) sleep_for(100us);
      });
    });
    EXPECT_EQ(runs, 127);
  });
}

TEST(Supervisor, TheLastChildMayAddOne) {
  everywhere([] {
    std::atomic<bool> ran{false};
    Supervisor* supervisor = nullptr;
    supervise([&](Supervisor& s) {
      supervisor = &s;
      s.child("first", [&] {
        sleep_for(1ms);  // the body has returned
        supervisor->child("second", [&] { ran = true; });
      });
    });
    EXPECT_TRUE(ran);
  });
}

TEST(Supervisor, AHookMayAddAChild) {
  everywhere([] {
    std::atomic<int> replaced{0};
    Supervisor* supervisor = nullptr;
    const SupervisorOptions options{
        .on_suppressed = [&](std::string_view, const std::exception_ptr&) {
          supervisor->child("replacement", [&] { ++replaced; });
        }};
    supervise(options, [&](Supervisor& s) {
      supervisor = &s;
      s.child({.name = "temporary", .restart = Restart::never}, [] {
        sleep_for(1ms);  // the body has returned
        fail();
      });
    });
    EXPECT_EQ(replaced, 1);
  });
}

TEST(Supervisor, AddedWhileAGroupRestsItStartsWithTheGroup) {
  on_seeds([] {
    for (const Strategy strategy :
         {Strategy::one_for_all, Strategy::rest_for_one, Strategy::one_for_one}) {
      std::vector<std::string> log;
      const Instant begin = Clock::now();
      const auto say = [&](const char* who) {
        log.push_back(who + std::to_string(ms(Clock::now() - begin)));
      };
      supervise({.strategy = strategy, .backoff = {.first = 100ms, .jitter = 0}},
                [&](Supervisor& s) {
                  s.child("a", [&, runs = 0]() mutable {
                    say("a");
                    if (++runs == 1) fail();
                  });
                  sleep_for(50ms);
                  s.child("b", [&] { say("b"); });
                  sleep_for(150ms);
                  s.child("c", [&] { say("c"); });
                });
      std::ranges::sort(log);
      const char* const b = strategy == Strategy::one_for_one ? "b50" : "b100";
      EXPECT_THAT(log, ElementsAre("a0", "a100", b, "c200"));
    }
  });
}

TEST(Supervisor, AddedWhileAGroupIsStoppedItStartsWithTheGroup) {
  on_seeds([] {
    std::vector<std::string> log;
    const Instant begin = Clock::now();
    const auto say = [&](const char* who) {
      log.push_back(who + std::to_string(ms(Clock::now() - begin)));
    };
    supervise({.strategy = Strategy::one_for_all, .backoff = kAtOnce}, [&](Supervisor& s) {
      s.child("slow to go", [&, runs = 0]() mutable {
        say("slow");
        if (++runs > 1) return;
        try {
          forever();
        } catch (const Cancelled&) {
          s.child("late", [&] { say("late"); });
          shielded([] { sleep_for(1s); });
          throw;
        }
      });
      settle();
      s.child("fails once", [&, runs = 0]() mutable {
        say("fails");
        if (++runs == 1) fail();
      });
    });
    std::ranges::sort(log);
    EXPECT_THAT(log, ElementsAre("fails0", "fails1000", "late1000", "slow0", "slow1000"));
  });
}

// ── cancellation from outside ───────────────────────────────────────────────────────────────────

TEST(Supervisor, ACancelDuringTheRestEndsItAtOnce) {
  on_seeds([] {
    int runs = 0;
    const Instant begin = Clock::now();
    EXPECT_FALSE(timeout(1s, [&] {
      supervise({.backoff = {.first = 1h, .most = 1h, .jitter = 0}}, [&](Supervisor& s) {
        s.child("failing", [&] {
          ++runs;
          fail();
        });
      });
      ADD_FAILURE() << "the cancel must go on";
    }));
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(Clock::now() - begin, 1s);
    expect_no_timer_left();
  });
}

TEST(Supervisor, ACancelWhileAGroupIsStoppedEndsAll) {
  on_seeds([] {
    int starts_seen = 0;
    const Instant begin = Clock::now();
    EXPECT_FALSE(timeout(1s, [&] {
      supervise({.strategy = Strategy::one_for_all, .backoff = kAtOnce}, [&](Supervisor& s) {
        for (int i = 0; i < 3; ++i)
          s.child("slow to go", [&] {
            ++starts_seen;
            try {
              forever();
            } catch (const Cancelled&) {
              shielded([] { sleep_for(400ms); });
              throw;
            }
          });
        s.child("failing", [&] {
          ++starts_seen;
          sleep_for(700ms);
          fail();
        });
      });
    }));
    EXPECT_EQ(starts_seen, 4);
    // The first was told at 700 ms, the other two with the cancel.
    EXPECT_EQ(Clock::now() - begin, 1400ms);
    expect_no_timer_left();
  });
}

TEST(Supervisor, WhoEndsBecauseOfACancelIsNotRestarted) {
  everywhere([] {
    std::atomic<int> runs{0};
    std::atomic<int> restarts{0};
    std::atomic<int> suppressed{0};
    const SupervisorOptions options{
        .max_restarts = kNoLimit,
        .backoff = kAtOnce,
        .on_restart = [&](const RestartEvent&) { ++restarts; },
        .on_suppressed = [&](std::string_view, const std::exception_ptr&) { ++suppressed; }};
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      supervise(options, [&](Supervisor& s) {
        s.child({.name = "polite", .restart = Restart::always}, [&] {
          ++runs;
          static_cast<void>(sleep_for(1h, no_throw));
        });
        s.child({.name = "rude", .restart = Restart::always}, [&] {
          ++runs;
          try {
            forever();
          } catch (const Cancelled&) {
          }
          fail();
        });
        s.child({.name = "usual", .restart = Restart::always}, [&] {
          ++runs;
          forever();
        });
        while (runs < 3) sleep_for(10us);
        scope.cancel();
        this_fiber::checkpoint();
      });
    }));
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(restarts, 0);
    EXPECT_EQ(suppressed, 1);
  });
}

TEST(Supervisor, InACancelledScopeNothingStarts) {
  everywhere([] {
    std::atomic<int> runs{0};
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      supervise([&](Supervisor& s) { s.child("never", [&] { ++runs; }); });
    }));
    EXPECT_EQ(runs, 0);
  });
}

// ── stop ────────────────────────────────────────────────────────────────────────────────────────

TEST(Supervisor, StopEndsTheNewestFirstAndTheBodyLast) {
  on_seeds([] {
    std::vector<std::string> log;
    const auto run = [&log](const char* who) {
      try {
        forever();
      } catch (const Cancelled&) {
        shielded([] { sleep_for(1ms); });
        log.emplace_back(who);
        throw;
      }
    };
    supervise([&](Supervisor& s) {
      for (const char* const name : {"a", "b", "c"})
        s.child({.name = Name{std::string_view{name}}, .restart = Restart::always},
                [&run, name] { run(name); });
      s.child({.name = "stopper", .restart = Restart::never}, [&s] {
        sleep_for(1s);
        s.stop();
        s.stop();
      });
      run("body");
    });
    EXPECT_THAT(log, ElementsAre("c", "b", "a", "body"));
    expect_no_timer_left();
  });
}

TEST(Supervisor, StopByTheBodyByAHookAndByAThread) {
  everywhere([] {
    std::atomic<int> runs{0};
    supervise([&](Supervisor& s) {
      s.child({.name = "always", .restart = Restart::always}, [&] {
        ++runs;
        forever();
      });
      s.stop();
    });
    EXPECT_LE(runs, 1);

    Supervisor* supervisor = nullptr;
    const SupervisorOptions options{.backoff = {.first = 1h},
                                    .on_restart = [&](const RestartEvent&) { supervisor->stop(); }};
    supervise(options, [&](Supervisor& s) {
      supervisor = &s;
      s.child("failing", [] { fail(); });
    });
  });
  FiberIo{{.workers = 2}}.run([] {
    std::thread thread;
    supervise([&](Supervisor& s) {
      Event done;
      thread = std::thread{[&] {
        s.stop();
        done.set();
      }};
      for (int i = 0; i < 10; ++i) try {
          s.child({.name = "always", .restart = Restart::always}, [] { forever(); });
        } catch (const SupervisorStopped&) {
        }
      shielded([&] { done.wait(); });
    });
    thread.join();
  });
}

TEST(Supervisor, StopDuringTheRestEndsIt) {
  on_seeds([] {
    const Instant begin = Clock::now();
    supervise({.backoff = {.first = 1h, .most = 1h}}, [&](Supervisor& s) {
      s.child("failing", [] { fail(); });
      sleep_for(1s);
      EXPECT_EQ(s.live(), 1U);
      s.stop();
    });
    EXPECT_EQ(Clock::now() - begin, 1s);
    expect_no_timer_left();
  });
}

TEST(Supervisor, AfterStopItTakesNoMoreChildren) {
  on_seeds([] {
    bool refused = false;
    int runs = 0;
    std::vector<std::string> suppressed;
    const SupervisorOptions options{
        .max_restarts = 0, .on_suppressed = [&](std::string_view whose, std::exception_ptr error) {
          suppressed.push_back(std::string{whose} + ": " + what(error));
        }};
    supervise(options, [&](Supervisor& s) {
      s.child("fails on the way out", [] {
        try {
          forever();
        } catch (const Cancelled&) {
          fail("told, and failed");
        }
      });
      settle();
      s.stop();
      try {
        s.child("late", [&] { ++runs; });
      } catch (const SupervisorStopped&) {
        refused = true;
      }
    });
    EXPECT_TRUE(refused);
    EXPECT_EQ(runs, 0);
    EXPECT_THAT(suppressed, ElementsAre("fails on the way out: told, and failed"));
  });
}

TEST(Supervisor, AStoppedBodyHasNoValue) {
  on_seeds([] {
    EXPECT_THROW(supervise([](Supervisor& s) -> int {
                   s.stop();
                   forever();
                   return 1;
                 }),
                 NurseryCancelled);
    EXPECT_EQ(supervise([](Supervisor& s) {
                s.stop();
                return 5;
              }),
              5);
  });
}

// ── hooks, options, errors ──────────────────────────────────────────────────────────────────────

TEST(Supervisor, AHookThatThrowsFailsTheSupervisor) {
  on_seeds([] {
    const SupervisorOptions options{.on_restart = [](const RestartEvent&) { throw 'x'; }};
    EXPECT_THROW(supervise(options,
                           [](Supervisor& s) {
                             s.child("failing", [] { fail(); });
                             s.child("waits", forever);
                             forever();
                           }),
                 char);
  });
}

TEST(Supervisor, ErrorsOfAnyTypeAreKept) {
  on_seeds([] {
    struct Oddity {
      int number;
    };
    int seen = 0;
    const SupervisorOptions options{
        .max_restarts = 1, .backoff = kAtOnce, .on_restart = [&](const RestartEvent& event) {
          try {
            std::rethrow_exception(event.error);
          } catch (const Oddity& odd) {
            seen = odd.number;
          }
        }};
    try {
      supervise(options, [](Supervisor& s) { s.child("odd", [] { throw Oddity{7}; }); });
      FAIL() << "nothing was thrown";
    } catch (const RestartsExhausted& error) {
      EXPECT_THROW(std::rethrow_exception(error.cause()), Oddity);
      EXPECT_THAT(error.what(), HasSubstr("more than 1 restart within 5 s"));
    }
    EXPECT_EQ(seen, 7);
  });
}

TEST(Supervisor, OptionsThatMakeNoSenseAreRefusedByName) {
  SimIo{}.run([] {
    const auto refusal = [](SupervisorOptions options) {
      return text_of<std::invalid_argument>([&] {
        supervise(std::move(options), [](Supervisor&) { ADD_FAILURE() << "it must not run"; });
      });
    };
    EXPECT_THAT(refusal({.within = -1ns}), AllOf(HasSubstr("`within`"), HasSubstr("-1 ns")));
    EXPECT_THAT(refusal({.backoff = {.first = -3ms}}),
                AllOf(HasSubstr("`backoff.first`"), HasSubstr("-3 ms")));
    EXPECT_THAT(refusal({.backoff = {.most = -2s}}),
                AllOf(HasSubstr("`backoff.most`"), HasSubstr("-2 s")));
    EXPECT_THAT(refusal({.backoff = {.factor = 0.5}}),
                AllOf(HasSubstr("`backoff.factor`"), HasSubstr("0.5")));
    EXPECT_THAT(refusal({.backoff = {.factor = std::nan("")}}), HasSubstr("`backoff.factor`"));
    EXPECT_THAT(refusal({.backoff = {.factor = HUGE_VAL}}), HasSubstr("`backoff.factor`"));
    EXPECT_THAT(refusal({.backoff = {.jitter = -0.1}}), HasSubstr("`backoff.jitter`"));
    EXPECT_THAT(refusal({.backoff = {.jitter = 1.1}}), HasSubstr("`backoff.jitter`"));
    EXPECT_THAT(refusal({.backoff = {.jitter = std::nan("")}}), HasSubstr("`backoff.jitter`"));
    supervise({.max_restarts = kNoLimit, .within = 0s, .backoff = kAtOnce}, [](Supervisor&) {});
  });
}

TEST(Supervisor, ADeadlockEndsItAndIsNoReasonToRestart) {
  on_seeds([] {
    int runs = 0;
    const auto stuck = [&](Supervisor& s) {
      s.child("stuck", [&] {
        ++runs;
        Event{"never"}.wait();
      });
    };
    EXPECT_THAT(text_of<Deadlock>([&] { supervise({.name = "s"}, stuck); }),
                AllOf(HasSubstr("\"stuck\" on event wait \"never\""),
                      HasSubstr("\"supervisor\" on children \"s\"")));
    EXPECT_EQ(runs, 1);
  });
}

TEST(Supervisor, NoStackForAChildFailsTheSupervisor) {
  FiberIo{{.workers = 1, .max_fibers = 6}}.run([] {
    const SupervisorOptions options{.on_suppressed = [](std::string_view, std::exception_ptr) {}};
    EXPECT_THROW(supervise(options,
                           [](Supervisor& s) {
                             for (int i = 0; i < 20; ++i) s.child("waits", forever);
                           }),
                 OutOfStacks);
  });
}

TEST(Supervisor, NothingIsLeftBehind) {
  const std::size_t before = frames_in_use();
  auto token = std::make_shared<int>(0);
  everywhere([&] {
    for (int round = 0; round < 3; ++round) {
      try {
        supervise({.strategy = Strategy::rest_for_one,
                   .max_restarts = 5,
                   .within = 1h,
                   .backoff = kAtOnce},
                  [&](Supervisor& s) {
                    for (int i = 0; i < 5; ++i)
                      s.child(std::string{"child with a name on the heap"}, [token, i, round] {
                        if (i == 3) throw token;
                        if (i == 4 || round == 1) forever();
                      });
                    if (round == 2) s.stop();
                  });
      } catch (const RestartsExhausted&) {
      }
    }
  });
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(frames_in_use(), before);
}

// ── many seeds, many workers ────────────────────────────────────────────────────────────────────

// Random children with random lives, and what must hold of them whatever the schedule.
struct Chaos {
  struct Plan {
    std::vector<Duration> lives;  // each ends in a failure, but the last
    std::atomic<int> running{0};
    std::atomic<std::size_t> failures{0};
    std::atomic<std::size_t> runs{0};
  };
  std::vector<std::unique_ptr<Plan>> plans;
  std::atomic<std::size_t> events{0};
  std::atomic<std::size_t> suppressed{0};

  Chaos(std::uint64_t seed, std::size_t children) {
    std::mt19937_64 random{seed};
    for (std::size_t i = 0; i < children; ++i) {
      plans.push_back(std::make_unique<Plan>());
      for (auto left = 1 + random() % 5; left > 0; --left)
        plans.back()->lives.emplace_back(random() % 4 * 25'000);
    }
  }

  // A life that was cut short is lived again.
  void live(Plan& plan) {
    EXPECT_EQ(plan.running++, 0) << "two incarnations at a time";
    struct Gone {
      std::atomic<int>& running;
      ~Gone() { --running; }
    } gone{plan.running};
    ++plan.runs;
    const std::size_t life = plan.failures;
    sleep_for(plan.lives[life]);
    if (life + 1 == plan.lives.size()) return;
    ++plan.failures;
    fail();
  }

  void run(Strategy strategy) {
    const SupervisorOptions options{
        .name = "chaos",
        .strategy = strategy,
        .max_restarts = kNoLimit,
        .backoff = {.first = 5us, .most = 100us, .jitter = 0.5},
        .on_restart = [&](const RestartEvent&) { ++events; },
        .on_suppressed = [&](std::string_view, const std::exception_ptr&) { ++suppressed; }};
    std::size_t restarts = 0;
    supervise(options, [&](Supervisor& s) {
      for (const auto& plan : plans) s.child("life", [this, &plan = *plan] { live(plan); });
      while (s.live() != 0) sleep_for(50us);
      restarts = s.restarts();
    });
    std::size_t failures = 0;
    std::size_t lives = 0;
    std::size_t runs = 0;
    for (const auto& plan : plans) {
      EXPECT_EQ(plan->running, 0);
      EXPECT_EQ(plan->failures, plan->lives.size() - 1);
      failures += plan->failures;
      lives += plan->lives.size();
      runs += plan->runs;
    }
    EXPECT_EQ(restarts, events);
    EXPECT_EQ(restarts + suppressed, failures) << "every failure is answered or told";
    if (strategy == Strategy::one_for_one) {
      EXPECT_EQ(restarts, failures);
      EXPECT_EQ(runs, lives);
    } else {
      EXPECT_GE(runs, lives);
    }
  }
};

TEST(Supervisor, WhateverTheScheduleEveryFailureIsAnswered) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const Strategy strategy :
         {Strategy::one_for_one, Strategy::one_for_all, Strategy::rest_for_one}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      SimIo{{.seed = seed}}.run([&] { Chaos{seed, 6}.run(strategy); });
    }
}

TEST(Supervisor, OnSeveralWorkersEveryFailureIsAnswered) {
  for (const unsigned workers : {1U, 4U})
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE("workers " + std::to_string(workers) + ", seed " + std::to_string(seed));
      FiberIo io{{.workers = workers}};
      io.run([&] { Chaos{seed, 100}.run(Strategy::one_for_one); });
      io.run([&] { Chaos{seed, 8}.run(Strategy::one_for_all); });
      io.run([&] { Chaos{seed, 8}.run(Strategy::rest_for_one); });
    }
}

// Cancels and stops at any moment: nothing hangs, nothing is left, nobody starts afterwards.
TEST(Supervisor, MayBeCancelledOrStoppedAtAnyMoment) {
  const auto once = [](std::uint64_t seed, bool stop) {
    std::atomic<int> running{0};
    Supervisor* supervisor = nullptr;
    const SupervisorOptions options{
        .strategy = static_cast<Strategy>(seed % 3),
        .max_restarts = kNoLimit,
        .backoff = {.first = 3us, .most = 40us},
        .on_suppressed = [](std::string_view, const std::exception_ptr&) {}};
    const bool finished = timeout(Duration{seed % 50 * 5'000}, [&] {
      supervise(options, [&](Supervisor& s) {
        supervisor = &s;
        for (int i = 0; i < 5; ++i)
          s.child({.name = "restless", .restart = Restart::always}, [&running, i] {
            ++running;
            struct Gone {
              std::atomic<int>& running;
              ~Gone() { --running; }
            } gone{running};
            sleep_for(i * 10us);
            if (i % 2) fail();
          });
        if (!stop) return;
        sleep_for(Duration{seed % 11 * 10'000});
        s.stop();
      });
    });
    EXPECT_EQ(running, 0);
    return finished;
  };
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimIo{{.seed = seed}}.run([&] {
      EXPECT_FALSE(once(seed, false));
      once(seed, true);
      expect_no_timer_left();
    });
  }
  FiberIo io{{.workers = 4}};
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    io.run([&] {
      EXPECT_FALSE(once(seed, false));
      once(seed, true);
    });
}

TEST(Supervisor, ManyChildrenThatComeAndGo) {
  static constexpr int kChildren = arch::kTsan ? 2'000 : 20'000;
  FiberIo{{.workers = 4}}.run([] {
    std::atomic<int> ran{0};
    supervise({.max_restarts = kNoLimit, .backoff = kAtOnce}, [&](Supervisor& s) {
      for (int i = 0; i < kChildren; ++i)
        s.child({.name = "connection", .restart = Restart::on_failure},
                [&ran, i, runs = 0]() mutable {
                  if (++runs == 1 && i % 7 == 0) fail();
                  ++ran;
                });
    });
    EXPECT_EQ(ran, kChildren);
  });
}

}  // namespace
}  // namespace weft
