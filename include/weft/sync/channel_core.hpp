// What two ends of a channel share. <weft/channel.hpp> is the manual.
//
// Invariant: a parked receiver implies an empty buffer and no parked sender; a parked sender
//            implies a full buffer. So direct hand-off and first in, first out are the same rule,
//            and every admitted value is received once or disposed once.
// Race:      send, receive, close, cancel, time-outs and selects meet under one lock. Who ends a
//            parked operation claims its fiber there, and moves the value there: cancellation
//            either wins the claim, and nothing has moved, or loses it, and the operation is done.
// Rejected:  a lock-free ring (slower even when nobody contends: two compare-exchanges for each
//            item against a lock and its release); claiming before the value can move (a loser
//            would have to give it back).
#pragma once

#include <weft/base/keepers.hpp>
#include <weft/core/arm.hpp>
#include <weft/core/name.hpp>
#include <weft/core/object_lock.hpp>
#include <weft/core/wait.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

namespace weft {

// What becomes of a send when the buffer is full.
enum class Overflow : std::uint8_t {
  block,     // it waits
  drop_new,  // it fails, and the caller still has the value
  drop_old,  // it succeeds, and the oldest value goes to on_undelivered
};

namespace detail {

class ChannelCore;

// How an operation ended: it was done, the channel was closed, or full under drop_new.
enum class Fate : std::uint8_t { pending, done, closed, full };
// What came of trying to send, or to receive, without waiting.
enum class Sent : std::uint8_t { sent, closed, full };
enum class Got : std::uint8_t { value, ended, empty };

// One operation on a channel, on the stack of whoever waits.
class ChannelOp : public Waitable {
 public:
  void unpublish() noexcept final;
  [[nodiscard]] Fate fate() const noexcept { return fate_.read(); }

 protected:
  // `core` may be null: a disabled arm, which never completes.
  ChannelOp(ChannelCore* core, WaitList ChannelCore::* list) noexcept : core_(core), list_(list) {}
  ~ChannelOp() = default;

  enum class Peers : bool { senders, receivers };
  // What to print, and how many could end the wait.
  [[nodiscard]] WaitReason reason_of(std::string_view verb, Peers peers) const noexcept;
  // Again, from the beginning.
  void renew() noexcept { fate_.write(Fate::pending); }

  ChannelCore* core_;
  Var<Fate> fate_{Fate::pending};

 private:
  friend class ChannelCore;
  template <class Cell>
  friend class ChannelState;

  WaitList ChannelCore::* list_;
};

// Everything that does not depend on the type of the values.
class ChannelCore {
 public:
  static constexpr std::uint32_t kUnbounded = UINT32_MAX;

  struct Settings {
    std::uint32_t capacity;
    Overflow overflow;
    bool once;  // closes behind the first value
    Name name;
  };

  ChannelCore(const ChannelCore&) = delete;
  ChannelCore& operator=(const ChannelCore&) = delete;
  static void* operator new(std::size_t bytes, std::align_val_t);
  static void operator delete(void* at, std::align_val_t) noexcept;

  // ── counted ends ────────────────────────────────────────────────────────────────────────────
  void add_sender() noexcept { senders_alive_.add(); }
  void add_receiver() noexcept { receivers_alive_.add(); }
  void drop_sender() noexcept {
    if (senders_alive_.drop()) last_sender_gone();
  }
  void drop_receiver() noexcept {
    if (receivers_alive_.drop()) last_receiver_gone();
  }

  // ── the end ─────────────────────────────────────────────────────────────────────────────────
  bool close(std::exception_ptr error) noexcept;
  bool abort(std::exception_ptr error) noexcept;
  [[nodiscard]] std::exception_ptr error() const noexcept;
  void throw_error() const;  // if there is one

  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] bool closed() const noexcept;
  // How many slots follow `slots` when an unbounded channel grows.
  [[nodiscard]] static constexpr std::uint32_t slots_after(std::uint32_t slots) noexcept {
    if (slots < 8) return 16;
    return slots > kUnbounded / 2 ? kUnbounded : slots * 2;
  }
  [[nodiscard]] std::string_view name() const noexcept { return name_.view(); }

