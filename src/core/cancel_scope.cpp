#include <weft/core/cancel_scope.hpp>

#include <weft/base/chaos.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/io.hpp>
#include <weft/core/waitable.hpp>

#include <algorithm>
#include <iterator>
#include <new>

namespace weft {

// Made by the scope that wants one; kept by every cancel() that is about to tell it.
struct StopHook {
  std::stop_source source;
  Atomic<std::uint32_t> keepers{1};
  StopHook* next = nullptr;  // in the list of one cancel(), which is the only one to find it
  bool told = false;         // protected by the scope's lock
};

// What many workers have instead of one roll.
struct CancelScope::Rolls {
  struct alignas(64) Aligned : Roll {};
#if defined(WEFT_MODEL)
  Aligned all[1];  // a canceller looks at all of them, and each look is to be explored
#else
  Aligned all[16];
#endif
};

namespace {

void release(StopHook& hook) noexcept {
  if (hook.keepers.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &hook;
}

}  // namespace

std::string_view to_string(CancelReason reason) noexcept {
  constexpr std::string_view kNames[] = {"none",           "requested",      "timed out",
                                         "sibling failed", "stop requested", "parent"};
  return kNames[static_cast<std::size_t>(reason)];
}

void CancelScope::cancel(CancelReason why) noexcept {
  Fired fired;
  flag(why);
  roll_.lock.lock();
  // Those of a crowd that we have woken may run while we wake the rest.
  while (!wake_some(fired)) {
    roll_.lock.unlock();
    resume_all(std::move(fired.woken));
    if (mutant::kCrowdWokenInPart) return;
    roll_.lock.lock();
  }
  sweep(fired);
  resume_all(std::move(fired.woken));
  tell(fired.hooks);
}

void CancelScope::cancel(CancelReason why, Fired& fired) noexcept {
  flag(why);
  roll_.lock.lock();
  sweep(fired);
}

// Before any fiber is looked for: one that enrols behind our back finds it.
void CancelScope::flag(CancelReason why) noexcept {
  // release: pairs with cancelled(); who sees the flag sees what led to it.
  std::uint8_t none = 0;
  reason_.compare_exchange_strong(none, static_cast<std::uint8_t>(why), std::memory_order_acq_rel,
                                  std::memory_order_relaxed);
  // release: pairs with cancelled_by_now(); who sees the new epoch sees the flag.
  epoch.fetch_add(1, std::memory_order_release);
}

void CancelScope::tell(StopHook* hooks) noexcept {
  while (hooks) {
    StopHook& hook = *hooks;
    hooks = hook.next;
    hook.source.request_stop();
    release(hook);
  }
}

std::stop_token CancelScope::stop_token() {
  if (!mutant::kTokenUnattached) attach();  // or else a cancel from above would not find us
  bool late = false;
  std::stop_token token;
  {
    const Locked locked{roll_.lock};
    if (!stop_) stop_ = new StopHook;
    token = stop_->source.get_token();
    late = cancelled() && !stop_->told;
    if (late) {
      stop_->told = true;
      stop_->next = nullptr;
      stop_->keepers.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (late) tell(stop_);
  return token;
}

void CancelScope::drop_stop_hook() noexcept {
  // We may have seen the flag and left before the sweep came by; nobody else would tell the token.
  if (!stop_->told && cancelled() && !mutant::kTokenLeftUntold) stop_->source.request_stop();
  release(*stop_);
}

CancelReason CancelScope::reason() const noexcept {
  const auto own = static_cast<CancelReason>(reason_.load(std::memory_order_acquire));
  if (own != CancelReason::none || shield_ == Shield::present || !parent_) return own;
  return parent_->cancelled() ? CancelReason::parent : CancelReason::none;
}

bool CancelScope::asked_to_stop() const noexcept {
  for (const CancelScope* scope = this; scope; scope = scope->parent_) {
    if (scope->asked_.load(std::memory_order_acquire)) return true;
    if (scope->reason_.load(std::memory_order_acquire) != 0) return true;
    if (scope->shield_ == Shield::present) return false;
  }
  return false;
}

bool CancelScope::cancelled() const noexcept {
  for (const CancelScope* scope = this; scope; scope = scope->parent_) {
    if (scope->reason_.load(std::memory_order_acquire) != 0) return true;
    if (scope->shield_ == Shield::present) return false;
  }
  return false;
}

bool CancelScope::look_again(std::uint32_t now) noexcept {
  if (cancelled()) return true;
  // All the way up, so that the scopes that will be made beside us need not climb again.
  for (CancelScope* scope = this; scope; scope = scope->parent_) {
    scope->clear_at_.store(now, std::memory_order_relaxed);
    if (scope->shield_ == Shield::present) break;
  }
  return false;
}

void CancelScope::set_deadline(Instant when) noexcept {
  deadline_ = when;
  if (timed_) static_cast<TimedScope*>(this)->rearm();
}

TimedScope::TimedScope(Io& io, CancelScope* parent) noexcept : CancelScope(parent), io_(io) {
  timed_ = true;
}

TimedScope::TimedScope(Io& io, CancelScope* parent, Instant deadline, Instant now) noexcept
    : TimedScope(io, parent) {
  deadline_ = deadline;
  arm(now);
}

TimedScope::~TimedScope() {
  if (!mutant::kDeadlineStaysArmed) io_.disarm(*this);
}

void TimedScope::rearm() noexcept {
  io_.disarm(*this);
  arm(io_.now());
}

void TimedScope::arm(Instant now) noexcept {
  when = deadline_;
  if (when == Instant::max()) return;
  if (when <= now) cancel(CancelReason::timed_out);
  else io_.arm(*this);
}

void TimedScope::fire(Fired& fired) noexcept { cancel(CancelReason::timed_out, fired); }

Instant CancelScope::deadline() const noexcept {
  Instant earliest = deadline_;
  for (const CancelScope* scope = this; scope->parent_ && scope->shield_ == Shield::absent;) {
    scope = scope->parent_;
    earliest = std::min(earliest, scope->deadline_);
  }
  return earliest;
}

void CancelScope::wake_strands(Fired& fired) noexcept {
  if (stop_ && !stop_->told) [[unlikely]] {
    stop_->told = true;
    if (!mutant::kStopHookUnkept) stop_->keepers.fetch_add(1, std::memory_order_relaxed);
    stop_->next = std::exchange(fired.hooks, stop_);
  }
  wake(fired, SIZE_MAX);
}

bool CancelScope::wake_some(Fired& fired) noexcept {
#if defined(WEFT_MODEL)
  constexpr std::size_t kAtOnce = 1;  // whatever comes in between is to be explored
#else
  constexpr std::size_t kAtOnce = 256;  // still in the cache when they are queued
#endif
  return wake(fired, kAtOnce);
}

// Of each roll `most` at most. True: that were all.
bool CancelScope::wake(Fired& fired, std::size_t most) noexcept {
  bool all = wake(roll_, fired, most);
  if (Rolls* const rolls = rolls_.load(std::memory_order_relaxed)) [[unlikely]]
    for (Roll& roll : rolls->all) {
      const Locked locked{roll.lock};
      all = wake(roll, fired, most) && all;
    }
  return all;
}

// Nobody is told twice: from now on, who looks finds the flag. So they leave the roll together, and
// need not find their neighbours on other stacks when each goes its way.
bool CancelScope::wake(Roll& roll, Fired& fired, std::size_t most) noexcept {
  const auto end_wait = [&](Strand& strand, Strand* next) {
    // Each lies on a stack of its own, which no cache knows if there are many: the next one's fiber
    // and the strand after it come while we are busy with this one.
    if (next) {
      __builtin_prefetch(&next->fiber, 1);
      if (Strand* const second = roll.strands.after(*next)) __builtin_prefetch(second, 1);
    }
    Fiber& fiber = strand.fiber;
    if (fiber.word.cancel(fiber.attention) != Claim::owned) return;
    strand.enrolled = nullptr;  // it is ours until it is resumed: it need not come here to leave
    fired.woken.push_back(fiber);
  };
  return roll.strands.drain(end_wait, most);
}

// With our lock held, and releases it. Down and up again without recursion. The locks of the whole
// path are held: a child detaches under its parent's, so it cannot die under our feet.
void CancelScope::sweep(Fired& fired) noexcept {
  CancelScope* scope = this;
  scope->wake_strands(fired);
  CancelScope* child = scope->children_.front();
  for (;;) {
    while (child && child->shield_ == Shield::present) child = scope->children_.after(*child);
    if (child) {
      scope = child;
      scope->roll_.lock.lock();
      scope->wake_strands(fired);
      child = scope->children_.front();
      continue;
    }
    CancelScope* const done = scope;
    if (done != this) {
      scope = done->parent_;
      child = scope->children_.after(*done);
    }
    done->roll_.lock.unlock();
    if (done == this) return;
  }
}

bool CancelScope::enrol(Strand& strand) noexcept {
  if (strand.enrolled != this) {
    withdraw(strand);
    attach();
    Roll& roll = lock_a_roll();
    roll.strands.push_back(strand);
    strand.enrolled = this;
    strand.roll = &roll;
    roll.lock.unlock();
  }
  // After the links are in place, and not before: see the race in the header.
  if (!cancelled()) return true;
  withdraw(strand);
  return false;
}

void CancelScope::remove(Strand& strand) noexcept {
  const Locked locked{strand.roll->lock};
  strand.roll->strands.remove(strand);
  strand.enrolled = nullptr;
}

bool Home::children_ended_for_owner(std::size_t) noexcept { return false; }

// ── many workers, one scope ─────────────────────────────────────────────────────────────────────

// Ours alone until it is unlocked. One that others are busy with is no place for a million fibers:
// then each worker has its own, more or less.
Roll& CancelScope::lock_a_roll() noexcept {
  if (!rolls_.load(std::memory_order_acquire)) [[likely]] {
    if (!chaos::strikes(8) && roll_.lock.try_lock()) [[likely]] return roll_;
    make_rolls();
  }
  // acquire: pairs with make_rolls(); see the race in the header.
  Rolls* const rolls = rolls_.load(std::memory_order_acquire);
  Roll& roll = rolls ? rolls->all[Carrier::here().number % std::size(rolls->all)] : roll_;
  roll.lock.lock();
  return roll;
}

void CancelScope::make_rolls() noexcept {
  Rolls* const made = new (std::nothrow) Rolls;  // without memory, they go on meeting
  if (!made) return;
  if (mutant::kRollsMadeApart && !rolls_.load(std::memory_order_relaxed)) {
    rolls_.store(made, std::memory_order_release);
    return;
  }
  {
    const Locked locked{roll_.lock};
    if (!rolls_.load(std::memory_order_relaxed)) {
      rolls_.store(made, std::memory_order_release);
      return;
    }
  }
  delete made;
}

void CancelScope::drop_rolls() noexcept { delete rolls_.load(std::memory_order_relaxed); }

void CancelScope::attach() noexcept {
  while (parent_ && !attached_.load(std::memory_order_acquire)) {
    CancelScope* topmost = this;  // the first on the way down that its parent does not know
    for (CancelScope* scope = this; scope->parent_; scope = scope->parent_)
      if (!scope->attached_.load(std::memory_order_acquire)) topmost = scope;
    const Locked locked{topmost->parent_->roll_.lock};
    if (topmost->attached_.load(std::memory_order_relaxed)) continue;
    topmost->parent_->children_.push_back(*topmost);
    // release: pairs with the loads above; who finds a scope attached need not climb further, and
    // sees the flag of any canceller that swept before us.
    topmost->attached_.store(true, std::memory_order_release);
  }
}

void CancelScope::leave_parent() noexcept {
  const Locked locked{parent_->roll_.lock};
  parent_->children_.remove(*this);
  attached_.store(false, std::memory_order_relaxed);
}

}  // namespace weft
