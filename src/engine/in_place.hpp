// InPlace: a thread on which every fiber is a call in the middle of its spawner.
//
// Invariant: of the fibers that have begun, only the innermost runs or waits; the others are inside
//            spawn(), each called by the one before. So at most one fiber is parked.
// Race:      another thread ends its wait while it goes to sleep. Who sleeps looks at the bell,
//            then at its word and its timers, and sleeps only while the bell is as it was. Who
//            wakes changes the word, then the bell. The bell outlives the engine for the waker's
//            sake: once the word has changed, run() may return.
#pragma once

#include "gate.hpp"
#include "host.hpp"
#include "poller.hpp"
#include "root.hpp"

#include <weft/base/splitmix.hpp>
#include <weft/blocking_io.hpp>
#include <weft/engine/timer_queue.hpp>

#include <memory>
#include <optional>
#include <string>

namespace weft::engine {

// Timers that other threads may arm and disarm, too. Fired under the lock: disarm() comes before
// that or after it.
class LockedTimers {
 public:
  // True: it is the soonest now.
  bool arm(Timer& timer) noexcept;
  void disarm(Timer& timer) noexcept;
  bool fire_due(Instant now, Fired& fired) noexcept;  // false: none was due
  [[nodiscard]] Instant soonest() const noexcept {
    return Instant{Duration{soonest_.load(std::memory_order_relaxed)}};
  }
  [[nodiscard]] bool empty() const noexcept { return soonest() == Instant::max(); }
  [[nodiscard]] std::size_t size() noexcept;

 private:
  void publish() noexcept;

  Lock lock_;
  TimerQueue queue_;
  Atomic<Duration::rep> soonest_{Instant::max().time_since_epoch().count()};
};

class InPlace : public Host {
 public:
  InPlace(Io& io, const BlockingOptions& options);

  // Below it, no child is called on the calling thread's stack, which may be that of another
  // engine's fiber. Null: nobody knows.
  [[nodiscard]] static const std::byte* floor_here() noexcept;
  void run(Fiber& root_fiber, const std::byte* floor) noexcept;
  void call(Fiber& child) noexcept;        // to its end
  void yield(Fiber& self) noexcept;        // only time can pass
  void wait(Fiber& self) noexcept;         // PARKING: until it is resumed
  void resume(Fiber& fiber) noexcept;      // from any thread
  void arm(Timer& timer) noexcept;         // from any thread

  // By its own thread. Null: the system has none for us.
  [[nodiscard]] std::shared_ptr<Reactor> reactor() noexcept;

  // See Engine::inspect().
  bool inspect(Engine::Look look, void* at, Duration patience);

  LockedTimers timers;
  SplitMix chance;
  RootCount count;
  Atomic<bool> busy{false};  // a call of run() is under way
  std::optional<Root> root;
  std::string deadlock_report;

 private:
  struct Bell {
    Atomic<std::uint32_t> rung{0};
    Atomic<bool> in_bed{false};      // the sleeper is in the poller
    std::shared_ptr<Poller> poller;  // made before it is first slept in
  };

  static void ring(Bell& bell) noexcept {
    // Who lies down announces its bed, then looks at the bell: one of us sees the other.
    bell.rung.fetch_add(1, std::memory_order_seq_cst);
    if (bell.in_bed.load(std::memory_order_seq_cst)) bell.poller->rouse(0);
    else Sync::wake(bell.rung, 1);
  }
  [[nodiscard]] EngineSight sight(bool stands_still, bool asleep);
  void refuse(Fiber& child) noexcept;
  bool fire_due() noexcept;
  void look_up_for_timers(Fiber& self) noexcept;
  void sleep(std::uint32_t rung) noexcept;
  void sleep_in_bed(std::uint32_t rung, const std::timespec* timeout) noexcept;
  bool nothing_can_come(Fiber& self) noexcept;
  [[nodiscard]] std::string describe(const Fiber& self) const;

  const OnDeadlock on_deadlock_;
  const std::shared_ptr<Bell> bell_;
  Gate gate_;                  // to who is whose caller
  Atomic<bool> asleep_{false};
  bool reported_ = false;      // a deadlock, in this run
  FiberId ids_ = 0;
  unsigned yields_ = 0;
};

}  // namespace weft::engine
