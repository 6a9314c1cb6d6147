// The same seed is the same run: on every machine, with every compiler and optimisation level, and
// wherever the program, its stacks and its heap happen to lie.
#include <weft/sim.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/mutex.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/semaphore.hpp>
#include <weft/stream.hpp>
#include <weft/supervisor.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <support/child_process.hpp>

#include <gtest/gtest.h>

#include <sys/personality.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

struct Outcome {
  std::string log;
  std::string events;  // SimIo::log(), if kept
  std::string schedule;
  std::uint64_t hash = 0;
  std::uint64_t steps = 0;
  Instant end{};

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// One of everything there is: children, siblings, names, yields, events, arms, timers, settling,
// failures, cancellation before the start and in the middle of a wait.
void program(std::string& log) {
  Event go{"go"};
  Event late{"late"};
  const auto say = [&log](std::string_view what) {
    log += what;
    log += '@';
    log += std::to_string(Clock::now().time_since_epoch().count());
    log += ' ';
  };
  nursery({.name = "all"}, [&](Nursery& n) {
    for (int i = 0; i < 4; ++i)
      n.spawn([&, i] {
        for (int k = 0; k <= i; ++k) {
          log += static_cast<char>('a' + i);
          this_fiber::yield();
        }
        sleep_for((i % 2 + 1) * 5ns);
        say("sleeper" + std::to_string(i));
      });
    n.spawn("select", [&] {
      auto on_go = go.on_set();
      auto on_late = late.on_set();
      Alarm soon{Clock::now() + 7ns};
      Waitable* const arms[] = {&on_late, &soon, &on_go};
      say("arm" + std::to_string(wait(std::span<Waitable* const>{arms})));
      n.spawn([&] { say("sibling"); });
    });
    n.spawn("failing", [&] {
      try {
        nursery([&](Nursery& inner) {
          for (int i = 0; i < 3; ++i)
            inner.spawn([&, i] {
              try {
                if (i == 1) {
                  this_fiber::yield();
                  throw std::runtime_error{"failed"};
                }
                Event{}.wait();
              } catch (const Cancelled&) {
                say("cancelled" + std::to_string(i));
                throw;
              }
            });
        });
      } catch (const std::runtime_error& error) {
        say(error.what());
      }
    });
    n.spawn([&] {
      settle();
      say("settled");
      sleep_for(7ns);
      go.set();
    });
    sleep_for(7ns);
    say("body");
    late.set();
  });
}

// The larger half of the library: what could have an order that depends on addresses.
class Mixed {
 public:
  explicit Mixed(std::string& log) : log_(log) {}

  void operator()() {
    nursery({.name = "mixed"}, [this](Nursery& n) {
      produce_and_select(n);
      share(n);
      cancel(n);
      restart(n);
      flow(n);
      n.spawn("root of it all", [this] {
        settle();
        say("settled");
      });
    });
  }

 private:
  void say(const std::string& what) {
    log_ += what + '@' + std::to_string(Clock::now().time_since_epoch().count()) + ' ';
  }

  // Several senders on several channels, several receivers on all of them.
  void produce_and_select(Nursery& n) {
    for (int i = 0; i < 3; ++i)
      n.spawn("sender", [this, i, left = left_.tx, right = right_.tx] {
        for (int k = 0; k < 4; ++k) {
          const auto& to = (i + k) % 2 == 0 ? left : right;
          if (io().random() % 3 == 0) sleep_for(std::chrono::nanoseconds{io().random() % 5});
          if (!to.send(10 * i + k)) return;
        }
        say("sent" + std::to_string(i));
      });
    for (int i = 0; i < 2; ++i)
      n.spawn("selector", [this, i, left = left_.rx, right = right_.rx] {
        bool ended = false;
        while (!ended)
          select(left.on_recv([&](std::optional<int> got) { received(i, got, ended); }),
                 right.on_recv([&](std::optional<int> got) { received(i, got, ended); }),
                 after(50ns, [&] { ended = true; }));
      });
    left_ = Channel<int>{};
    right_ = Channel<int>{};
  }
  void received(int by, std::optional<int> got, bool& ended) {
    ended = !got;
    say((got ? std::to_string(*got) : "end") + "to" + std::to_string(by));
  }

