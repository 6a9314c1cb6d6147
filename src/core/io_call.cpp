#include <weft/core/io_call.hpp>

#include <cerrno>

namespace weft {

// The wait for the end of a call that has been asked back.
class IoCall::LastWord final : public Waitable {
 public:
  explicit LastWord(IoCall& call) noexcept : call_(call) {}

  bool try_complete() override {
    const Locked locked{*call_.lock_};
    return call_.state_.read() != State::taken;
  }
  bool publish() noexcept override {
    const Locked locked{*call_.lock_};
    if (call_.state_.read() != State::taken && !mutant::kLastWordOverlooked) return false;
    call_.waiter_.write(this);
    return true;
  }
  void unpublish() noexcept override {
    const Locked locked{*call_.lock_};
    if (call_.waiter_.read() == this) call_.waiter_.write(nullptr);
  }
  [[nodiscard]] WaitReason reason() const noexcept override { return call_.reason(); }

 private:
  IoCall& call_;
};

// The one fault that nobody survives: an answer that is written to a frame that is gone.
IoCall::~IoCall() {
  spec::check(spec::Rule::f3_only_parked_is_woken, [&] { return state_.read() != State::taken; });
}

void IoCall::complete(Kernel::Answer answer, bool left_more, FiberList& woken) noexcept {
  answer_.write(answer);
  left_more_.write(left_more);
  state_.write(State::answered);
  Waitable* const waiter = waiter_.read();
  if (!waiter) return;
  __builtin_prefetch(&record_, 1);  // the first thing that it touches when it runs
  waiter_.write(nullptr);
  Fiber& fiber = waiter->fiber();  // both may be gone once the lock is released
  if (waiter->claim() == Claim::owned) woken.push_back(fiber);
}

// Asked back by a wait that goes on all the same, it is to be made again.
bool IoCall::try_complete() {
  if (state_.read() == State::answered && answer() == -ECANCELED && !record_.uses.is_closed())
    state_.write(State::ours);
  return state_.read() != State::ours;
}

bool IoCall::publish() noexcept {
  asked_back_ = false;
  if (record_.reactor->submit(*this)) return true;
  state_.write(State::refused);
  return false;
}

void IoCall::unpublish() noexcept {
  if (!lock_) return;
  const Locked locked{*lock_};
  if (state_.read() != State::taken) return;
  waiter_.write(nullptr);
  if (asked_back_) return;
  asked_back_ = true;
  record_.reactor->recall(*this);
}

bool IoCall::settle() noexcept {
  if (asked_back_ && !mutant::kCallLeftToTheKernel) {
    LastWord last_word{*this};
    wait_shielded(last_word);
  }
  return state_.read() == State::answered && answer() >= 0 && !mutant::kLateAnswerDropped;
}

}  // namespace weft
