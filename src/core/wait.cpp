// The park protocol, seen from the fiber that waits. docs/protocol.md tells it from all sides.
//
//   RUNNING ──begin_park──► PARKING ──publish all arms──┬─► switch, far side commits ─► PARKED
//      ▲                        │                       │                                │ claim
//      │                        └── an arm was ready ───┘                                ▼
//      └──── withdraw all arms ◄──────────────────── picked from a run queue ◄──── RUNNABLE
#include <weft/core/wait.hpp>

#include <weft/core/cancel_scope.hpp>
#include <weft/core/error.hpp>

#include <optional>
#include <stdexcept>
#include <string>

namespace weft {

namespace {

std::optional<std::size_t> try_each(std::span<Waitable* const> arms, std::size_t first) {
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::size_t at = first + i < arms.size() ? first + i : first + i - arms.size();
    if (arms[at]->try_complete()) return at;
  }
  return std::nullopt;
}

// Our time slice is over, and others wait; or a simulation may want them to come first. It draws
// our attention again before we go on.
[[gnu::cold, gnu::noinline]] void end_turn(Fiber& self) noexcept {
  self.attention.fetch_and(static_cast<std::uint16_t>(~kTurns), std::memory_order_relaxed);
  give_way(self);
}

// Looks at our scope: whether it is cancelled.
bool look_at_scope(Fiber& self) noexcept {
  const std::uint16_t attention = self.attention.load(std::memory_order_relaxed);
  if (attention & kTurns) [[unlikely]] end_turn(self);
  // Nudged, and cancelled indeed: the nudge stands, for the next wait, and nobody need find us.
  if ((attention & kAttendScope) && self.scope && self.scope->cancelled()) return true;
  const bool read_first =
      mutant::kNudgeClearedTooLate && self.scope && !self.scope->enrol(*self.strand);
  // Before the scopes are read: whoever cancels later nudges again. acquire: pairs with cancel();
  // if we take a nudge back, we see the scope that it was for.
  self.attention.fetch_and(static_cast<std::uint16_t>(~(kAttendScope | kAttendToEnrol)),
                           std::memory_order_acq_rel);
  // Enrolled from now on, so that a yield or checkpoint after this one costs a single load.
  const bool cancelled = mutant::kNudgeClearedTooLate
                             ? read_first
                             : self.scope && !self.scope->enrol(*self.strand);
  // Level-triggered: if this is swallowed, the next wait raises it again.
  if (cancelled) self.attention.fetch_or(kAttendScope, std::memory_order_relaxed);
  return cancelled;
}

// Whether a wait in a cancelled scope throws, or returns nothing.
enum class OnCancel : bool { throw_it, return_it };

// True: the wait is over, without a result.
bool heed(Fiber& self, OnCancel on_cancel) {
  if (on_cancel == OnCancel::throw_it) {
    attend(self);
    return false;
  }
  return look_at_scope(self);
}

std::optional<std::size_t> wait_for_any(std::span<Waitable* const> arms, std::size_t first,
                                        Nudges nudges, OnCancel on_cancel = OnCancel::throw_it) {
  if (arms.empty() || arms.size() > Verdict::kArmsMax)
    throw std::invalid_argument{"weft::wait(): 1 to 1024 arms, not " + std::to_string(arms.size())};
  Fiber& self = Fiber::current();
  for (unsigned round = 0;; ++round) {
    if (const auto ready = try_each(arms, first)) return *ready;
    // Nudged since the last look at our scope. Later than this, the commit would find it.
    const bool nudged = (self.attention.load(std::memory_order_relaxed) & kAttendScope) != 0;
    if (nudged && nudges == Nudges::heed) [[unlikely]] {
      if (heed(self, on_cancel)) return std::nullopt;
      continue;
    }
    Carrier& here = Carrier::here();
    Published published{arms, self, self.word.begin_park(nudges), here.coarse_now};
    const bool turned_ready = !published.all();
    if (!turned_ready && switch_away(here, self)) [[likely]] {
      const std::size_t won = self.word.verdict().arm();
      published.withdraw(won);
      return won;
    }
    const auto [verdict, waker_is_done] = end_of_wait(self);
    const bool won = verdict.is_arm();
    const std::optional<std::size_t> settled =
        won && waker_is_done ? published.withdraw(verdict.arm()) : published.withdraw();
    if (won) return verdict.arm();
    if (settled) return *settled;  // cancelled, but the kernel had delivered: nothing is lost
    if (verdict == Verdict::deadlock()) self.io->raise_deadlock();
    if (verdict == Verdict::cancelled() && heed(self, on_cancel)) return std::nullopt;
    // Two selects that keep finding each other half published must not do so in step for ever.
    if (turned_ready && round > 0 && round % 2 == self.id % 2) give_way(self);
  }
}

// After a checkpoint.
std::size_t wait_here(Fiber& self, std::span<Waitable* const> arms, std::size_t first) {
  // No cancellation is raised while an exception unwinds: such a wait is as good as shielded.
  const bool shielded = !self.scope || Carrier::here().exceptions->uncaught != 0;
  if (shielded) return *wait_for_any(arms, first, Nudges::pass);
  // Enrolled, and a canceller that came since has left a nudge: no need to climb the tree, nor to
  // touch the strand.
  if (!is_calm(self)) [[unlikely]]
    while (!self.scope->enrol(*self.strand)) attend(self);
  return *wait_for_any(arms, first, Nudges::heed);
}

}  // namespace

