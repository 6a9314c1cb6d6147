// Visit: alone with another worker's queues, for a scope.
#pragma once

#include "worker.hpp"

#include <weft/core/thread.hpp>

namespace weft::engine {

class [[nodiscard]] Worker::Visit {
 public:
  // Waits up to `polite` for the owner to come to its gate, and then goes in if it is elsewhere.
  Visit(Worker& host, Duration polite) noexcept : gate_(host.gate_), barred_(gate_.bar()) {
    if (!barred_) return;
    alone_ = wait([&] { return gate_.has_yielded(); }, polite);
    if (alone_) return;
    gate_.insist();
    alone_ = wait([&] { return gate_.is_outside(); }, policy::kGiveUp);
  }
  ~Visit() {
    if (barred_) gate_.open();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  // False: another visitor is there, or the owner lost its core inside its gate.
  [[nodiscard]] bool alone() const noexcept { return alone_; }

 private:
  template <class Condition>
  static bool wait(Condition condition, Duration longest) noexcept {
    if (condition()) return true;
    const Instant until = monotonic_now() + longest;
    while (monotonic_now() < until) {
      for (unsigned i = 0; i < policy::kSpinsPerLook; ++i) {
        if (condition()) return true;
        Sync::spin();
      }
    }
    return false;
  }

  Gate& gate_;
  const bool barred_;
  bool alone_ = false;
};

}  // namespace weft::engine
