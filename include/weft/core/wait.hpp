// wait: the one door. No other function in weft can park a fiber.
#pragma once

#include <weft/core/cancel_scope.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/switch.hpp>
#include <weft/core/waitable.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace weft {

// Waits until one of `arms` has completed, and returns its index. The others are as if they had
// never been tried: an arm that loses loses nothing.
//
// Parks while none can complete. Cancel point: throws Cancelled in a cancelled scope, even if an
// arm is ready. If an arm's try_complete() throws, nothing is published and the exception passes.
// Arms are tried in order, beginning with `first`. One to Verdict::kArmsMax of them; else throws
// std::invalid_argument.
std::size_t wait(std::span<Waitable* const> arms, std::size_t first = 0);
// The same, if each has just been tried, after a checkpoint.
std::size_t wait_tried(std::span<Waitable* const> arms);

// The same, but no cancel point: for joins, and for cleanup that must finish.
std::size_t wait_shielded(std::span<Waitable* const> arms);

// Asks for the form of an operation that reports cancellation instead of throwing Cancelled.
struct no_throw_t {
  explicit no_throw_t() = default;
};
inline constexpr no_throw_t no_throw{};

// wait(), but in a cancelled scope it returns nothing.
std::optional<std::size_t> wait(std::span<Waitable* const> arms, no_throw_t,
                                std::size_t first = 0);

inline void wait(Waitable& only) {
  Waitable* const arms[] = {&only};
  wait(std::span<Waitable* const>{arms});
}
// False: cancelled.
[[nodiscard]] inline bool wait(Waitable& only, no_throw_t) {
  Waitable* const arms[] = {&only};
  return wait(std::span<Waitable* const>{arms}, no_throw).has_value();
}
inline void wait_shielded(Waitable& only) {
  Waitable* const arms[] = {&only};
  wait_shielded(std::span<Waitable* const>{arms});
}

// How a wait ended.
struct Ending {
  Verdict verdict;
  // Who ended the wait found us parked, and resumed us when it was done with us: it has released
  // its lock, and the arm that won is in nobody's list. Else it may be at it still.
  bool waker_is_done;
};

// PARKING, published: away from here until somebody ends the wait.
[[gnu::always_inline]] inline Ending switch_away(Fiber& self) noexcept {
  Fiber& next = self.io->successor(self, Departure::park);
  if (&next != &self) [[likely]] switch_fibers(self, next, Departure::park);
  // A verdict was latched before we left; or else we are a thread, and have slept.
  else if (self.word.state() == FiberState::parking) return {self.word.abort_park(), false};
  const bool latched = (self.traits & kLatched) != 0;
  if (latched) [[unlikely]] self.traits ^= kLatched;
  return {self.word.verdict(), !latched || mutant::kLatchedWinnerSkipsLock};
}

// What is left to do for a fused wait that was not ended as most are. True: the arm has won.
[[gnu::cold]] bool settle_park(Fiber& self, Waitable& arm, Verdict verdict);

// Looks at our scope: throws Cancelled if it is cancelled, unless an exception is unwinding.
void attend(Fiber& self);

// The cancel point of operations that do not wait. One load when nothing is the matter.
[[gnu::always_inline]] inline void checkpoint(Fiber& self) {
  if (self.attention.load(std::memory_order_relaxed) != 0) [[unlikely]] attend(self);
}

// The same, for an operation that may complete without parking: then our scope need not know us.
[[gnu::always_inline]] inline void glance(Fiber& self) {
  const std::uint16_t attention = self.attention.load(std::memory_order_relaxed);
  if (attention == 0) [[likely]] return;
  if (attention == kAttendToEnrol && !(self.scope && self.scope->cancelled_by_now())) return;
  attend(self);
}

// The fused form of wait(), for an object that tries and publishes its only arm under one lock. The
// switch happens in the caller's frame: each return between it and the user's loop would be
// mispredicted.
//
// To be called with `lock` held, under which `arm` cannot complete; list.link(arm) makes it
// findable. Returns with the lock released: true, the arm has won; false, try again, after another
// glance(). Cancel point.
template <class AnyLock>
[[gnu::always_inline]] inline bool park_on(Fiber& self, Waitable& arm, AnyLock& lock,
                                           WaitList& list) {
  // No cancellation is raised while an exception unwinds: such a wait is as good as shielded.
  const Carrier& here = Carrier::here();
  if (here.exceptions->uncaught != 0) [[unlikely]] {
    lock.unlock();
    wait(arm);
    return true;
  }
  std::optional<Ticket> ticket;
  // A turn that is over ends by parking, too.
  constexpr std::uint16_t kTurns = kAttendTurn | kAttendPreempt;
  if ((self.attention.load(std::memory_order_relaxed) & ~kTurns) == 0) [[likely]]
    ticket = self.word.begin_park(Nudges::heed);
  if (!ticket) [[unlikely]] {  // nudged, or not yet enrolled
    lock.unlock();
    attend(self);
    return false;
  }
  Waitable* const arms[] = {&arm};
  self.strand->waiting_for = arms;
  self.strand->waiting_since = here.coarse_now;
  arm.bind(self, *ticket, 0);
  if (mutant::kFusedLinkApart) {
    lock.unlock();
    lock.lock();
  }
  list.link(arm);
  lock.unlock();
  const auto [verdict, waker_is_done] = switch_away(self);
  if (verdict.is_arm() && (waker_is_done || mutant::kFusedWinnerSkipsLock)) [[likely]] return true;
  if (mutant::kFusedLoserStaysLinked && !verdict.is_arm()) {
    attend(self);
    return false;
  }
  return settle_park(self, arm, verdict);
}

// A simulation lets others run first, if it so chooses.
[[gnu::cold]] void preempted(Fiber& self) noexcept;

// What opens operations that look at nothing else. Nowhere but in simulation does it give way; a
// model explores more than that anyway.
[[gnu::always_inline]] inline void preemption_point([[maybe_unused]] Fiber& self) noexcept {
#if !defined(WEFT_MODEL)
  if (self.attention.load(std::memory_order_relaxed) & kAttendPreempt) [[unlikely]]
    preempted(self);
#endif
}
inline void preemption_point() noexcept {
#if !defined(WEFT_MODEL)  // which also ends channels where no fiber runs
  preemption_point(Fiber::current());
#endif
}

// Lets the others run. Not a cancel point.
[[gnu::always_inline]] inline void give_way(Fiber& self) noexcept {
  Fiber& next = self.io->successor(self, Departure::yield);
  if (&next != &self) switch_fibers(self, next, Departure::yield);
}

}  // namespace weft