 protected:
  // How to deal with values of the type that only the derived class knows.
  struct Kind {
    // Disposes of the buffer's values. Without the lock: nobody else knows them any more.
    void (*discard)(ChannelCore& core) noexcept;
    void (*destroy)(ChannelCore& core) noexcept;
  };

  ChannelCore(Settings settings, const Kind& kind) noexcept
      : overflow_(settings.overflow),
        once_(settings.once),
        capacity_(settings.capacity),
        kind_(kind),
        name_(std::move(settings.name)) {}
  ~ChannelCore() = default;

  // A oneshot has had its value: those who still wait for one are told. Without the lock.
  [[gnu::cold]] void close_behind() noexcept;

 private:
  friend class ChannelOp;
  friend class PeerGone;
  template <class Cell>
  friend class ChannelState;

  // Under the lock.
  static void end_all(WaitList& waiting, FiberList& woken) noexcept;
  void last_sender_gone() noexcept;
  void last_receiver_gone() noexcept;
  void release() noexcept;

  // One cache line: what an operation touches.
  alignas(64) mutable ObjectLock lock_;  // protects all but the counts and the constants
  const Overflow overflow_;
  const bool once_;
  Glimpsed<bool> closed_{false};     // nothing more is admitted
  Var<bool> ended_{false};           // and nothing more is delivered
  Glimpsed<std::uint32_t> size_{0};  // values in the buffer,
  Var<std::uint32_t> head_{0};       // the oldest of them here,
  std::uint32_t slots_ = 0;          // and room for so many: the capacity, unless it is unbounded
  void* cells_ = nullptr;
  WaitList senders_;
  WaitList receivers_;

  Keepers senders_alive_{1};
  Keepers receivers_alive_{1};
  Keepers keepers_{2};  // all senders together, and all receivers
  const std::uint32_t capacity_;
  const Kind& kind_;
  WaitList watch_senders_;            // for the last one's end, or close()
  WaitList watch_receivers_;
  Var<bool> hung_up_{false};          // by the last receiver
  std::exception_ptr error_;          // of close() or abort()
  Name name_;
};

// What a waiting sender or receiver is found by. `Cell` is what the buffer holds: it moves without
// throwing.
template <class Cell>
class ChannelState final : public ChannelCore {
 public:
  using Disposer = void (*)(void* context, Cell& cell) noexcept;
  class Send;
  class Recv;

  ChannelState(Settings settings, std::shared_ptr<void> context, Disposer disposer)
      : ChannelCore(std::move(settings), kKind), context_(std::move(context)), dispose_(disposer) {
    if (capacity_ != kUnbounded) grow_to(capacity_);
  }

  // ── without waiting ─────────────────────────────────────────────────────────────────────────

  // `from` is moved from if the answer is `sent`, else untouched. Throws std::bad_alloc, and
  // nothing has happened, when an unbounded channel cannot grow.
  [[gnu::always_inline]] Sent send_now(Cell& from) {
    Fiber* woken = nullptr;
    ObjectLockHere lock{lock_};
    lock.lock();
    const Sent sent = offer_or_unlock(from, woken, lock);
    if (sent == Sent::full) return overflow(from, lock);
    lock.unlock();
    finish(sent, woken);
    return sent;
  }
  [[gnu::always_inline]] Got recv_now(std::optional<Cell>& into) noexcept {
    Fiber* woken = nullptr;
    ObjectLockHere lock{lock_};
    lock.lock();
    const Got got = take(into, woken);
    lock.unlock();
    resume_one(woken);
    return got;
  }

  // ── waiting ─────────────────────────────────────────────────────────────────────────────────

