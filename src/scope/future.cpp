#include <weft/future.hpp>

#include <weft/core/closure.hpp>

namespace weft::detail {

bool FutureBase::settle(Status status, std::exception_ptr error) noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    if (status_.load(std::memory_order_relaxed) != Status::pending) return true;
    if (abandoned_.read()) return false;
    error_ = std::move(error);
    status_.store(status, std::memory_order_release);
    waiters_.wake_all(woken);
  }
  resume_all(std::move(woken));
  return true;
}

bool FutureBase::abandon() noexcept {
  if (status() == Status::pending) {
    const Locked locked{lock_};
    if (!mutant::kAbandonedUntold) abandoned_.write(true);
    if (status_.load(std::memory_order_relaxed) == Status::pending) return false;
  }
  error_ = nullptr;
  return true;
}

FutureBase::Status FutureBase::take() {
  const Status found = status();
  if (found == Status::taken)
    throw std::logic_error{"weft: Future::get() was called twice; the result is gone"};
  status_.store(Status::taken, std::memory_order_relaxed);
  return found;
}

void FutureBase::wait() {
  Fiber& self = Fiber::current();
  glance(self);
  // A child in place keeps us from leaving before it ends, so whatever cancels us must cancel it,
  // too. So not in a timeout in the body, nor in a child of another nursery.
  const bool same_scope = self.scope == parent() || mutant::kInPlaceUnderForeignScope;
  if (status() == Status::pending && same_scope) run_child_in_place(self);
  if (status() == Status::pending) {
    Ready ready{*this};
    weft::wait(ready);
  }
  // If that is because of a scope that is ours, too, the child may know it before we do.
  if (status() == Status::cancelled) [[unlikely]] attend(self);
}

// If it is the newest of our worker and nobody has started it: as in Nursery::run_own_children(),
// but of all the unborn only this one, for we do not wait for the others.
void FutureBase::run_child_in_place(Fiber& self) {
  Fiber* const child = self.io->adopt(*this, Departure::park);
  if (!child) return;
  run_in_place(self, *child);
  detach();
  not_spawned();  // we hold the future, and the child's share is ours to drop
  nursery().ended_in_place(self);
  glance(self);  // cancelled meanwhile: as if we had been parked
}

// ── told by the child's fiber ───────────────────────────────────────────────────────────────────

// A failure fails the nursery, too.
void FutureBase::child_failed(Fiber& child, std::exception_ptr error) noexcept {
  static_cast<void>(settle(Status::error, error));
  static_cast<Home&>(nursery()).child_failed(child, std::move(error));
}

// Our own cancel goes no further.
void FutureBase::child_cancelled() noexcept {
  static_cast<void>(settle(Status::cancelled));
  if (nursery().cancelled()) static_cast<Home&>(nursery()).child_cancelled();
}

void FutureBase::children_ended(std::size_t count) noexcept {
  Home& home = nursery();
  child_ended();
  home.children_ended(count);
}

bool FutureBase::children_ended_for_owner(std::size_t count) noexcept {
  if (!static_cast<Home&>(nursery()).children_ended_for_owner(count)) return false;
  child_ended();
  return true;
}

void FutureBase::child_ended() noexcept {
  if (!mutant::kFutureKeepsDeadScope) detach();  // the future may outlive the nursery
  let_go();
}

// ── as an arm ───────────────────────────────────────────────────────────────────────────────────

bool FutureBase::Ready::publish() noexcept {
  const Locked locked{state_.lock_};
  if (state_.status() != Status::pending) return false;
  state_.waiters_.link(*this);
  return true;
}

void FutureBase::Ready::unpublish() noexcept {
  const Locked locked{state_.lock_};
  state_.waiters_.unlink(*this);
}

}  // namespace weft::detail
