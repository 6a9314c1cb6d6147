// Plain threads as fibers whose stack the OS owns.
//
// A thread that waits for a weft object has a frame, a word and a strand like any fiber; only its
// engine differs: suspending is a sleep on the control word, resuming a kernel wake. So every
// channel, lock and future works from any thread, with no second code path.
#pragma once

#include <weft/base/splitmix.hpp>
#include <weft/core/carrier.hpp>

#include <optional>

namespace weft {

class Timer;

// The engine of all plain threads. It runs nothing but the thread itself.
class ThreadIo final : public Io {
 public:
  static ThreadIo& get() noexcept;

  void start(Fiber& fiber) override;  // throws std::logic_error: there is nobody to run it
  Fiber& successor(Fiber& self, Departure how) noexcept override;
  void departed(Fiber& fiber, Departure how) noexcept override;
  void resume(FiberList fibers) noexcept override;
  [[nodiscard]] Instant now() const noexcept override;
  void arm(Timer& timer) noexcept override;
  void disarm(Timer& timer) noexcept override;
  [[nodiscard]] std::uint64_t random() noexcept override;
  [[nodiscard]] std::string_view kind() const noexcept override { return "a plain thread"; }

 private:
  void sleep_until_resumed(Fiber& self, class ThreadCarrier& thread) noexcept;
};

// One per plain thread that ever met weft; gone with the thread. Its frame returns to the pool.
class ThreadCarrier : public Carrier {
 public:
  explicit ThreadCarrier(Fiber& frame) noexcept;
  ~ThreadCarrier();

 private:
  friend class ThreadIo;

  Fiber& fiber_;
  Ground ground_;
  Strand strand_;
  Timer* timers_ = nullptr;  // armed by this thread, soonest first
  std::optional<SplitMix> chance_;  // from the first random() on
};

// Real monotonic time; what engines that do not simulate answer for now().
Instant monotonic_now() noexcept;

// Real chance, from the kernel: what the generators of such engines begin with.
std::uint64_t entropy() noexcept;

}  // namespace weft
