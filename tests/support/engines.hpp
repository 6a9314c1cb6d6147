// The same test on several engines, and what a test asks of the engine it is on.
#pragma once

#include <weft/arch/sanitizer.hpp>
#include <weft/core/error.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>

namespace weft::testing {

// How many schedules a test tries in simulation; sanitizers take longer for each.
inline constexpr std::uint64_t kSeeds = arch::kTsan ? 40 : arch::kAsan ? 100 : 200;

// No test tries fewer than kSeeds. WEFT_TEST_SEEDS=10000 has each try so many, or in proportion if
// it asks for more. `make test-long` does.
inline std::uint64_t scaled(std::uint64_t seeds) {
  static const char* const asked = std::getenv("WEFT_TEST_SEEDS");
  const std::uint64_t least = std::max(seeds, kSeeds);
  return asked ? least * std::strtoull(asked, nullptr, 10) / kSeeds : least;
}

enum class Preempt : bool { never, every_other };

// Every other schedule may switch at every operation, those between only where a fiber waits or
// yields.
inline void on_seeds(const std::function<void()>& f, std::uint64_t seeds = kSeeds,
                     std::size_t stack_bytes = SimOptions{}.stack_bytes,
                     Preempt preempted = Preempt::every_other) {
  for (std::uint64_t seed = 0; seed < scaled(seeds); ++seed) {
    const bool preempt = preempted == Preempt::every_other && seed % 2 != 0;
    SCOPED_TRACE("SimIo, seed " + std::to_string(seed) + (preempt ? ", preempting" : ""));
    SimIo{{.seed = seed, .preempt = preempt, .stack_bytes = stack_bytes}}.run(f);
  }
}

inline void on_workers(std::initializer_list<unsigned> numbers, const std::function<void()>& f,
                       std::size_t stack_bytes = Options{}.stack_bytes) {
  for (const unsigned workers : numbers) {
    SCOPED_TRACE("FiberIo, workers: " + std::to_string(workers));
    FiberIo{{.workers = workers, .stack_bytes = stack_bytes}}.run(f);
  }
}
inline void on_workers(const std::function<void()>& f) { on_workers({1U, 2U, 4U}, f); }

// Schedules that switch only where a fiber waits or yields.
inline void on_calm_seeds(const std::function<void()>& f, std::uint64_t seeds = kSeeds) {
  on_seeds(f, seeds, SimOptions{}.stack_bytes, Preempt::never);
}

// Once under BlockingIo, where spawn() is a call. A test whose fibers must take turns is listed in
// needs_concurrency.hpp; how its run ends is then checked against what the list says.
void on_blocking(const std::function<void()>& f);

// Where order or a fiber's standing still matters: on one thread, with a worker, in simulation and
// in place.
inline void on_both_engines(const std::function<void()>& f) {
  on_workers({1U}, f);
  on_calm_seeds(f);
  on_blocking(f);
}

// What fibers of `f` share, two workers may touch at once.
inline void everywhere(const std::function<void()>& f) {
  on_seeds(f);
  on_workers(f);
  on_blocking(f);
}

[[nodiscard]] inline bool simulated() { return io().kind() == "SimIo"; }
[[nodiscard]] inline bool in_place() { return io().kind() == "BlockingIo"; }

// Returns when all others are parked, of whatever engine: for certain in simulation; else as two
// dumps in a row show it, with turns between them in which readiness of a descriptor is noticed.
// Threads that are no workers are not seen.
void let_others_block();

// In simulation, for the only fiber: a timer that somebody left armed would move the clock.
inline void expect_no_timer_left() {
  const Instant before = Clock::now();
  EXPECT_THROW(Event{}.wait(), Deadlock);
  EXPECT_EQ(Clock::now(), before) << "a timer was left behind";
}

// What a fiber does that computes: it does not come to its worker's gate. The kernel may give the
// core to somebody else, though: the worker that we wait for needs one, and tests run side by side.
template <class Condition>
void spin_until(Condition condition) {
  for (unsigned spins = 1; !condition(); ++spins)
    if (spins % 1024 == 0) std::this_thread::yield();
}
inline void spin_until(const std::atomic<bool>& flag) {
  spin_until([&flag] { return flag.load(std::memory_order_relaxed); });
}

// A fork and a join for each call but the last ones.
inline int forked_fibonacci(int n) {
  if (n < 2) return n;
  int a = 0;
  int b = 0;
  nursery([&, n](Nursery& children) {
    children.spawn([&, n] { a = forked_fibonacci(n - 1); });
    b = forked_fibonacci(n - 2);
  });
  return a + b;
}

}  // namespace weft::testing
