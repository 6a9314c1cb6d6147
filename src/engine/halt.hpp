// Halt: brings the owner of a gate to rest, for somebody who wants to look at it.
//
// An owner that runs a fiber which does not give way never comes to its gate. When it has been
// waited for long enough, the way is barred all the same: from then on it is known to be outside,
// where it can neither pick, start nor wake a fiber.
#pragma once

#include "gate.hpp"

#include <weft/core/thread.hpp>

#include <ctime>

namespace weft::engine {

class [[nodiscard]] Halt {
 public:
  explicit Halt(Gate& gate) noexcept : gate_(gate) {}
  ~Halt() {
    if (barred_) gate_.open();
  }
  Halt(const Halt&) = delete;
  Halt& operator=(const Halt&) = delete;

  // The owner is to come to its gate. False: another visitor is there and does not leave, which is
  // to be a matter of microseconds.
  [[nodiscard]] bool ask(Instant give_up) noexcept {
    give_up += std::chrono::seconds{1};
    while (!(barred_ = gate_.bar()))
      if (!patient(give_up)) return false;
    return true;
  }
  // Waits until it has, or insists. `ended`: nobody runs any more. `away`: there is no owner; one
  // that comes will be stopped at its gate.
  template <class Ended, class Away>
  void await(Instant give_up, Ended ended, Away away) noexcept {
    while (!gate_.has_yielded() && !away()) {
      if (ended()) return;
      if (!patient(give_up)) return insist();
    }
    stands_still_ = true;
  }

  [[nodiscard]] bool stands_still() const noexcept { return stands_still_; }
  // It stands still, or is where it touches nothing that the gate protects.
  [[nodiscard]] bool is_alone() const noexcept { return stands_still_ || outside_; }
  // Neither, and nobody insisted: it has ended, or been lost.
  [[nodiscard]] bool is_over() const noexcept { return !stands_still_ && !insisted_; }

  static bool patient(Instant give_up) noexcept {
    const std::timespec briefly{0, 50'000};
    const Atomic<std::uint32_t> nobody_wakes{0};
    Sync::sleep(nobody_wakes, 0, &briefly);
    return monotonic_now() < give_up;
  }

 private:
  void insist() noexcept {
    gate_.insist();
    insisted_ = true;
    // Inside, it would be out within a microsecond, unless it has lost its core there.
    const Instant longest = monotonic_now() + std::chrono::milliseconds{5};
    do outside_ = gate_.is_outside();
    while (!outside_ && patient(longest));
    stands_still_ = gate_.has_yielded();
  }

  Gate& gate_;
  bool barred_ = false;
  bool stands_still_ = false;
  bool insisted_ = false;
  bool outside_ = false;
};

}  // namespace weft::engine
