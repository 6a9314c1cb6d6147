// RateLimiter: so many per second, and not much faster for a moment.
//
// Invariant: in any stretch of time, no more tokens are given than it brings, and `burst`.
// Race:      who waits for tokens is cancelled. It has not taken any: only the first in line looks
//            at the clock, and it takes when it goes. The line is a Semaphore of one.
// Rejected:  giving each caller an instant of its own, in advance (those behind one that was
//            cancelled would wait for tokens that nobody uses).
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/semaphore.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft {

// Usable from fibers of any engine and from plain threads, on the clock of whoever calls; engines
// of one limiter must share a clock, so a simulated one has limiters of its own. First come, first
// served. The bucket is full at the first call.
class RateLimiter {
 public:
  struct Options {
    std::uint64_t tokens = 1;                         // come in each ...
    Duration period = std::chrono::seconds{1};        // ... of these, evenly
    std::uint64_t burst = 0;  // may be saved up; 0: as many as `tokens`
    Name name{};
  };
  // Throws std::invalid_argument for no tokens, a period that is not positive, or numbers whose
  // product (tokens + burst) * period in nanoseconds passes 2^62.
  explicit RateLimiter(Options options);
  RateLimiter(const RateLimiter&) = delete;
  RateLimiter& operator=(const RateLimiter&) = delete;

  // Takes `n` tokens. Parks until they are there, behind whoever came before. Cancel point: if it
  // throws, none were taken. More than `burst` at once throw std::invalid_argument.
  void acquire(std::uint64_t n = 1);
  // The same; false: our scope was cancelled, and nothing is thrown.
  [[nodiscard]] bool acquire(std::uint64_t n, no_throw_t);
  [[nodiscard]] bool acquire(no_throw_t) { return acquire(1, no_throw); }
  // False: they are not there, or somebody waits. Never parks, and does not look at our scope.
  [[nodiscard]] bool try_acquire(std::uint64_t n = 1);
  // False: they cannot be had in time; said as soon as that is known. Cancel point; with no_throw,
  // false also means that our scope was cancelled.
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(std::chrono::duration<Rep, Period> d, std::uint64_t n = 1) {
    return try_acquire_until(Clock::in(to_duration(d)), n);
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(std::chrono::duration<Rep, Period> d, std::uint64_t n,
                                     no_throw_t) {
    return try_acquire_until(Clock::in(to_duration(d)), n, no_throw);
  }
  [[nodiscard]] bool try_acquire_until(Instant at, std::uint64_t n = 1);
  [[nodiscard]] bool try_acquire_until(Instant at, std::uint64_t n, no_throw_t);

 private:
  class InLine;

  template <class... NoThrow>
  bool wait_for_tokens(std::uint64_t n, std::optional<Instant> deadline, NoThrow... how);
  Instant take(std::uint64_t n, Instant now) noexcept;
  void check_size(std::uint64_t n) const;

  const std::int64_t tokens_, period_, burst_;
  Lock lock_;  // protects the three below
  Var<std::optional<Instant>> since_;  // when `used_` began to count; empty: not used yet
  Var<std::int64_t> used_{0};
  Var<std::size_t> in_line_{0};
  Semaphore turn_;  // whose turn it is to look at the clock
};

}  // namespace weft