  void share(Nursery& n) {
    for (int i = 0; i < 4; ++i)
      n.spawn("sharer", [this, i] {
        for (int k = 0; k < 2; ++k) {
          const std::lock_guard locked{mutex_};
          this_fiber::yield();
          log_ += static_cast<char>('a' + i);
        }
        semaphore_.acquire();
        sleep_for(2ns);
        semaphore_.release();
        say("sharer" + std::to_string(i));
      });
  }

  void cancel(Nursery& n) {
    n.spawn("canceller", [this] {
      const bool ended = timeout(6ns, [this] {
        nursery([this](Nursery& inner) {
          for (int i = 0; i < 4; ++i)
            inner.spawn([this, i] {
              try {
                Event{}.wait();
              } catch (const Cancelled&) {
                say("cancelled" + std::to_string(i));
                throw;
              }
            });
        });
      });
      say(ended ? "ended" : "timed out");
      const auto winner = race([] { return sleep_for(3ns), 1; }, [] { return sleep_for(3ns), 2; });
      say("winner" + std::to_string(winner.index()));
    });
  }

  void restart(Nursery& n) {
    n.spawn("supervisor", [this] {
      int failures = 0;
      supervise({.name = "restarts", .max_restarts = 10, .backoff = {.first = 10ns, .jitter = 0.5}},
                [&](Supervisor& s) {
                  for (int i = 0; i < 2; ++i)
                    s.child("failing", [&] {
                      say("try");
                      if (failures++ < 4) throw std::runtime_error{"again"};
                    });
                });
    });
  }

  void flow(Nursery& n) {
    n.spawn("stream", [this] {
      int sum = 0;
      nursery([&](Nursery& inner) {
        Channel<int> numbers{2};
        inner.spawn([tx = std::move(numbers.tx)] {
          for (int i = 0; i < 8; ++i)
            if (!tx.send(i)) return;
        });
        stream(inner, std::move(numbers.rx)) | par_map_unordered(3, [this](int v) {
          this_fiber::yield();
          log_ += std::to_string(v);
          return v * v;
        }) | for_each([&](int v) { sum += v; });
      });
      say("sum" + std::to_string(sum));
    });
  }

  std::string& log_;
  Channel<int> left_{1}, right_{};
  Mutex mutex_;
  Semaphore semaphore_{2};
};

using Program = std::function<void(std::string&)>;

void mixed(std::string& log) { Mixed{log}(); }

Outcome simulate(const SimOptions& options, const Program& f = &program) {
  Outcome result;
  SimIo io{options};
  io.run([&] { f(result.log); });
  result.events = io.log();
  result.schedule = io.schedule();
  result.hash = io.trace_hash();
  result.steps = io.steps();
  result.end = io.now();
  return result;
}

TEST(Determinism, TheSameSeedIsTheSameRun) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Outcome first = simulate({.seed = seed});
    ASSERT_EQ(first, simulate({.seed = seed})) << "seed " << seed;
    ASSERT_FALSE(first.log.empty());
  }
}

TEST(Determinism, AReplayIsTheSameRun) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Outcome first = simulate({.seed = seed});
    ASSERT_EQ(first, simulate({.seed = ~seed, .replay = first.schedule})) << "seed " << seed;
  }
}

TEST(Determinism, DifferentSeedsAreDifferentRuns) {
  std::set<std::uint64_t> hashes;
  std::set<std::string> logs;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Outcome one = simulate({.seed = seed});
    hashes.insert(one.hash);
    logs.insert(one.log);
  }
  EXPECT_EQ(hashes.size(), 200U);
  EXPECT_GT(logs.size(), 100U);
}

// Stack size, other engines and threads' frames are no part of the world.
TEST(Determinism, NothingOutsideTheSimulationShows) {
  const Outcome first = simulate({.seed = 7});
  EXPECT_EQ(first, simulate({.seed = 7, .stack_bytes = 512 * 1024}));
  FiberIo other;
  other.run([&] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 100; ++i) n.spawn([] { this_fiber::yield(); });
    });
    EXPECT_EQ(first, simulate({.seed = 7}));
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(first, simulate({.seed = 7})); });
      this_fiber::yield();
    });
  });
}

