#include <weft/core/cancel_scope.hpp>
#include <weft/core/waitable.hpp>

#include <algorithm>

namespace weft {
void CancelScope::cancel() noexcept {
  // release: pairs with cancelled(); who sees the flag sees what led to it. Before the sweep: a
  // fiber that enrols behind our back finds it.
  cancelled_.store(true, std::memory_order_release);
  // release: pairs with cancelled_before_start(); who sees the new epoch sees the flag.
  epoch.fetch_add(1, std::memory_order_release);
  FiberList woken;
  sweep(woken);
  resume_all(std::move(woken));
}

bool CancelScope::cancelled() const noexcept {
  for (const CancelScope* scope = this; scope; scope = scope->parent_) {
    if (scope->cancelled_.load(std::memory_order_acquire)) return true;
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

Instant CancelScope::deadline() const noexcept {
  Instant earliest = deadline_;
  for (const CancelScope* scope = this; scope->parent_ && scope->shield_ == Shield::absent;) {
    scope = scope->parent_;
    earliest = std::min(earliest, scope->deadline_);
  }
  return earliest;
}

void CancelScope::wake_strands(FiberList& woken) noexcept {
  for (Strand* strand = strands_.front(); strand; strand = strands_.after(*strand)) {
    Fiber& fiber = strand->fiber;
    if (fiber.word.cancel() == Claim::owned) woken.push_back(fiber);
    fiber.attention.fetch_or(kAttendScope, std::memory_order_relaxed);  // a hint; the word decides
  }
}

// Down and up again without recursion. The locks of the whole path are held: a child detaches under
// its parent's, so it cannot die under our feet.
void CancelScope::sweep(FiberList& woken) noexcept {
  CancelScope* scope = this;
  scope->lock_.lock();
  scope->wake_strands(woken);
  CancelScope* child = scope->children_.front();
  for (;;) {
    while (child && child->shield_ == Shield::present) child = scope->children_.after(*child);
    if (child) {
      scope = child;
      scope->lock_.lock();
      scope->wake_strands(woken);
      child = scope->children_.front();
      continue;
    }
    CancelScope* const done = scope;
    if (done != this) {
      scope = done->parent_;
      child = scope->children_.after(*done);
    }
    done->lock_.unlock();
    if (done == this) return;
  }
}

bool CancelScope::enrol(Strand& strand) noexcept {
  if (strand.enrolled != this) {
    withdraw(strand);
    attach();
    const Locked locked{lock_};
    strands_.push_back(strand);
    strand.enrolled = this;
  }
  // After the links are in place, and not before: see the race in the header.
  if (!cancelled()) return true;
  withdraw(strand);
  return false;
}

void CancelScope::remove(Strand& strand) noexcept {
  const Locked locked{lock_};
  strands_.remove(strand);
  strand.enrolled = nullptr;
}

void CancelScope::attach() noexcept {
  while (parent_ && !attached_.load(std::memory_order_acquire)) {
    CancelScope* topmost = this;  // the first on the way down that its parent does not know
    for (CancelScope* scope = this; scope->parent_; scope = scope->parent_)
      if (!scope->attached_.load(std::memory_order_acquire)) topmost = scope;
    const Locked locked{topmost->parent_->lock_};
    if (topmost->attached_.load(std::memory_order_relaxed)) continue;
    topmost->parent_->children_.push_back(*topmost);
    // release: pairs with the loads above; who finds a scope attached need not climb further, and
    // sees the flag of any canceller that swept before us.
    topmost->attached_.store(true, std::memory_order_release);
  }
}

void CancelScope::leave_parent() noexcept {
  const Locked locked{parent_->lock_};
  parent_->children_.remove(*this);
  attached_.store(false, std::memory_order_relaxed);
}

}  // namespace weft