  // Cancel points. False: closed, or the end of it.
  [[gnu::always_inline]] bool send(Cell& from) {
    const Fate fate = attempt_send(from);
    return fate != Fate::pending ? fate == Fate::done : send_again(from);
  }
  [[gnu::always_inline]] bool recv(std::optional<Cell>& into) {
    const Fate fate = attempt_recv(into);
    return fate != Fate::pending ? fate == Fate::done : recv_again(into);
  }

  // Whether trying may pay. Without the lock.
  [[nodiscard]] bool may_send() const noexcept {
    if (capacity_ == kUnbounded || overflow_ != Overflow::block) return true;
    return Sync::hunch(
        [&] { return size_.read() < slots_ || !receivers_.empty() || closed_.read(); });
  }
  [[nodiscard]] bool may_recv() const noexcept {
    return Sync::hunch([&] { return size_.read() != 0 || !senders_.empty() || closed_.read(); });
  }

  void dispose(Cell& cell) noexcept {
    if (dispose_) dispose_(context_.get(), cell);
  }

 private:
  // Pending: try again. No loop: compilers would move out of it what one attempt does not need.
  [[gnu::always_inline]] Fate attempt_send(Cell& from) {
    Carrier& here = glance_here();
    Fiber& self = *here.current;
    Fiber* woken = nullptr;
    ObjectLockHere lock{lock_, here};
    lock.lock();
    const Sent sent = offer_or_unlock(from, woken, lock);
    if (sent != Sent::full) {
      lock.unlock();
      finish(sent, woken);
      return sent == Sent::sent ? Fate::done : Fate::closed;
    }
    if (overflow_ != Overflow::block) [[unlikely]]
      return overflow(from, lock) == Sent::sent ? Fate::done : Fate::full;
    Send operation{this, from};
    if (!park_on(here, self, operation, lock, senders_)) [[unlikely]] return Fate::pending;
    return operation.fate() == Fate::done ? Fate::done : Fate::closed;
  }
  [[gnu::always_inline]] Fate attempt_recv(std::optional<Cell>& into) {
    Carrier& here = glance_here([&] { return may_recv(); });
    Fiber& self = *here.current;
    Fiber* woken = nullptr;
    ObjectLockHere lock{lock_, here};
    lock.lock();
    const Got got = take(into, woken);
    if (got != Got::empty) {
      lock.unlock();
      resume_one(woken);
      return got == Got::value ? Fate::done : Fate::closed;
    }
    Recv operation{this, into};
    if (!park_on(here, self, operation, lock, receivers_)) [[unlikely]] return Fate::pending;
    return operation.fate() == Fate::done ? Fate::done : Fate::closed;
  }
  [[gnu::noinline]] bool send_again(Cell& from) {
    for (;;)
      if (const Fate fate = attempt_send(from); fate != Fate::pending) return fate == Fate::done;
  }
  [[gnu::noinline]] bool recv_again(std::optional<Cell>& into) {
    for (;;)
      if (const Fate fate = attempt_recv(into); fate != Fate::pending) return fate == Fate::done;
  }

  static constexpr Kind kKind{
      [](ChannelCore& core) noexcept { static_cast<ChannelState&>(core).discard(); },
      [](ChannelCore& core) noexcept { delete &static_cast<ChannelState&>(core); }};
  ~ChannelState() {
    static_assert(alignof(ChannelState) == alignof(ChannelCore), "or operator new must know");
    discard();
    std::allocator<Cell>{}.deallocate(cells(), slots_);
  }

  static void resume_one(Fiber* woken) noexcept {
    if (woken) woken->io->resume_one(*woken);
  }
  // ── under the lock ──────────────────────────────────────────────────────────────────────────

