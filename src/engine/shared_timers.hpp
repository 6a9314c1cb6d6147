// SharedTimers: the timers armed on one worker. Any thread may disarm or fire them.
//
// Invariant: when disarm() has returned, nobody touches the timer.
// Race:      one thread fires a timer while its fiber, woken by something else, disarms it on
//            another. Firing happens under the lock, so disarm() comes before it or after it.
#pragma once

#include "timer_wheel.hpp"

#include <weft/core/object_lock.hpp>

#include <cstddef>

namespace weft::engine {

class SharedTimers {
 public:
  // True: it is the soonest now.
  bool arm(Timer& timer) noexcept {
    timer.shared_ = this;
    const Instant fires_at = TimerWheel::fires_at(timer);
    const Locked locked{lock_};
    wheel_.arm(timer);
    if (fires_at >= soonest()) return false;
    publish(fires_at);
    return true;
  }

  // Wherever it was armed. Idempotent.
  static void disarm(Timer& timer) noexcept {
    if (SharedTimers* const where = timer.shared_) where->remove(timer);
  }

  // Fires what is due at `now`; the number fired.
  std::size_t fire_due(Instant now, Fired& fired) noexcept {
    constexpr std::size_t kAtOnce = 256;  // who disarms one of them waits for that many
    if (soonest() > now) return 0;
    std::size_t all = 0;
    for (std::size_t some = kAtOnce; some == kAtOnce; all += some) {
      const Locked locked{lock_};
      some = wheel_.fire_due(now, fired, kAtOnce);
      publish(wheel_.soonest());
    }
    return all;
  }

  // When there is something to fire, see TimerWheel. A hint to others; exact for the worker that
  // arms.
  [[nodiscard]] Instant soonest() const noexcept {
    return Instant{Duration{soonest_.load(std::memory_order_relaxed)}};
  }

  // The same, for who is going to sleep until then: see TimerWheel.
  [[nodiscard]] Instant soonest_rally() noexcept {
    if (soonest() == Instant::max()) return Instant::max();
    const Locked locked{lock_};
    return wheel_.soonest_rally();
  }

  [[nodiscard]] std::size_t size() noexcept {
    const Locked locked{lock_};
    return wheel_.size();
  }

 private:
  void remove(Timer& timer) noexcept {
    const Locked locked{lock_};
    wheel_.disarm(timer);
    // Most timeouts lie behind another, and what is published stays true.
    if (TimerWheel::fires_at(timer) <= soonest() || wheel_.size() == 0)
      publish(wheel_.soonest());
  }
  void publish(Instant soonest) noexcept {
    soonest_.store(soonest.time_since_epoch().count(), std::memory_order_relaxed);
  }

  ObjectLock lock_;  // the engine outlives whoever arms or disarms
  Atomic<Duration::rep> soonest_{Instant::max().time_since_epoch().count()};
  TimerWheel wheel_;
};

}  // namespace weft::engine
