#include <weft/cond_var.hpp>

#include <weft/core/error.hpp>
#include <weft/time.hpp>

#include <exception>
#include <span>

namespace weft {

class CondVar::Wait final : public Waitable {
 public:
  Wait(CondVar& condition, Mutex& mutex) noexcept : condition_(condition), mutex_(mutex) {}

  // Asked a second time, we were off the list for a moment, and may have missed a notification:
  // that wait is over.
  bool try_complete() override { return let_go_; }

  bool publish() noexcept override {
    if (mutant::kCondVarUnlocksFirst) mutex_.unlock();
    {
      const Locked locked{condition_.lock_};
      condition_.waiters_.link(*this);
    }
    if (!mutant::kCondVarUnlocksFirst) mutex_.unlock();
    let_go_ = true;
    return true;
  }

  void unpublish() noexcept override {
    const Locked locked{condition_.lock_};
    condition_.waiters_.unlink(*this);
  }

  [[nodiscard]] WaitReason reason() const noexcept override {
    return {.verb = "condition", .name = condition_.name_.view(), .object = &condition_};
  }

  // Runs `waits`; whatever comes of it, we hold the mutex afterwards.
  template <class F>
  bool with_mutex_after(F waits) {
    bool result = false;
    try {
      result = waits();
    } catch (...) {
      lock_again();
      throw;
    }
    lock_again();
    return result;
  }

  // The alarm comes first: when it is due already, we need not leave the mutex.
  template <class... NoThrow>
  bool until(Instant at, NoThrow... how) {
    Alarm alarm{at};
    Waitable* const arms[] = {&alarm, this};
    return weft::wait(std::span<Waitable* const>{arms}, how...) == 1U;
  }

 private:
  // In a deadlock whoever holds the mutex unwinds as we do, and lets go of it. Our caller, who will
  // unlock it, must have it before that.
  void lock_again() {
    std::exception_ptr deadlock;
    while (let_go_) {
      try {
        mutex_.lock();
        let_go_ = false;
      } catch (const Deadlock&) {
        deadlock = std::current_exception();
      }
    }
    if (deadlock) std::rethrow_exception(deadlock);
  }

  CondVar& condition_;
  Mutex& mutex_;
  bool let_go_ = false;
};

void CondVar::notify_one() noexcept {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    static_cast<void>(waiters_.wake_one(woken));
  }
  resume_all(std::move(woken));
}

void CondVar::notify_all() noexcept {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    waiters_.wake_all(woken);
  }
  resume_all(std::move(woken));
}

void CondVar::wait_on(Mutex& mutex) {
  Wait operation{*this, mutex};
  static_cast<void>(operation.with_mutex_after([&] { return weft::wait(operation), true; }));
}

bool CondVar::wait_on(Mutex& mutex, no_throw_t) {
  Wait operation{*this, mutex};
  return operation.with_mutex_after([&] { return weft::wait(operation, no_throw); });
}

bool CondVar::wait_on(Mutex& mutex, Instant at) {
  Wait operation{*this, mutex};
  return operation.with_mutex_after([&] { return operation.until(at); });
}

bool CondVar::wait_on(Mutex& mutex, Instant at, no_throw_t) {
  Wait operation{*this, mutex};
  return operation.with_mutex_after([&] { return operation.until(at, no_throw); });
}

}  // namespace weft
