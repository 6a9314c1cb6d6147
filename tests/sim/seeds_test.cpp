// Rules that must hold on every schedule, tried on two hundred of each.
#include <weft/sim.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSeeds = 200;

// ── schedules are really different ──────────────────────────────────────────────────────────────

// Read, think, write: right on some schedules only.
int withdraw_twice() {
  int balance = 100;
  nursery([&](Nursery& n) {
    for (int i = 0; i < 2; ++i)
      n.spawn([&] {
        const int seen = balance;
        this_fiber::yield();
        balance = seen - 10;
      });
  });
  return balance;
}

TEST(Seeds, SomeSchedulesLoseMoneyAndSomeDoNot) {
  int right = 0;
  int wrong = 0;
  std::optional<std::string> schedule;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SimIo io{{.seed = seed}};
    const bool lost = io.run(withdraw_twice) != 80;
    (lost ? wrong : right) += 1;
    if (lost && !schedule) schedule = io.schedule();
  }
  EXPECT_GT(right, 10);
  EXPECT_GT(wrong, 10);
  ASSERT_TRUE(schedule);
  EXPECT_NE(SimIo({.replay = *schedule}).run(withdraw_twice), 80) << "the string replays the loss";
}

TEST(Seeds, EveryOrderOfThreeFibersComesUp) {
  std::vector<std::string> orders;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::string order;
    SimIo{{.seed = seed}}.run([&] {
      nursery([&](Nursery& n) {
        for (const char who : {'a', 'b', 'c'}) n.spawn([&order, who] { order.push_back(who); });
      });
    });
    orders.push_back(order);
  }
  std::sort(orders.begin(), orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  EXPECT_EQ(orders, (std::vector<std::string>{"abc", "acb", "bac", "bca", "cab", "cba"}));
}

// ── random programs ─────────────────────────────────────────────────────────────────────────────

struct Failure {
  int number;
};

