#include <weft/future.hpp>

namespace weft::detail {

void FutureBase::settle(Status status, std::exception_ptr error) noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    if (status_.read() != Status::pending) return;
    error_ = std::move(error);
    status_.write(status);
    waiters_.wake_all(woken);
  }
  resume_all(std::move(woken));
}

FutureBase::Status FutureBase::take() {
  const Locked locked{lock_};
  const Status found = status_.read();
  if (found == Status::taken)
    throw std::logic_error{"weft: Future::get() was called twice; the result is gone"};
  status_.write(Status::taken);
  return found;
}

// Under the lock, so that the scope is there; nobody takes ours while holding a scope's.
void FutureBase::cancel() noexcept {
  Fired fired;
  {
    const Locked locked{lock_};
    cancelled_ = true;
    if (scope_) scope_->cancel(CancelReason::requested, fired);
  }
  resume_all(std::move(fired.woken));
  CancelScope::tell(fired.hooks);
}

void FutureBase::runs_in(CancelScope* scope) noexcept {
  const Locked locked{lock_};
  if (scope || !mutant::kFutureKeepsDeadScope) scope_ = scope;
  // Nobody is below it yet.
  if (scope && cancelled_ && !mutant::kEarlyCancelForgotten) scope->cancel();
}

bool FutureBase::Ready::publish() noexcept {
  const Locked locked{state_.lock_};
  if (state_.status_.read() != Status::pending) return false;
  state_.waiters_.link(*this);
  return true;
}

void FutureBase::Ready::unpublish() noexcept {
  const Locked locked{state_.lock_};
  state_.waiters_.unlink(*this);
}

}  // namespace weft::detail
