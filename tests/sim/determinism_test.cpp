// The same seed is the same run: on every machine, with every compiler and optimisation level.
#include <weft/sim.hpp>

#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {
namespace {

using namespace std::chrono_literals;

struct Outcome {
  std::string log;
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

Outcome simulate(const SimOptions& options) {
  Outcome result;
  SimIo io{options};
  io.run([&] { program(result.log); });
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

// Recorded once. If one of these changes, every seed in every bug report has lost its meaning: a
// reason to think twice, and to raise the version in the schedule's text.
TEST(Determinism, RecordedRuns) {
  struct Recorded {
    std::uint64_t seed, hash, steps;
    std::string_view schedule, log;
  };
  const Recorded recorded[] = {
      {0x0, 0x6281a1dd752414ae, 35,
       "w1:0:6.2.0.5.0.1.0.3.0.5.1.3.2x4.1.2.0.2x2.1x2.0.1x2",
       "cabddbcancelled2@0 ddcccancelled0@0 failed@0 settled@0 sleeper2@5 sleeper0@5 b"
       "ody@7 arm1@7 sibling@7 sleeper3@10 sleeper1@10 "},
      {0x1, 0x44803779a9ed628e, 35,
       "w1:1:3.5x2.2x2.3.4.2.1.5.2.3.2x2.1.0.2.3.2.1.0x2.1.0x3",
       "ddcddbbcaccancelled2@0 cancelled0@0 failed@0 settled@0 sleeper2@5 sleeper0@5 a"
       "rm1@7 body@7 sibling@7 sleeper3@10 sleeper1@10 "},
      {0x2a, 0x76897e17332f6165, 34,
       "w1:2a:5.1.2.3.0.6.1.5.2.3.1.2x4.0x2.1.0.1x2.0.1x2",
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

}  // namespace
}  // namespace weft
