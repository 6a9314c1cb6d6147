// Barrier: so many meet, again and again.
//
// Invariant: `arrived_` is the number of arrivals in the present phase that still stand.
// Race:      a waiter is cancelled while the last one arrives. The lock decides: either its arrival
//            was taken back in time, and the phase goes on; or it counted, the phase ends, and the
//            cancelled waiter returns as if nothing had been.
// Rejected:  leaving the arrival of a cancelled waiter in the count: it cannot come again without
//            being counted twice, and stays away from the next phase without anybody knowing.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace weft {

// Usable from fibers of any engine and from plain threads. A phase ends when as many have arrived
// as the barrier expects; the last one runs the completion function, if there is one, and then all
// go on into the next phase. More arrivals than are expected throw std::logic_error.
//
// Who is cancelled, or runs out of time, while it waits has not arrived: its arrival is taken back,
// it is still expected, and may come again or drop out. If its arrival has ended the phase already,
// it returns normally; the cancellation is raised at its next wait.
class Barrier {
 public:
  explicit Barrier(std::size_t expected) : Barrier(expected, std::function<void()>{}) {}
  Barrier(std::size_t expected, Name name)
      : Barrier(expected, std::function<void()>{}, std::move(name)) {}
  // `completion` may wait. An exception leaves the call of whoever arrived last; the phase ends.
  Barrier(std::size_t expected, std::function<void()> completion, Name name = {});
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Arrives, and returns when the phase has ended. Parks until then. Cancel point.
  void arrive_and_wait();
  // The same; false: our scope was cancelled, the arrival is taken back, and nothing is thrown.
  [[nodiscard]] bool arrive_and_wait(no_throw_t);
  // False: the time was over first, and the arrival is taken back. Cancel point; with no_throw,
  // false also means that our scope was cancelled.
  template <class Rep, class Period, class... NoThrow>
  [[nodiscard]] bool arrive_and_wait_for(std::chrono::duration<Rep, Period> d, NoThrow... how) {
    return arrive_and_wait_until(Clock::in(to_duration(d)), how...);
  }
  [[nodiscard]] bool arrive_and_wait_until(Instant at);
  [[nodiscard]] bool arrive_and_wait_until(Instant at, no_throw_t);

  // Arrives, and is not expected again. Parks only if the completion function does.
  void arrive_and_drop();

  [[nodiscard]] std::size_t expected() const noexcept;

 private:
  class Wait;
  using Phase = std::uint64_t;

  template <class Waits>
  bool meet(Waits waits);
  bool take_back(Phase phase) noexcept;
  void complete();
  void end_phase() noexcept;

  mutable Lock lock_;  // protects what follows, but for the function
  Var<std::size_t> expected_;
  Var<std::size_t> arrived_{0};
  Var<Phase> phase_{0};
  Var<bool> completing_{false};  // all have arrived; arrivals stand
  WaitList waiters_;
  const std::function<void()> completion_;
  Name name_;
};

}  // namespace weft