// What a heap looks like after a while.
class Garbage {
 public:
  explicit Garbage(unsigned seed) {
    std::uint32_t bits = seed * 2654435761U + 1;
    for (unsigned i = 0; i < 2000 + seed % 100; ++i) {
      bits = bits * 1664525 + 1013904223;
      auto block = std::make_unique<char[]>(1 + (bits >> 20));
      if ((bits >> 8) % 3 != 0) kept_.push_back(std::move(block));
    }
  }

 private:
  std::vector<std::unique_ptr<char[]>> kept_;
};

// Every way to choose, with a few seeds each. Events are kept where that is cheap: to say where a
// fiber is preempted takes a look into the program's file. Once is enough.
std::vector<SimOptions> kinds_and_seeds(std::uint64_t seeds) {
  std::vector<SimOptions> all;
  for (std::uint64_t seed = 0; seed < seeds; ++seed)
    for (const Schedule schedule :
         {Schedule::random, Schedule::pct, Schedule::round_robin, Schedule::exhaustive})
      for (const bool preempt : {false, true})
        all.push_back({.seed = seed,
                       .schedule = schedule,
                       .length = 200,
                       .preempt = preempt,
                       .log_events = preempt && !all.empty() ? 0U : 100'000U});
  all.front().preempt = true;
  return all;
}

std::string title(const SimOptions& options) {
  return "schedule " + std::to_string(static_cast<int>(options.schedule)) +
         (options.preempt ? " with preemption" : "") + ", seed " + std::to_string(options.seed);
}

TEST(Determinism, NothingThatWasBeforeShows) {
  for (const SimOptions& options : kinds_and_seeds(5)) {
    SCOPED_TRACE(title(options));
    const Outcome first = simulate(options, &mixed);
    ASSERT_FALSE(first.log.empty());
    ASSERT_EQ(first.events.empty(), options.log_events == 0);
    ASSERT_EQ(first, simulate(options, &mixed));
    const Garbage garbage{static_cast<unsigned>(options.seed)};
    ASSERT_EQ(first, simulate(options, &mixed));
    simulate({.seed = ~options.seed}, &program);
    simulate({.seed = options.seed + 1, .preempt = true}, &mixed);
    ASSERT_EQ(first, simulate(options, &mixed));
    Outcome elsewhere;
    std::thread{[&] { elsewhere = simulate(options, &mixed); }}.join();
    ASSERT_EQ(first, elsewhere);
  }
}

// The text of a schedule stands for the seed and the kind.
TEST(Determinism, AReplayIsTheSameRunForEveryKind) {
  for (const SimOptions& options : kinds_and_seeds(5)) {
    SCOPED_TRACE(title(options));
    const Outcome first = simulate(options, &mixed);
    const SimOptions again{.seed = ~options.seed,
                           .replay = first.schedule,
                           .strict_replay = true,
                           .log_events = options.log_events};
    ASSERT_EQ(first, simulate(again, &mixed));
  }
}

// Several at once know nothing of each other.
TEST(Determinism, SimulationsOnSeveralThreadsAreStrangers) {
  const Outcome alone = simulate({.seed = 3}, &mixed);
  std::vector<Outcome> together(4);
  std::vector<std::thread> threads;
  for (Outcome& each : together)
    threads.emplace_back([&each] {
      for (int i = 0; i < 10; ++i) each = simulate({.seed = 3}, &mixed);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& each : together) EXPECT_EQ(each, alone);
}

// ── in other processes ──────────────────────────────────────────────────────────────────────────

constexpr std::size_t kChildRuns = 3 * 8;

bool is_randomised() { return (::personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0; }

// Run as a child: says where things lie, and how the runs went, each in a line.
TEST(DeterminismChild, Itself) {
  const char* const how = std::getenv("WEFT_TEST_CHILD");
  if (!how) return;
  const std::string_view wanted = how;
  if (wanted == "fixed" && is_randomised()) {  // it counts for what is executed next
    if (::personality(ADDR_NO_RANDOMIZE) < 0 || is_randomised()) {
      std::puts("refused");
      return;
    }
    const std::string self = ::weft::testing::sibling_program("determinism_test");
    ::execl(self.c_str(), self.c_str(), "--gtest_filter=DeterminismChild.Itself", nullptr);
    FAIL() << "execl";
  }
  std::optional<Garbage> garbage;
  if (wanted == "garbage") garbage.emplace(static_cast<unsigned>(::getpid()));
  const auto on_heap = std::make_unique<int>();
  const int on_stack = 0;
  std::printf("where %d %p %p %p\n", is_randomised() ? 1 : 0,
              reinterpret_cast<const void*>(&is_randomised), static_cast<const void*>(&on_stack),
              static_cast<const void*>(on_heap.get()));
  for (const SimOptions& options : kinds_and_seeds(3)) {
    Outcome one = simulate(options, &mixed);
    for (char& c : one.events)
      if (c == '\n') c = '|';
    std::printf("run %zx %zu %s %s %s\n", static_cast<std::size_t>(one.hash),
                static_cast<std::size_t>(one.steps), one.schedule.c_str(), one.log.c_str(),
                one.events.c_str());
  }
}

struct ChildRuns {
  std::string where;
  std::vector<std::string> runs;
  bool refused = false;
};

ChildRuns run_child(const std::string& how, const std::string& padding = {}) {
  const auto child =
      ::weft::testing::run_child({::weft::testing::sibling_program("determinism_test"),
                                  "--gtest_filter=DeterminismChild.Itself"},
                                 {"WEFT_TEST_CHILD=" + how, "WEFT_TEST_PADDING=" + padding});
  EXPECT_EQ(child.exit_code, 0) << child.output;
  ChildRuns result;
  std::istringstream lines{child.output};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("where ")) result.where = line;
    if (line.starts_with("run ")) result.runs.push_back(line);
    result.refused = result.refused || line == "refused";
  }
  return result;
}

TEST(Determinism, EveryProcessIsTheSame) {
  const ChildRuns first = run_child("plain");
  ASSERT_EQ(first.runs.size(), kChildRuns);
  std::set<std::string> places{first.where};
  for (int i = 0; i < 4; ++i) {
    const ChildRuns again = run_child("plain");
    places.insert(again.where);
    EXPECT_EQ(again.runs, first.runs);
  }
  EXPECT_EQ(run_child("plain", std::string(12345, 'x')).runs, first.runs);
  EXPECT_EQ(run_child("garbage").runs, first.runs);
  EXPECT_EQ(run_child("garbage", std::string(70000, 'x')).runs, first.runs);

  // That says something only if they did lie elsewhere. Sanitizers may keep them from it.
  std::string setting;
  std::ifstream{"/proc/sys/kernel/randomize_va_space"} >> setting;
  if (setting != "0" && is_randomised() && !arch::kAsan && !arch::kTsan) {
    EXPECT_EQ(places.size(), 5U) << "addresses are randomised, and yet:\n" << first.where;
  }
}

TEST(Determinism, AddressesThatAreNotRandomisedAreTheSameToo) {
  const ChildRuns fixed = run_child("fixed");
  if (fixed.refused) GTEST_SKIP() << "personality(2) is not allowed here";
  EXPECT_TRUE(fixed.where.starts_with("where 0 ")) << fixed.where;
  EXPECT_EQ(fixed.runs.size(), kChildRuns);
  EXPECT_EQ(fixed.runs, run_child("plain").runs);
}

// ── for all time ────────────────────────────────────────────────────────────────────────────────

// Recorded once. If one of these changes, every seed in every bug report has lost its meaning: a
// reason to think twice, and to raise the version in the schedule's text.
TEST(Determinism, RecordedRuns) {
  struct Recorded {
    std::uint64_t seed, hash, steps;
    std::string_view schedule, log;
  };
  const Recorded recorded[] = {
      {0x0, 0x6281a1dd752414ae, 35, "w1:0:6.2.0.5.0.1.0.3.0.5.1.3.2x4.1.2.0.2x2.1x2.0.1x2",
       "cabddbcancelled2@0 ddcccancelled0@0 failed@0 settled@0 sleeper2@5 sleeper0@5 b"
       "ody@7 arm1@7 sibling@7 sleeper3@10 sleeper1@10 "},
      {0x1, 0x44803779a9ed628e, 35, "w1:1:3.5x2.2x2.3.4.2.1.5.2.3.2x2.1.0.2.3.2.1.0x2.1.0x3",
       "ddcddbbcaccancelled2@0 cancelled0@0 failed@0 settled@0 sleeper2@5 sleeper0@5 a"
       "rm1@7 body@7 sibling@7 sleeper3@10 sleeper1@10 "},
      {0x2a, 0x76897e17332f6165, 34, "w1:2a:5.1.2.3.0.6.1.5.2.3.1.2x4.0x2.1.0.1x2.0.1x2",
       "bdadbddccancelled0@0 failed@0 ccsettled@0 sleeper2@5 sleeper0@5 body@7 arm1@7 "
       "sibling@7 sleeper3@10 sleeper1@10 "},
      {0xdeadbeef, 0x76e129f842e4990e, 35,
       "w1:deadbeef:2.6.0.3.2.5.2.4.0x2.5x2.0.4.5.1.0.1.2.0.1x2.0x2.2.0.1",
       "ccabdddcdbcancelled0@0 cancelled2@0 failed@0 settled@0 sleeper0@5 sleeper2@5 b"
       "ody@7 arm1@7 sibling@7 sleeper1@10 sleeper3@10 "},
      {0xffffffffffffffff, 0xdd7ff93d0beef86c, 33,
       "w1:ffffffffffffffff:6.5.1.3.4.5.6.1.4.0x2.4.0.3.0.2.1.0x4.2.0x2",
       "bbcaddddcfailed@0 csettled@0 sleeper0@5 sleeper2@5 body@7 arm1@7 sibling@7 sle"
       "eper1@10 sleeper3@10 "},
  };
  for (const Recorded& expected : recorded) {
    SCOPED_TRACE(expected.seed);
    const Outcome got = simulate({.seed = expected.seed});
    EXPECT_EQ(got.hash, expected.hash);
    EXPECT_EQ(got.steps, expected.steps);
    EXPECT_EQ(got.schedule, expected.schedule);
    EXPECT_EQ(got.log, expected.log);
    EXPECT_EQ(got.end, Instant{10ns});
  }
}

// The same for every way to choose and for most of the library: the same number in every build.
TEST(Determinism, RecordedHashes) {
  const struct {
    SimOptions options;
    std::uint64_t hash, steps;
  } recorded[] = {
      {{.seed = 0}, 0x79a333b13270bef9, 103},
      {{.seed = 42}, 0xb6cd2079c81f2d5c, 109},
      {{.seed = 0, .preempt = true}, 0xa54814267eb827bb, 319},
      {{.seed = 42, .preempt = true}, 0x21c10719d20929cf, 315},
      {{.seed = 0, .schedule = Schedule::pct, .length = 200}, 0xca6abb3b9e8ad0ad, 113},
      {{.seed = 42, .schedule = Schedule::pct, .length = 200, .preempt = true},
       0xc2e54253a2302637,
       314},
      {{.seed = 42, .schedule = Schedule::round_robin}, 0xfdbfccde0c0c7c5a, 101},
      {{.seed = 42, .schedule = Schedule::round_robin, .preempt = true}, 0x31a2ce6f54038881, 305},
      {{.seed = 42, .schedule = Schedule::exhaustive, .preempt = true}, 0x990b6cd45d868e5e, 303},
  };
  for (const auto& expected : recorded) {
    SCOPED_TRACE(title(expected.options));
    const Outcome got = simulate(expected.options, &mixed);
    EXPECT_EQ(got.hash, expected.hash) << std::hex << "0x" << got.hash;
    EXPECT_EQ(got.steps, expected.steps);
  }
}

}  // namespace
}  // namespace weft
