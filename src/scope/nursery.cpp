// Invariant: the owner leaves join() only when no child can touch the nursery any more.
// Race:      the last child ends while the owner decides to wait. Both change the same word, so one
//            of them comes second and sees the other: the child sees the waiter and wakes it, or
//            the owner sees nobody left and does not park.
// Rejected:  a count beside a state (each can miss the other); letting children notify through a
//            lock in the nursery (the owner would have to wait for the unlock before it goes).
#include <weft/nursery.hpp>

#include <weft/core/error.hpp>
#include <weft/core/spec.hpp>

#include <cstdio>
#include <new>

namespace weft {

// ── the word ────────────────────────────────────────────────────────────────────────────────────

bool Nursery::Word::child_added() noexcept {
  const std::uint64_t before = bits_.fetch_add(kChild, std::memory_order_relaxed);
  if (state_of(before) == NurseryState::open) [[likely]] return true;
  // The caller is counted, or waited for by one that is: not the last.
  if (!mutant::kRefusedStaysCounted) child_not_added();
  return false;
}

std::size_t Nursery::Word::live(std::int64_t spawned) const noexcept {
  const std::uint64_t bits = bits_.load(std::memory_order_relaxed);
  // While the body holds, its own children are missing here, and those that ended are below zero.
  const bool held = bits >= kBodyHolds / 2;
  const auto counted = static_cast<std::int64_t>(held ? bits - kBodyHolds : bits) >> 4;
  const std::int64_t all = held ? counted + spawned : counted;
  return all > 0 ? static_cast<std::size_t>(all) : 0;
}

bool Nursery::Word::children_ended(std::size_t count) noexcept {
  chaos::step();
  const std::uint64_t before =
      mutant::kJoinStateApartFromCount ? bits_.load(std::memory_order_relaxed) : 0;
  // release: the owner sees what the child did. acquire: the last child sees join_.
  const std::uint64_t now =
      bits_.fetch_sub(count * kChild, std::memory_order_acq_rel) - count * kChild;
  if (mutant::kJoinStateApartFromCount)
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
    if (mutant::kClosingCannotBeCancelled && from == NurseryState::closing) return false;
    if (from != NurseryState::open && from != NurseryState::closing) return false;
    spec::check_edge(from, NurseryState::cancelling);
    const std::uint64_t next =
        (seen & ~kStateMask) | static_cast<std::uint64_t>(NurseryState::cancelling);
    if (mutant::kCancellingByPlainStore) {
      bits_.store(next, std::memory_order_release);
      return true;
    }
    if (bits_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
}

bool Nursery::Word::begin_closing() noexcept {
  std::uint64_t seen = bits_.load(std::memory_order_relaxed);
  while (state_of(seen) == NurseryState::open) {
    spec::check_edge(NurseryState::open, NurseryState::closing);
    const std::uint64_t next = seen | static_cast<std::uint64_t>(NurseryState::closing);
    if (bits_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
  return false;
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
  if (mutant::kJoinTouchedAfterRelease) static_cast<void>(word_.state());
  if (claim == Claim::owned) owner.io->resume_one(owner);
}

// Fork-join costs a few nanoseconds because of this: a child that nobody has started yet is called
// on our own stack. Sound, because we could not go on before it ends anyway. True: that was all.
bool Nursery::run_own_children(Fiber& self) noexcept {
  for (;;) {
    if (spawned_ == 0 && word_.is_untouched()) return true;
    Fiber* const child = io().adopt(*this, Departure::park);
    if (!child) return false;
    run_in_place(self, *child);
    spawned_ = spawned_ - 1;
  }
}

void Nursery::wait_for_children() noexcept {
  if (word_.body_ended(spawned_)) return;
  if (mutant::kCancelledJoinReturns && cancelled()) return;
  Join operation{*this};
  wait_shielded(operation);
}

// ── children ────────────────────────────────────────────────────────────────────────────────────

// The engine did not take it.
void Nursery::take_back(Fiber& child, bool by_owner) noexcept {
  discard_fiber(child);
  if (by_owner) spawned_ = spawned_ - 1;
  else word_.child_not_added();
}

bool Nursery::refuse(Fiber& child) noexcept {
  if (!mutant::kRefusedChildStays) discard_fiber(child);
  return false;
}

// ── options ─────────────────────────────────────────────────────────────────────────────────────

struct Nursery::Extras {
  explicit Extras(NurseryOptions options_in) : options(std::move(options_in)) {}

  NurseryOptions options;
  Lock lock;  // protects the rest
  std::size_t live = 0;
  std::size_t spawned = 0;
  WaitList waiters;
  std::vector<std::exception_ptr> errors;  // ErrorPolicy::collect

  // Both with the lock held. False: none left.
  bool take_place() noexcept {
    if (options.max_live != 0 && live == options.max_live) return false;
    ++live;
    return true;
  }
  bool take_budget() noexcept {
    if (options.max_spawns != 0 && spawned == options.max_spawns) return false;
    ++spawned;
    return true;
  }
};

// Waits for a place among max_live.
class Nursery::Slot final : public Waitable {
 public:
  Slot(Nursery& nursery, Extras& extras) noexcept : nursery_(nursery), extras_(extras) {}

  bool try_complete() override {
    const Locked locked{extras_.lock};
    return extras_.take_place();
  }
  bool publish() noexcept override {
    const Locked locked{extras_.lock};
    if (extras_.live != extras_.options.max_live) return false;
    extras_.waiters.link(*this);
    return true;
  }
  void unpublish() noexcept override {
    const Locked locked{extras_.lock};
    extras_.waiters.unlink(*this);
  }
  [[nodiscard]] WaitReason reason() const noexcept override {
    return {.verb = "spawn, max_live", .name = nursery_.name(), .object = &nursery_};
  }

 private:
  Nursery& nursery_;
  Extras& extras_;
};

Nursery::Nursery(Fiber& owner, NurseryOptions options)
    : Home(owner.scope, &owner), io_(*owner.io), name_(std::move(options.name)) {
  const bool plain = options.on_error == ErrorPolicy::fail_fast && !options.on_suppressed &&
                     options.max_live == 0 && options.max_spawns == 0 &&
                     options.migration == Migration::free;
  if (!plain) extras_ = new Extras{std::move(options)};
}

Nursery::Permit Nursery::permit() {
  {
    const Locked locked{extras_->lock};
    if (!extras_->take_budget()) throw BudgetExhausted{};
    if (extras_->options.max_live == 0) {
      ++extras_->live;
      return Permit{extras_};
    }
  }
  try {
    Slot slot{*this, *extras_};
    wait(slot);
  } catch (...) {
    return_budget();
    throw;
  }
  return Permit{extras_};
}

std::uint8_t Nursery::traits_of_children() const noexcept {
  switch (extras_->options.migration) {
    case Migration::until_started: return kSettles;
    case Migration::pinned: return kPinned;
    default: return 0;
  }
}

void Nursery::return_budget() noexcept {
  const Locked locked{extras_->lock};
  --extras_->spawned;
}

Nursery::Permit Nursery::try_permit() {
  const Locked locked{extras_->lock};
  if (!extras_->take_budget()) return Permit{};
  if (extras_->take_place()) return Permit{extras_};
  --extras_->spawned;
  return Permit{};
}

void Nursery::give_back(Extras& extras) noexcept {
  FiberList woken;
  {
    const Locked locked{extras.lock};
    --extras.live;
    const bool anybody = mutant::kPlaceGivenToNobody && !extras.waiters.empty();
    // Handed over, or else a newcomer could take it before the one that waits.
    if ((extras.waiters.wake_one(woken) || anybody) && !mutant::kPlaceGivenTwice)
      static_cast<void>(extras.take_place());
  }
  resume_all(std::move(woken));
}

NurseryState Nursery::state() const noexcept {
  const NurseryState own = word_.state();
  const bool ours = own == NurseryState::open || own == NurseryState::closing;
  return ours && cancelled() ? NurseryState::cancelling : own;  // by a scope above us
}

// ── errors ──────────────────────────────────────────────────────────────────────────────────────

namespace {

void report_suppressed(const Nursery& nursery, const std::exception_ptr& error, FiberId who) {
  std::string what = "not a std::exception";
  try {
    std::rethrow_exception(error);
  } catch (const Deadlock&) {
    return;  // one event, told by the first
  } catch (const NurseryClosed&) {
    return;  // a consequence of the first failure
  } catch (const std::exception& thrown) {
    what = thrown.what();
  } catch (...) {
  }
  std::fprintf(stderr, "weft: fiber #%llu failed after another in nursery \"%.*s\": %s\n",
               static_cast<unsigned long long>(who), static_cast<int>(nursery.name().size()),
               nursery.name().data(), what.c_str());
}

}  // namespace

void Nursery::fail(std::exception_ptr error, const Fiber& who) noexcept {
  const ErrorPolicy policy = extras_ ? extras_->options.on_error : ErrorPolicy::fail_fast;
  bool first = false;
  bool kept = false;
  {
    const Locked locked{error_lock_};
    // A future's get() throws in the body what its child has failed with already.
    if (error == error_) return;
    first = !error_;
    if (first) {
      error_ = error;
      failed_ = who.id;
      try {
        if (const std::string name = who.copy_name(); !name.empty()) failed_name_ = Name{name};
      } catch (const std::bad_alloc&) {
        // No memory for it: the id must do.
      }
    }
    if (policy == ErrorPolicy::collect) {
      for (const std::exception_ptr& known : extras_->errors)
        if (known == error) return;
      try {
        extras_->errors.push_back(error);
        kept = true;
      } catch (const std::bad_alloc&) {
        // No memory to keep it: it is suppressed like the others.
      }
    }
  }
  if (first && policy == ErrorPolicy::fail_fast) cancel_because(CancelReason::sibling_failed);
  if (first || kept) return;
  if (extras_ && extras_->options.on_suppressed) extras_->options.on_suppressed(error, who.id);
  else report_suppressed(*this, error, who.id);
}

void Nursery::child_failed(Fiber& child, std::exception_ptr error) noexcept {
  fail(std::move(error), child);
}

void Nursery::throw_errors() {
  if (extras_ && extras_->options.on_error == ErrorPolicy::collect)
    throw ChildErrors{std::move(extras_->errors)};
  std::rethrow_exception(error_);
}

ChildErrors::ChildErrors(std::vector<std::exception_ptr> errors) {
  std::string what = std::to_string(errors.size()) + " failures, the first: ";
  try {
    if (!errors.empty()) std::rethrow_exception(errors.front());
  } catch (const std::exception& error) {
    what += error.what();
  } catch (...) {
    what += "not a std::exception";
  }
  errors_ = std::make_shared<const std::vector<std::exception_ptr>>(std::move(errors));
  what_ = std::make_shared<const std::string>(std::move(what));
}

std::optional<NurseryResult> Nursery::result() const noexcept {
  if (!word_.nobody_left()) return std::nullopt;
  const Locked locked{error_lock_};
  if (error_)
    return NurseryResult{NurseryResult::Kind::child_failed, error_, failed_, failed_name_.view()};
  if (cancelled()) return NurseryResult{NurseryResult::Kind::cancelled, nullptr, 0, {}};
  return NurseryResult{};
}

// ── arena and grace ─────────────────────────────────────────────────────────────────────────────

void Nursery::keep(ArenaNode* node) noexcept {
  const Locked locked{error_lock_};
  node->below = std::exchange(arena_, node);
}

void Nursery::empty_arena() noexcept {
  while (ArenaNode* const newest = arena_) {
    arena_ = newest->below;
    delete newest;
  }
}

// Cancels the nursery when the time it was given has passed.
class Nursery::Grace final : public Timer {
 public:
  Grace(Nursery& nursery, Instant at) noexcept : nursery_(nursery) {
    when = at;
    nursery_.io().arm(*this);
  }
  ~Grace() {
    if (!mutant::kGraceStaysArmed) nursery_.io().disarm(*this);
  }

 private:
  void fire(Fired& fired) noexcept override {
    if (nursery_.word_.begin_cancelling())
      static_cast<CancelScope&>(nursery_).cancel(CancelReason::requested, fired);
  }
  Nursery& nursery_;
};

void Nursery::cancel_at(Instant when) {
  ask_to_stop();
  if (when <= io().now()) return cancel();
  auto timer = std::make_unique<Grace>(*this, when);
  const Locked locked{error_lock_};
  if (!grace_) grace_ = timer.release();  // the first call stands
}

void Nursery::end_state() noexcept {
  // Its timer would change the state under our feet.
  if (!mutant::kGraceOutlivesTheEnd) delete std::exchange(grace_, nullptr);
  if (cancelled()) word_.begin_cancelling();  // by a scope above us
  word_.end();
}

void Nursery::let_go() noexcept {
  empty_arena();
  delete grace_;
  delete extras_;
}

}  // namespace weft
