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
// False: cancelled. Switches in the caller's frame, see park_on().
[[nodiscard]] bool wait(Waitable& only, no_throw_t);
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

// PARKING, published: away from here until somebody ends the wait. True: as most are ended, an arm
// has won, and its waker is done. Else end_of_wait() tells.
[[nodiscard, gnu::always_inline]] inline bool switch_away(Carrier& here, Fiber& self) noexcept {
  Fiber& next = self.io->successor(self, Departure::park);
  if (&next == &self) [[unlikely]] return false;
  switch_fibers(here, self, next, Departure::park);
  return (self.traits & kLatched) == 0 && self.word.verdict().is_arm();
}

// Of a wait that has begun, and that need not or cannot go on.
[[gnu::cold]] Ending end_of_wait(Fiber& self) noexcept;

// What is left to do for a park_on() that was not ended as most are. True: the arm has won.
[[gnu::cold]] bool settle_park(Fiber& self, Waitable& arm);

// Looks at our scope: throws Cancelled if it is cancelled, unless an exception is unwinding.
void attend(Fiber& self);
// The same for who is told instead. False: cancelled.
[[nodiscard]] bool attend(Fiber& self, no_throw_t) noexcept;

// A fused wait is over, and no arm has won: throws what says why. If it returns, try again.
[[gnu::cold]] void after_wait(Fiber& self, Verdict verdict);

// The cancel point of operations that do not wait. One load when nothing is the matter.
[[gnu::always_inline]] inline void checkpoint(Fiber& self) {
  if (self.attention.load(std::memory_order_relaxed) != 0) [[unlikely]] attend(self);
}

// Operations that may complete without parking: nobody needs to find us, so our scope need not know
// us. False: attend to what there is.
[[nodiscard, gnu::always_inline]] inline bool is_undisturbed(const Fiber& self) noexcept {
  const std::uint16_t attention = self.attention.load(std::memory_order_relaxed);
  if (attention == 0) [[likely]] return true;
  return attention == kAttendToEnrol && !(self.scope && self.scope->cancelled_by_now());
}
// Their cancel point.
[[gnu::always_inline]] inline void glance(Fiber& self) {
  if (!is_undisturbed(self)) [[unlikely]] attend(self);
}
// The same for the running fiber, by who goes on to use its carrier: that may be another after it.
[[gnu::noinline]] Carrier& carrier_after_attending(Fiber& self);
[[gnu::always_inline]] inline Carrier& glance_here() {
  Carrier& here = Carrier::here();
  Fiber& self = *here.current;
  if (is_undisturbed(self)) [[likely]] return here;
  return carrier_after_attending(self);
}
// The same, by who may know that it is going to park: then enrolling comes first.
template <class MayComplete>
[[gnu::always_inline]] inline Carrier& glance_here(MayComplete may_complete) {
  Carrier& here = Carrier::here();
  Fiber& self = *here.current;
  if (self.attention.load(std::memory_order_relaxed) == 0) [[likely]] return here;
  if (may_complete() && is_undisturbed(self)) return here;
  return carrier_after_attending(self);
}

// Enrolled, and nobody wants anything of us; but a turn that is over ends by parking, too.
inline constexpr std::uint16_t kTurns = kAttendTurn | kAttendPreempt;
[[gnu::always_inline]] inline bool is_calm(const Fiber& self) noexcept {
  return (self.attention.load(std::memory_order_relaxed) & ~kTurns) == 0;
}

// The fused form of wait(), for an object that tries and publishes its only arm under one lock. The
// switch happens in the caller's frame: each return between it and the user's loop would be
// mispredicted.
//
// To be called with `lock` held, under which `arm` cannot complete; list.link(arm) makes it
// findable. Returns with the lock released: true, the arm has won; false, try again, after another
// glance(). Cancel point, unless it is shielded: then nothing but the arm, or a deadlock, ends it.
template <Nudges kNudges = Nudges::heed, class AnyLock>
[[gnu::always_inline]] inline bool park_on(Carrier& here, Fiber& self, Waitable& arm, AnyLock& lock,
                                           WaitList& list) {
  if constexpr (kNudges == Nudges::heed) {
    // No cancellation is raised while an exception unwinds: such a wait is as good as shielded.
    if (here.exceptions->uncaught != 0) [[unlikely]] {
      lock.unlock();
      wait(arm);
      return true;
    }
    if (!is_calm(self)) [[unlikely]] {  // nudged, or not yet enrolled
      lock.unlock();
      attend(self);
      return false;
    }
  }
  const Ticket ticket = self.word.begin_park(kNudges);
  Waitable* const arms[] = {&arm};
  Waiting waiting{arms, here.coarse_now};
  self.link.lead_to(waiting);
  arm.bind(self, ticket, 0);
  if (mutant::kFusedLinkApart) {
    lock.unlock();
    lock.lock();
  }
  list.link(arm);
  lock.unlock();
  return switch_away(here, self) || settle_park(self, arm);
}
template <Nudges kNudges = Nudges::heed, class AnyLock>
[[gnu::always_inline]] inline bool park_on(Fiber& self, Waitable& arm, AnyLock& lock,
                                           WaitList& list) {
  return park_on<kNudges>(Carrier::here(), self, arm, lock, list);
}