Carrier& carrier_after_attending(Fiber& self) {
  attend(self);
  return Carrier::here();
}

std::size_t wait(std::span<Waitable* const> arms, std::size_t first) {
  Fiber& self = Fiber::current();
  checkpoint(self);
  return wait_here(self, arms, first);
}

std::optional<std::size_t> wait(std::span<Waitable* const> arms, no_throw_t, std::size_t first) {
  Fiber& self = Fiber::current();
  const bool shielded = !self.scope || Carrier::here().exceptions->uncaught != 0;
  if (shielded) return wait_for_any(arms, first, Nudges::pass);
  const bool calm = self.attention.load(std::memory_order_relaxed) == 0;
  if (!calm && look_at_scope(self)) return std::nullopt;
  return wait_for_any(arms, first, Nudges::heed, OnCancel::return_it);
}

std::size_t wait_shielded(std::span<Waitable* const> arms) {
  return *wait_for_any(arms, 0, Nudges::pass);
}

Ending end_of_wait(Fiber& self) noexcept {
  // An arm turned ready, or a verdict was latched before we left.
  if (self.word.state() == FiberState::parking) return {self.word.abort_park(), false};
  // A thread, which has slept, may have won as cleanly as a fiber that was switched to.
  const bool latched = (self.traits & kLatched) != 0;
  if (latched) self.traits ^= kLatched;
  return {self.word.verdict(), !latched || mutant::kLatchedWinnerSkipsLock};
}

bool settle_park(Fiber& self, Waitable& arm) {
  const auto [verdict, waker_is_done] = end_of_wait(self);
  if (verdict.is_arm() && (waker_is_done || mutant::kFusedWinnerSkipsLock)) return true;
  if (mutant::kFusedLoserStaysLinked && !verdict.is_arm()) {
    attend(self);
    return false;
  }
  arm.unpublish();  // also if it has won: its waker may still hold the lock
  if (verdict.is_arm()) return true;
  after_wait(self, verdict);
  return false;
}

// Whoever cancels may have told us before we could see why: not only attention tells.
void after_wait(Fiber& self, Verdict verdict) {
  if (verdict == Verdict::deadlock()) self.io->raise_deadlock();
  if (verdict == Verdict::cancelled()) attend(self);
}

// Not while it parks or ends: what runs then, such as a callback of a stop token that a simulation
// tells when it gives up, or a destructor of a closure for which there was no stack, has no turn.
void preempted(Fiber& self) noexcept {
  if (self.scope && self.word.state() != FiberState::parking) end_turn(self);
}

void attend(Fiber& self) {
  if (look_at_scope(self) && Carrier::here().exceptions->uncaught == 0)
    throw Cancelled{self.scope->reason()};
}

bool attend(Fiber& self, no_throw_t) noexcept { return !look_at_scope(self); }

void resume_all(FiberList fibers) noexcept {
  if (Fiber* const one = fibers.single()) return one->io->resume_one(*one);
  // Not many more than a cache has room for: the engine goes through them once more. But the last
  // is not handed over alone, or it would run next, before all others.
  constexpr unsigned kAtOnce = 256;
  FiberList batch;
  Io* io = nullptr;
  unsigned count = 0;
  while (Fiber* fiber = fibers.pop_front()) {
    if (io && (io != fiber->io || (count >= kAtOnce && !fibers.empty()))) {
      io->resume(std::move(batch));
      count = 0;
    }
    io = fiber->io;
    batch.push_back(*fiber);
    ++count;
  }
  if (io) io->resume(std::move(batch));
}

}  // namespace weft