  [[nodiscard]] Cell* cells() const noexcept { return static_cast<Cell*>(cells_); }
  [[nodiscard]] Cell& at(std::uint32_t i) const noexcept {
    const std::uint64_t place = std::uint64_t{head_.read()} + i;
    return cells()[place < slots_ ? place : place - slots_];
  }
  void push(Cell& from) noexcept {
    const std::uint32_t size = size_.read();
    std::construct_at(std::addressof(at(size)), std::move(from));
    size_.write(size + 1);
  }
  void pop(std::optional<Cell>& into) noexcept {
    Cell& oldest = cells()[head_.read()];
    into.emplace(std::move(oldest));
    std::destroy_at(std::addressof(oldest));
    const std::uint32_t next = head_.read() + 1;
    head_.write(next == slots_ ? 0 : next);
    size_.write(size_.read() - 1);
  }
  [[nodiscard]] bool has_room() {
    if (size_.read() < slots_) return true;
    if (capacity_ != kUnbounded) [[likely]] return false;
    if (slots_ == kUnbounded) throw std::bad_alloc{};
    grow_to(slots_after(slots_));
    return true;
  }
  [[gnu::noinline]] void grow_to(std::uint32_t slots) {
    if (slots == 0) return;
    Cell* const bigger = std::allocator<Cell>{}.allocate(slots);
    for (std::uint32_t i = 0; i < size_.read(); ++i) {
      std::construct_at(bigger + i, std::move(at(i)));
      std::destroy_at(std::addressof(at(i)));
    }
    if (cells_) std::allocator<Cell>{}.deallocate(cells(), slots_);
    cells_ = bigger;
    slots_ = slots;
    head_.write(0);
  }

  // S0 §5.1. Admission is linearized where it is decided, all of it under the lock:
  [[gnu::always_inline]] Sent offer(Cell& from, Fiber*& woken, ObjectLockHere& lock) {
    if (closed_.read()) [[unlikely]] return Sent::closed;
    if (!receivers_.empty() && !(mutant::kBufferBeforeReceiver && size_.read() < capacity_))
      if (Waitable* const waiting = receivers_.claim_first(woken)) {
        auto& receiver = static_cast<Recv&>(*waiting);  // admitted by this claim: hand-off
        if (mutant::kValueMovedUnlocked) lock.unlock();
        receiver.into_.emplace(std::move(from));
        if (mutant::kValueMovedUnlocked) lock.lock();
        receiver.fate_.write(Fate::done);
        if (once_) [[unlikely]] closed_.write(true);
        return Sent::sent;
      }
    if (has_room()) {  // admitted by this slot: buffered
      push(from);
      if (once_) [[unlikely]] closed_.write(true);
      return Sent::sent;
    }
    return Sent::full;
  }
  [[gnu::always_inline]] Sent offer_or_unlock(Cell& from, Fiber*& woken, ObjectLockHere& lock) {
    try {
      return offer(from, woken, lock);
    } catch (...) {
      lock.unlock();
      throw;
    }
  }
  // It was full. Releases the lock.
  [[gnu::noinline]] Sent overflow(Cell& from, ObjectLockHere lock) noexcept {
    std::optional<Cell> dropped;
    if (overflow_ == Overflow::drop_old) {
      pop(dropped);
      push(from);  // admitted by the slot that this made free
    }
    lock.unlock();
    if (dropped) dispose(*dropped);
    return dropped ? Sent::sent : Sent::full;
  }
  [[gnu::always_inline]] void finish(Sent sent, Fiber* woken) noexcept {
    resume_one(woken);
    if (once_ && sent == Sent::sent) [[unlikely]] close_behind();
  }

  // S0 §5.2, likewise.
  [[gnu::always_inline]] Got take(std::optional<Cell>& into, Fiber*& woken) noexcept {
    if (ended_.read()) [[unlikely]] return Got::ended;
    const bool buffered = size_.read() != 0;
    if (buffered) pop(into);
    if (buffered && mutant::kTakeForgetsSender) return Got::value;
    if (!senders_.empty())
      if (Waitable* const waiting = senders_.claim_first(woken)) {
        auto& sender = static_cast<Send&>(*waiting);  // it was admitted when it parked
        if (!buffered) into.emplace(std::move(sender.from_));
        else if (!mutant::kRefillLeftBehind) push(sender.from_);
        sender.fate_.write(Fate::done);
        return Got::value;
      }
    if (buffered) return Got::value;
    return closed_.read() ? Got::ended : Got::empty;
  }