// The arms of one wait, findable from all() until withdraw(). RAII: whatever happens in between,
// when this object is gone nobody can touch an arm.
class Published {
 public:
  Published(std::span<Waitable* const> arms, Fiber& self, Ticket ticket, Instant now) noexcept
      : waiting_{arms, now} {
    self.link.lead_to(waiting_);
    for (std::size_t i = 0; i < arms.size(); ++i) arms[i]->bind(self, ticket, i);
  }
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  ~Published() {
    if (count_ != 0) [[unlikely]] withdraw();
  }

  // False: an arm turned ready, and we need not park.
  bool all() noexcept {
    while (count_ < waiting_.arms.size())
      if (!waiting_.arms[count_++]->publish()) return false;
    return true;
  }

  // Unpublishes every arm but `gone`, which is so already. The index of one that the kernel
  // completed behind our back, if any.
  std::optional<std::size_t> withdraw(std::size_t gone = Verdict::kArmsMax) noexcept {
    const std::size_t forgotten = mutant::kLastArmStaysPublished && count_ > 1 ? 1 : 0;
    for (std::size_t i = 0; i + forgotten < count_; ++i)
      if (i != gone) waiting_.arms[i]->unpublish();
    std::optional<std::size_t> settled;
    for (std::size_t i = 0; i < count_; ++i)
      if (KernelOwned* const arm = waiting_.arms[i]->kernel_owned())
        if (i != gone && arm->settle()) settled = i;
    count_ = 0;
    return settled;
  }

 private:
  Waiting waiting_;
  std::size_t count_ = 0;
};

// The fused form for arms that publish themselves: each has just been tried, or looked at, after a
// checkpoint. The index of the one that has won. Cancel point.
[[gnu::always_inline]] inline std::size_t wait_fused(Fiber& self,
                                                     std::span<Waitable* const> arms) {
  Carrier& here = Carrier::here();
  if (here.exceptions->uncaught == 0 && is_calm(self)) [[likely]] {
    Published published{arms, self, self.word.begin_park(Nudges::heed), here.coarse_now};
    if (published.all() && switch_away(here, self)) [[likely]] {
      const std::size_t won = self.word.verdict().arm();
      published.withdraw(won);
      return won;
    }
    const auto [verdict, waker_is_done] = end_of_wait(self);
    const std::optional<std::size_t> settled =
        published.withdraw(waker_is_done && verdict.is_arm() ? verdict.arm() : Verdict::kArmsMax);
    if (verdict.is_arm()) return verdict.arm();
    if (settled) return *settled;  // cancelled, perhaps, but by then the kernel had delivered
    after_wait(self, verdict);
  }
  return wait(arms);
}
[[gnu::always_inline]] inline void wait_fused(Fiber& self, Waitable& arm) {
  Waitable* const arms[] = {&arm};
  wait_fused(self, arms);
}

// The same for who is told of cancellation: also this switch is in the caller's frame.
[[gnu::always_inline]] inline bool wait(Waitable& only, no_throw_t) {
  Fiber& self = Fiber::current();
  Waitable* const arms[] = {&only};
  const bool shielded = !self.scope || Carrier::here().exceptions->uncaught != 0;
  if (!shielded) [[likely]] {
    const bool nudged = self.attention.load(std::memory_order_relaxed) != 0;
    if (nudged && !attend(self, no_throw)) [[unlikely]] return false;
    if (only.try_complete()) return true;
    if (is_calm(self)) [[likely]] {
      Carrier& here = Carrier::here();
      Published published{arms, self, self.word.begin_park(Nudges::heed), here.coarse_now};
      if (published.all() && switch_away(here, self)) [[likely]] {
        published.withdraw(0);
        return true;
      }
      const auto [verdict, waker_is_done] = end_of_wait(self);
      const bool won = verdict.is_arm();
      if (published.withdraw(won && waker_is_done ? 0 : Verdict::kArmsMax) || won) return true;
      if (verdict == Verdict::deadlock()) self.io->raise_deadlock();
      if (verdict == Verdict::cancelled() && !attend(self, no_throw)) return false;
    }
  }
  return wait(std::span<Waitable* const>{arms}, no_throw).has_value();
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
  if (&next != &self) switch_fibers(Carrier::here(), self, next, Departure::yield);
}

}  // namespace weft
