// Invariant: the owner leaves join() only when no child can touch the nursery any more.
// Race:      the last child ends while the owner decides to wait. Both change the same word, so one
//            of them comes second and sees the other: the child sees the waiter and wakes it, or
//            the owner sees nobody left and does not park.
// Rejected:  a count beside a state (each can miss the other); letting children notify through a
//            lock in the nursery (the owner would have to wait for the unlock before it goes).
#include <weft/nursery.hpp>

#include <weft/core/spec.hpp>

namespace weft {

// ── the word ────────────────────────────────────────────────────────────────────────────────────

bool Nursery::Word::children_ended(std::size_t count) noexcept {
  chaos::step();
  [[maybe_unused]] const std::uint64_t before = bits_.load(std::memory_order_relaxed);
  // release: the owner sees what the child did. acquire: the last child sees join_.
  const std::uint64_t now =
      bits_.fetch_sub(count * kChild, std::memory_order_acq_rel) - count * kChild;
  if constexpr (mutant::kJoinStateApartFromCount)
    return now / kChild == 0 && (before & kWaiter) != 0;
  return now / kChild == 0 && (now & kWaiter) != 0;
}

bool Nursery::Word::body_ended(std::int64_t spawned) noexcept {
  chaos::step();
  const std::uint64_t change = static_cast<std::uint64_t>(spawned) * kChild - kBodyHolds;
  return (bits_.fetch_add(change, std::memory_order_acq_rel) + change) / kChild == 0;
}

bool Nursery::Word::owner_waits() noexcept {
  chaos::step();
  // release: pairs with children_ended(); whoever sees the bit sees join_.
  return bits_.fetch_or(kWaiter, std::memory_order_acq_rel) / kChild != 0;
}

bool Nursery::Word::nobody_left() const noexcept {
  return bits_.load(std::memory_order_acquire) / kChild == 0;
}

NurseryState Nursery::Word::state() const noexcept {
  return state_of(bits_.load(std::memory_order_relaxed));
}

void Nursery::Word::move_to(NurseryState to) noexcept {
  const NurseryState from = state();
  spec::check_edge(from, to);
  bits_.fetch_xor(static_cast<std::uint64_t>(from) ^ static_cast<std::uint64_t>(to),
                  std::memory_order_relaxed);
}

void Nursery::Word::end() noexcept {
  if (state() == NurseryState::open) move_to(NurseryState::closing);
  move_to(state() == NurseryState::closing ? NurseryState::closed : NurseryState::cancelled);
}

bool Nursery::Word::begin_cancelling() noexcept {
  std::uint64_t seen = bits_.load(std::memory_order_relaxed);
  for (;;) {
    const NurseryState from = state_of(seen);
    if (from != NurseryState::open && from != NurseryState::closing) return false;
    spec::check_edge(from, NurseryState::cancelling);
    const std::uint64_t next =
        (seen & ~kStateMask) | static_cast<std::uint64_t>(NurseryState::cancelling);
    if (bits_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
}

// ── the join ────────────────────────────────────────────────────────────────────────────────────

class Nursery::Join final : public Waitable {
 public:
  explicit Join(Nursery& nursery) noexcept : nursery_(nursery) {}

  bool try_complete() override { return nursery_.word_.nobody_left(); }
  bool publish() noexcept override {
    nursery_.join_.write(this);
    return nursery_.word_.owner_waits();
  }
  // Nothing to take back: only the last child looks for us, once, and its claim ends the wait.
  void unpublish() noexcept override {}
  [[nodiscard]] WaitReason reason() const noexcept override {
    return {.verb = "nursery join", .name = nursery_.name(), .object = &nursery_, .is_join = true};
  }

 private:
  Nursery& nursery_;
};

void Nursery::children_ended(std::size_t count) noexcept {
  if (!word_.children_ended(count)) return;
  Join& join = *join_.read();
  Fiber& owner = join.fiber();
  const Claim claim = join.claim();  // from here on, *this may be gone
  if constexpr (mutant::kJoinTouchedAfterRelease) static_cast<void>(word_.state());
  if (claim == Claim::owned) owner.io->resume(FiberList{owner});
}

// Fork-join costs a few nanoseconds because of this: a child that nobody has started yet is called
// on our own stack. Sound, because we could not go on before it ends anyway. True: that was all.
bool Nursery::run_own_children() noexcept {
  for (;;) {
    if (spawned_ == 0 && word_.is_untouched()) return true;
    Fiber* const child = io().adopt(*this, Departure::park);
    if (!child) return false;
    run_in_place(owner_, *child);
    --spawned_;
  }
}

void Nursery::end_state() noexcept {
  if (cancelled()) word_.begin_cancelling();  // by a scope above us
  word_.end();
}

void Nursery::wait_for_children() noexcept {
  if (word_.body_ended(spawned_)) return;
  Join operation{*this};
  wait_shielded(operation);
}

// ── children ────────────────────────────────────────────────────────────────────────────────────

// The engine did not take it.
void Nursery::take_back(Fiber& child, bool by_owner) noexcept {
  discard_fiber(child);
  if (by_owner) --spawned_;
  else word_.child_not_added();
}

void Nursery::fail(std::exception_ptr error) noexcept {
  {
    const Locked locked{error_lock_};
    if (error_) return;  // the first error wins
    error_ = std::move(error);
  }
  cancel();
}

void Nursery::child_failed(Fiber&, std::exception_ptr error) noexcept { fail(std::move(error)); }

}  // namespace weft