  // Nobody is left to receive them. Called without the lock, by the last to know them.
  void discard() noexcept {
    std::optional<Cell> cell;
    while (size_.read() != 0) {
      pop(cell);
      dispose(*cell);
      cell.reset();
    }
  }

  const std::shared_ptr<void> context_;  // of the disposer
  const Disposer dispose_;
};

// A send that waits. `from` is moved from when its fate is `done`, and not otherwise.
template <class Cell>
class ChannelState<Cell>::Send : public ChannelOp {
 public:
  Send(ChannelState* state, Cell& from) noexcept
      : ChannelOp(state, &ChannelCore::senders_), from_(from) {}

  [[nodiscard]] bool looks_ready() const noexcept { return state() && state()->may_send(); }
  bool try_complete() override {
    if (!state()) return false;
    switch (state()->send_now(from_)) {
      case Sent::sent: this->fate_.write(Fate::done); return true;
      case Sent::closed: this->fate_.write(Fate::closed); return true;
      case Sent::full: break;
    }
    if (state()->overflow_ == Overflow::block) return false;
    this->fate_.write(Fate::full);
    return true;
  }
  bool publish() noexcept override {
    if (!state()) return true;
    ChannelState& channel = *state();
    const Locked locked{channel.lock_};
    const bool can_complete =
        (channel.closed_.read() && !mutant::kPublishIgnoresClosed) ||
        channel.size_.read() < channel.slots_ || channel.capacity_ == kUnbounded ||
        (channel.receivers_.holds_another_than(this->fiber()) && !mutant::kPublishIgnoresPeer);
    if (mutant::kSelectMeetsItself && !can_complete && !channel.receivers_.empty()) {
      Fiber* woken = nullptr;
      ObjectLockHere lock{channel.lock_};
      static_cast<void>(channel.offer(from_, woken, lock));
      return true;
    }
    // Admitted by being in the list of an open channel: parked.
    if (!can_complete) channel.senders_.link(*this);
    return !can_complete;
  }
  [[nodiscard]] WaitReason reason() const noexcept override {
    return this->reason_of("channel send", Peers::receivers);
  }

 private:
  friend class ChannelState;
  [[nodiscard]] ChannelState* state() const noexcept {
    return static_cast<ChannelState*>(this->core_);
  }
  Cell& from_;
};

// A receive that waits. `into` has a value when its fate is `done`.
template <class Cell>
class ChannelState<Cell>::Recv : public ChannelOp {
 public:
  Recv(ChannelState* state, std::optional<Cell>& into) noexcept
      : ChannelOp(state, &ChannelCore::receivers_), into_(into) {}

  [[nodiscard]] bool looks_ready() const noexcept { return state() && state()->may_recv(); }
  bool try_complete() override {
    if (!state()) return false;
    switch (state()->recv_now(into_)) {
      case Got::value: this->fate_.write(Fate::done); return true;
      case Got::ended: this->fate_.write(Fate::closed); return true;
      case Got::empty: return false;
    }
    return false;
  }
  bool publish() noexcept override {
    if (!state()) return true;
    ChannelState& channel = *state();
    const Locked locked{channel.lock_};
    const bool can_complete =
        (channel.closed_.read() && !mutant::kPublishIgnoresClosed) || channel.size_.read() != 0 ||
        (channel.senders_.holds_another_than(this->fiber()) && !mutant::kPublishIgnoresPeer);
    if (!can_complete) channel.receivers_.link(*this);
    return !can_complete;
  }
  [[nodiscard]] WaitReason reason() const noexcept override {
    return this->reason_of("channel recv", Peers::senders);
  }

 private:
  friend class ChannelState;
  [[nodiscard]] ChannelState* state() const noexcept {
    return static_cast<ChannelState*>(this->core_);
  }
  std::optional<Cell>& into_;
};

}  // namespace detail
}  // namespace weft