// A tree of nurseries whose fibers do what a generator says. Every wait ends, by an event, a timer
// or a cancellation; some fibers fail, some nurseries are cancelled. On one worker or in simulation
// a seed says it all; on several, the fibers draw from the generator in whatever order they come.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(static_cast<std::uint32_t>(seed)) {}

  void run() {
    try {
      grow(0);
    } catch (const Failure& failure) {
      EXPECT_LT(failure.number, failures_);
    } catch (const Cancelled&) {  // by whoever cancelled the scope we were run in
      EXPECT_TRUE(this_fiber::cancelled());
    }
    EXPECT_EQ(live_, 0) << "run() returned before a fiber ended";
    EXPECT_EQ(token_.use_count(), 1) << "a capture outlived its fiber";
  }
  [[nodiscard]] int started() const { return started_; }
  [[nodiscard]] Event& event(std::size_t i) { return events_[i % 4]; }

 private:
  using Count = std::atomic<int>;

  class Alive {
   public:
    Alive(Count& all, Count& mine) : all_(all), mine_(mine) { ++all_, ++mine_; }
    ~Alive() { --all_, --mine_; }
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;

   private:
    Count& all_;
    Count& mine_;
  };

  unsigned dice(unsigned sides) {
    const std::lock_guard locked{lock_};
    return static_cast<unsigned>(random_() % sides);
  }

  void grow(int depth) {
    Count children{0};  // alive now; the nursery must not end before it is zero
    struct Check {
      Count& children;
      ~Check() { EXPECT_EQ(children, 0) << "a nursery ended before its children"; }
    } check{children};
    nursery([&](Nursery& n) {
      const unsigned count = 1 + dice(6);
      for (unsigned i = 0; i < count; ++i) spawn(n, children, depth);
      act(n, children, depth);
      if (dice(30) == 0) n.cancel();
    });
  }

  void spawn(Nursery& n, Count& children, int depth) {
    // Refused once the nursery was cancelled.
    static_cast<void>(n.try_spawn([this, &n, &children, depth, token = token_] {
      const Alive alive{live_, children};
      ++started_;
      for (unsigned i = dice(8); i > 0; --i) act(n, children, depth);
      if (depth < 4 && dice(2) == 0) grow(depth + 1);
      for (unsigned i = dice(3); i > 0; --i) act(n, children, depth);
      if (dice(60) == 0) throw Failure{failures_++};
    }));
  }

  void act(Nursery& n, Count& children, int depth) {
    switch (dice(11)) {
      case 0: return this_fiber::yield();
      case 1: return sleep_for(Duration{dice(50)});
      case 2: return events_[dice(4)].set();
      case 3: return events_[dice(4)].reset();
      case 4: return wait_for_something();
      case 5: return this_fiber::checkpoint();
      case 6: return swallow();
      case 7: return catch_and_park(depth);
      case 8: return unwind_and_park();
      case 9:
        if (dice(40) == 0) n.cancel();
        return;
      default:
        if (started_ < 300 && dice(2) == 0) spawn(n, children, depth);
    }
  }

  void wait_for_something() {
    auto a = events_[dice(4)].on_set();
    auto b = events_[dice(4)].on_set();
    Alarm soon{Clock::now() + Duration{dice(100)}};
    Waitable* const arms[] = {&a, &soon, &b};
    EXPECT_LT(wait(std::span<Waitable* const>{arms}, dice(3)), 3U);
  }

  void swallow() {
    try {
      sleep_for(Duration{dice(10)});
    } catch (...) {  // Cancelled, and it is raised again at the next wait
    }
  }

  // Parks inside a catch block, with a nursery in it: the exception must still be there.
  void catch_and_park(int depth) {
    const int thrown = static_cast<int>(dice(1'000));
    try {
      throw thrown;
    } catch (int) {
      try {
        this_fiber::yield();
        wait_for_something();
        if (depth < 4 && dice(4) == 0) grow(depth + 1);
      } catch (const Failure&) {
      }
      try {
        throw;
      } catch (int again) {
        EXPECT_EQ(again, thrown);
      }
    }
  }

  // Parks in a destructor while an exception unwinds; nothing may be thrown there.
  void unwind_and_park() {
    struct Cleanup {
      RandomProgram& program;
      ~Cleanup() {
        EXPECT_EQ(std::uncaught_exceptions(), 1);
        program.wait_for_something();
        this_fiber::yield();
        nursery([this](Nursery& n) { n.spawn([this] { program.wait_shielded_from_events(); }); });
        EXPECT_EQ(std::uncaught_exceptions(), 1);
      }
    };
    try {
      const Cleanup cleanup{*this};
      throw 1;
    } catch (int) {
    }
  }
  void wait_shielded_from_events() {
    CancelScope shield{Fiber::current().scope, Shield::present};
    const Entered entered{Fiber::current(), shield};
    sleep_for(Duration{dice(20)});
  }

  std::mutex lock_;
  std::mt19937 random_;
  Event events_[4];
  std::shared_ptr<int> token_ = std::make_shared<int>(0);
  Count failures_{0};
  Count live_{0};
  Count started_{0};
};

TEST(Seeds, RandomProgramsKeepTheRulesInSimulation) {
  int started = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t hashes[2];
    for (std::uint64_t& hash : hashes) {
      SimIo io{{.seed = seed}};
      RandomProgram program{seed};
      io.run([&] { program.run(); });
      hash = io.trace_hash();
      started += program.started();
    }
    EXPECT_EQ(hashes[0], hashes[1]);
  }
  EXPECT_GT(started, 10'000);
}

TEST(Seeds, OneProgramKeepsTheRulesOnManySchedules) {
  for (const std::uint64_t program_seed : {3U, 14U, 159U})
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(std::to_string(program_seed) + " on " + std::to_string(seed));
      RandomProgram program{program_seed};
      SimIo{{.seed = seed}}.run([&] { program.run(); });
    }
}

// However many workers there are. Schedules differ in any case: not every count tries every seed.
class RealTime : public ::testing::TestWithParam<unsigned> {
 protected:
  static std::uint64_t seeds() { return GetParam() == 1 ? kSeeds : kSeeds / 2; }
};
INSTANTIATE_TEST_SUITE_P(Workers, RealTime, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

TEST_P(RealTime, RandomProgramsKeepTheRulesInRealTime) {
  FiberIo io{{.workers = GetParam()}};
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program{seed};
    io.run([&] { program.run(); });
  }
}

// The same beside threads that set events and cancel whole programs at any moment.
TEST_P(RealTime, RandomProgramsKeepTheRulesAmongForeignThreads) {
  FiberIo io{{.workers = GetParam()}};
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program{seed};
    io.run([&] {
      std::atomic<bool> stop{false};
      CancelScope scope{Fiber::current().scope};
      std::thread waker{[&] {
        for (std::size_t i = 0; !stop.load(); ++i) {
          program.event(i).set();
          std::this_thread::yield();
          if (i % 3 == 0) program.event(i).reset();
        }
      }};
      std::thread canceller;
      if (seed % 2 == 0)
        canceller = std::thread{[&] {
          for (std::uint64_t i = 0; i < seed % 8; ++i) std::this_thread::yield();
          scope.cancel();
        }};
      {
        const Entered entered{Fiber::current(), scope};
        program.run();
      }
      stop.store(true);
      waker.join();
      if (canceller.joinable()) canceller.join();
    });
  }
}

TEST_P(RealTime, RandomProgramsKeepTheRulesOnSmallStacks) {
  FiberIo io{{.workers = GetParam(),
              .stack_bytes = (arch::kAsan || arch::kTsan ? 128U : 32U) * 1024}};
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program{seed};
    io.run([&] { program.run(); });
  }
}

}  // namespace
}  // namespace weft
