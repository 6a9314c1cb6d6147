#include <weft/barrier.hpp>

#include "timed.hpp"

#include <stdexcept>
#include <utility>

namespace weft {

class Barrier::Wait final : public Waitable {
 public:
  Wait(Barrier& barrier, Phase phase) noexcept : barrier_(barrier), phase_(phase) {}

  bool try_complete() override {
    const Locked locked{barrier_.lock_};
    return barrier_.phase_.read() != phase_;
  }
  bool publish() noexcept override {
    const Locked locked{barrier_.lock_};
    if (barrier_.phase_.read() != phase_) return false;
    barrier_.waiters_.link(*this);
    return true;
  }
  void unpublish() noexcept override {
    const Locked locked{barrier_.lock_};
    barrier_.waiters_.unlink(*this);
  }
  [[nodiscard]] WaitReason reason() const noexcept override {
    return {.verb = "barrier wait", .name = barrier_.name_.view(), .object = &barrier_};
  }

 private:
  Barrier& barrier_;
  const Phase phase_;
};

Barrier::Barrier(std::size_t expected, std::function<void()> completion, Name name)
    : expected_(expected), completion_(std::move(completion)), name_(std::move(name)) {}

// Under no lock: the function may do what it likes. Nobody can arrive meanwhile.
void Barrier::complete() {
  try {
    if (completion_) completion_();
  } catch (...) {
    end_phase();
    throw;
  }
  end_phase();
}

void Barrier::end_phase() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    phase_.write(phase_.read() + 1);
    arrived_.write(0);
    completing_.write(false);
    waiters_.wake_all(woken);
  }
  resume_all(std::move(woken));
}

// False: it counts, and the phase ends or has ended.
bool Barrier::take_back(Phase phase) noexcept {
  const Locked locked{lock_};
  if (phase_.read() != phase || completing_.read()) return false;
  if (!mutant::kArrivalStays) arrived_.write(arrived_.read() - 1);
  return true;
}

template <class Waits>
bool Barrier::meet(Waits waits) {
  checkpoint(Fiber::current());
  Phase phase = 0;
  bool last = false;
  {
    const Locked locked{lock_};
    if (completing_.read() || arrived_.read() == expected_.read())
      throw std::logic_error{"weft::Barrier: more arrivals than it expects"};
    phase = phase_.read();
    arrived_.write(arrived_.read() + 1);
    last = arrived_.read() == expected_.read();
    completing_.write(last);
  }
  if (last) return complete(), true;
  Wait operation{*this, phase};
  try {
    if (waits(operation)) return true;
    if (take_back(phase)) return false;
  } catch (...) {
    if (take_back(phase)) throw;
  }
  wait_shielded(operation);
  return true;
}

void Barrier::arrive_and_wait() {
  static_cast<void>(meet([](Wait& operation) { return wait(operation), true; }));
}

bool Barrier::arrive_and_wait(no_throw_t) {
  return meet([](Wait& operation) { return wait(operation, no_throw); });
}

bool Barrier::arrive_and_wait_until(Instant at) {
  return meet([at](Wait& operation) { return sync::wait_until(operation, at); });
}

bool Barrier::arrive_and_wait_until(Instant at, no_throw_t) {
  return meet([at](Wait& operation) { return sync::wait_until(operation, at, no_throw); });
}

void Barrier::arrive_and_drop() {
  bool last = false;
  {
    const Locked locked{lock_};
    if (completing_.read() || arrived_.read() == expected_.read())
      throw std::logic_error{"weft::Barrier: more arrivals than it expects"};
    expected_.write(expected_.read() - 1);
    last = arrived_.read() == expected_.read();
    completing_.write(last);
  }
  if (last) complete();
}

std::size_t Barrier::expected() const noexcept {
  const Locked locked{lock_};
  return expected_.read();
}

}  // namespace weft
