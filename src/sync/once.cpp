#include <weft/once.hpp>

#include "holder.hpp"

#include <system_error>

namespace weft {

class Once::Wait final : public Waitable {
 public:
  explicit Wait(Once& once) noexcept : once_(once) {}

  // Written by ourselves, or by whoever ended our wait, under the lock.
  [[nodiscard]] Turn turn() const noexcept { return turn_.read(); }
  void give(Turn turn) noexcept { turn_.write(turn); }

  bool try_complete() override {
    give(once_.take_turn());
    if (turn() != Turn::none) return true;
    const Locked locked{once_.lock_};
    if (once_.runner_.read() == &Fiber::current())
      throw std::system_error{std::make_error_code(std::errc::resource_deadlock_would_occur),
                              "weft::Once: called by its own function"};
    return false;
  }

  bool publish() noexcept override {
    const Locked locked{once_.lock_};
    if (once_.runner_.read() == nullptr) return false;
    once_.waiters_.push_back(*this);
    return true;
  }

  void unpublish() noexcept override {
    const Locked locked{once_.lock_};
    once_.waiters_.remove(*this);
  }

  [[nodiscard]] WaitReason reason() const noexcept override {
    WaitReason reason{.verb = "once", .name = once_.name_.view(), .object = &once_};
    const Locked locked{once_.lock_};
    const Fiber* const runner = once_.runner_.read();
    if (is_linked() && runner) reason.verb = sync::held_by(reason.verb, *runner, fiber(), text_);
    return reason;
  }

 private:
  Once& once_;
  Var<Turn> turn_{Turn::none};
  mutable char text_[80];  // of reason(): who asks for it stops the engine, one at a time
};

bool Once::begin() {
  Wait operation{*this};
  wait(operation);
  return operation.turn() == Turn::ours;
}

Once::Turn Once::begin(no_throw_t) {
  Wait operation{*this};
  return wait(operation, no_throw) ? operation.turn() : Turn::none;
}

Once::Turn Once::take_turn() noexcept {
  const Locked locked{lock_};
  if (done_.load(std::memory_order_relaxed)) return Turn::done;
  if (runner_.read()) return Turn::none;
  runner_.write(&Fiber::current());
  return Turn::ours;
}

void Once::succeeded() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    // release: pairs with done().
    done_.store(true, std::memory_order_release);
    runner_.write(nullptr);
    while (auto* const next = static_cast<Wait*>(waiters_.pop_front())) {
      Fiber& fiber = next->fiber();
      next->give(Turn::done);
      if (next->claim() == Claim::owned) woken.push_back(fiber);
    }
  }
  resume_all(std::move(woken));
}

void Once::failed() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    runner_.write(nullptr);
    while (auto* const next = static_cast<Wait*>(waiters_.pop_front())) {
      Fiber& fiber = next->fiber();
      next->give(Turn::ours);
      const Claim claim = next->claim();
      if (claim == Claim::lost && !mutant::kTurnToNobody) continue;
      if (claim == Claim::owned) woken.push_back(fiber);
      runner_.write(&fiber);
      break;
    }
  }
  resume_all(std::move(woken));
}

}  // namespace weft
