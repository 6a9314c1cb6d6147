// Pool: a few expensive things, lent to many.
//
//   weft::Pool<Connection> pool{{.capacity = 8,
//                                .on_create = [&] { return connect(address); },
//                                .on_reset = [](Connection& c) { c.rollback(); },
//                                .healthy = [](Connection& c) { return c.is_open(); }}};
//   auto connection = pool.acquire();                   // goes back when this is destroyed
//   connection->query("…");
//
// Invariant: a resource is alive only while somebody has its place, or the place lies in the
//            channel and the resource in the idle stack: never more alive than there are places.
// Race:      a place is handed to a waiter that is cancelled, times out or loses a select. That is
//            the channel's: either the waiter has it, and it is given back by a destructor, or the
//            next one gets it.
// Rejected:  a channel of resources, as S1 has it (first in, first out: each would be created once
//            before any is used again, and none would ever be idle for long); a semaphore (an arm
//            that won does not know it, and would keep the permit if nobody asks it).
#pragma once

#include <weft/cancel.hpp>
#include <weft/channel.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace weft {

// Thrown by every form of acquire() once the pool is closed.
class PoolClosed : public std::runtime_error {
 public:
  PoolClosed() : std::runtime_error("weft: acquire() from a pool that is closed") {}
};

// The functions run in the fiber or thread that acquires or gives back, several at a time, and may
// wait; no lock is held. They must not outlive what they refer to: the last lease may call them
// after the pool is gone.
template <class T>
struct PoolOptions {
  // How many may be alive at a time; at least one.
  std::size_t capacity = 0;
  // Makes one, when somebody acquires and none is idle. What it throws leaves acquire(), and the
  // place is free again. Empty: T{}.
  std::function<T()> on_create{};
  // Prepares one that is given back for its next user. If it throws, the resource is destroyed
  // instead, and nobody is told.
  std::function<void(T&)> on_reset{};
  // Called once for each resource, before its destructor. What it throws is dropped.
  std::function<void(T&)> on_destroy{};
  // Asked when an idle one is about to be lent. False, or an exception: it is destroyed; after
  // false another takes its place, and an exception leaves acquire().
  std::function<bool(T&)> healthy{};
  Name name{};
};

template <class T>
class Pool;
template <class T>
class Lease;

namespace detail {

class PoolPlaces;

// The right to have one resource alive. Goes back by itself.
class PoolPlace {
 public:
  explicit PoolPlace(PoolPlaces* of) noexcept : of_(of) {}
  PoolPlace(PoolPlace&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  PoolPlace& operator=(PoolPlace&&) = delete;
  ~PoolPlace();
  // Somebody else answers for it from now on.
  void forget() noexcept { of_ = nullptr; }

 private:
  PoolPlaces* of_;
};

// The places that are free, and who waits for one.
class PoolPlaces {
 public:
  PoolPlaces(std::size_t capacity, Name name)
      : channel(Shared<PoolPlace>::make({.capacity = capacity, .name = std::move(name)})),
        tx(Shared<PoolPlace>::sender(channel)),
        rx(Shared<PoolPlace>::receiver(channel)) {
    for (std::size_t i = 0; i < capacity; ++i) put();
  }

  void put() noexcept {
    PoolPlace place{this};
    if (tx.try_send(std::move(place)) != SendStatus::ok) place.forget();  // closed
  }

  StateOf<PoolPlace>* const channel;
  const Sender<PoolPlace> tx;
  const Receiver<PoolPlace> rx;
};

inline PoolPlace::~PoolPlace() {
  if (of_) of_->put();
}

// What the pool and its leases share.
template <class T>
class PoolState {
 public:
  struct Held {
    T value;
    Held* below;
  };

  explicit PoolState(PoolOptions<T> options)
      : options_(checked(std::move(options))),
        places_(options_.capacity, std::move(options_.name)) {}
  PoolState(const PoolState&) = delete;
  PoolState& operator=(const PoolState&) = delete;

  [[nodiscard]] PoolPlaces& places() noexcept { return places_; }

  // A resource for who has a place. If it throws, the place is free.
  Held* lend(PoolPlace place) {
    while (Held* const idle = pop()) {
      if (is_healthy(idle)) {
        place.forget();
        return idle;
      }
      destroy(idle);
    }
    Held* const made = new Held{create(), nullptr};
    count_made();
    place.forget();
    return made;
  }
  void take_back(Held* held) noexcept {
    // Its destructor comes last: whoever gets the place finds the resource idle, or gone.
    const PoolPlace place{&places_};
    const auto reset = [&] { options_.on_reset(held->value); };
    if (closed() || (options_.on_reset && !quietly(reset)) || !push(held)) destroy(held);
  }
  void discard(Held* held) noexcept {
    std::optional<PoolPlace> place{&places_};
    if (mutant::kPlaceBeforeResource) place.reset();
    destroy(held);
  }
  bool close() noexcept {
    Held* idle = nullptr;
    {
      const Locked locked{lock_};
      if (closed_.read()) return false;
      closed_.write(true);
      idle = idle_.read();
      idle_.write(nullptr);
      idle_count_.write(0);
    }
    places_.tx.abort(std::make_exception_ptr(PoolClosed{}));
    while (idle) destroy(std::exchange(idle, idle->below));
    return true;
  }

  struct Counts {
    std::size_t alive, idle;
  };
  [[nodiscard]] Counts counts() const noexcept {
    const Locked locked{lock_};
    return {alive_.read(), idle_count_.read()};
  }
  [[nodiscard]] bool closed() const noexcept {
    const Locked locked{lock_};
    return closed_.read();
  }

 private:
  static PoolOptions<T> checked(PoolOptions<T> options) {
    if (options.capacity == 0 || options.capacity >= ChannelCore::kUnbounded)
      throw std::invalid_argument{"weft::Pool: a capacity from 1 to 4,294,967,294"};
    if (!options.on_create && !std::is_default_constructible_v<T>)
      throw std::invalid_argument{"weft::Pool: on_create is needed to make what is lent"};
    return options;
  }
  T create() {
    if constexpr (std::is_default_constructible_v<T>)
      if (!options_.on_create) return T{};
    return options_.on_create();
  }
  bool is_healthy(Held* idle) {
    if (!options_.healthy) return true;
    try {
      return options_.healthy(idle->value);
    } catch (...) {
      destroy(idle);
      throw;
    }
  }
  // Cleanup runs to its end, in a cancelled scope too. False: it threw.
  template <class F>
  static bool quietly(const F& f) noexcept {
    try {
      if (Fiber::current().scope) shielded(f);
      else f();  // a thread
      return true;
    } catch (...) {
      return false;
    }
  }
  void destroy(Held* held) noexcept {
    if (options_.on_destroy) quietly([&] { options_.on_destroy(held->value); });
    delete held;
    const Locked locked{lock_};
    alive_.write(alive_.read() - 1);
  }
  void count_made() noexcept {
    const Locked locked{lock_};
    alive_.write(alive_.read() + 1);
  }
  Held* pop() {
    const Locked locked{lock_};
    if (closed_.read()) throw PoolClosed{};  // since we got the place
    Held* const top = idle_.read();
    if (!top) return nullptr;
    idle_.write(top->below);
    idle_count_.write(idle_count_.read() - 1);
    return top;
  }
  // False: closed.
  bool push(Held* held) noexcept {
    const Locked locked{lock_};
    if (closed_.read() && !mutant::kIdleAfterClose) return false;
    held->below = idle_.read();
    idle_.write(held);
    idle_count_.write(idle_count_.read() + 1);
    return true;
  }

  PoolOptions<T> options_;
  PoolPlaces places_;
  mutable Lock lock_;                 // protects all below
  Var<bool> closed_{false};
  Var<Held*> idle_{nullptr};          // the one used last on top: it is the warmest
  Var<std::size_t> idle_count_{0};
  Var<std::size_t> alive_{0};
};

}  // namespace detail

// A resource on loan. Moves; an empty one, as moves leave behind, holds none. To be given back by
// any fiber or thread, before or after the pool is gone.
template <class T>
class [[nodiscard]] Lease {
  using State = detail::PoolState<T>;

 public:
  Lease() = default;
  Lease(Lease&& other) noexcept
      : state_(std::move(other.state_)), held_(std::exchange(other.held_, nullptr)) {}
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      reset();
      state_ = std::move(other.state_);
      held_ = std::exchange(other.held_, nullptr);
    }
    return *this;
  }
  ~Lease() { reset(); }

  explicit operator bool() const noexcept { return held_ != nullptr; }
  // There must be one.
  T& operator*() const noexcept { return held_->value; }
  T* operator->() const noexcept { return std::addressof(held_->value); }
  [[nodiscard]] T* get() const noexcept { return held_ ? std::addressof(held_->value) : nullptr; }

  // Gives it back now: on_reset, and whoever has waited longest. Waits only if on_reset or
  // on_destroy does, and then to the end: not a cancel point.
  void reset() noexcept {
    if (!held_) return;
    const std::shared_ptr<State> state = std::move(state_);
    state->take_back(std::exchange(held_, nullptr));
  }
  // Destroys it instead, and frees its place: it is broken.
  void discard() noexcept {
    if (!held_) return;
    const std::shared_ptr<State> state = std::move(state_);
    state->discard(std::exchange(held_, nullptr));
  }

 private:
  friend class Pool<T>;
  template <class U>
  friend class AcquireArm;
  // Lends one to whoever has a place.
  Lease(std::shared_ptr<State> state, detail::PoolPlace place)
      : state_(std::move(state)), held_(state_->lend(std::move(place))) {}

  std::shared_ptr<State> state_;
  typename State::Held* held_ = nullptr;
};

// An acquire as an arm. The pool must outlive it. It completes when there is a place; the resource
// is found, or made, when value() is called or the handler is about to be.
template <class T>
class AcquireArm : public RecvArm<detail::PoolPlace> {
  using Base = RecvArm<detail::PoolPlace>;
  using State = detail::PoolState<T>;

 public:
  explicit AcquireArm(std::shared_ptr<State> state) noexcept
      : Base(state->places().channel), state_(std::move(state)) {}

  // When it has won: the lease. Throws PoolClosed, or what on_create or healthy threw, once. If
  // nobody calls this, the place is free again when the arm is destroyed.
  [[nodiscard]] Lease<T>& value() {
    if (std::optional<detail::PoolPlace>& place = Base::value()) {
      detail::PoolPlace own = std::move(*place);
      place.reset();
      lease_ = Lease<T>{state_, std::move(own)};
    }
    return lease_;
  }
  template <class Handler>
  void hand_to(Handler& handler) {
    handler(std::move(value()));
  }
  // To be waited for again.
  void renew() noexcept {
    Base::renew();
    lease_.reset();
  }

 private:
  const std::shared_ptr<State> state_;
  Lease<T> lease_;
};

// Usable from fibers of any engine and from plain threads. First come, first served: a place that
// is given back goes to whoever has waited longest. Resources are made when they are needed, and
// the one that was given back last is lent first. T need not be movable.
//
// Its destructor closes it. Leases may outlive it: each resource is destroyed when it comes back.
template <class T>
class Pool {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>, "a pool lends objects");
  using State = detail::PoolState<T>;

 public:
  // Throws std::invalid_argument: no capacity, or no on_create for a T without default constructor.
  explicit Pool(PoolOptions<T> options) : state_(std::make_shared<State>(std::move(options))) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { close(); }

  // Lends one that is idle and healthy, or makes one. Parks while all are lent. Throws PoolClosed,
  // or what on_create or healthy threw, as do all forms. Cancel point: if it throws, nothing was
  // taken.
  Lease<T> acquire() {
    std::shared_ptr<State> state = state_;
    std::optional<detail::PoolPlace> place = state->places().rx.recv();
    return Lease<T>{std::move(state), std::move(*place)};
  }
  // Without waiting for a place: empty if all are lent. Does not look at our scope; but on_create
  // and healthy may wait.
  [[nodiscard]] std::optional<Lease<T>> try_acquire() {
    std::shared_ptr<State> state = state_;
    Received<detail::PoolPlace> place = state->places().rx.try_recv();
    return lent(std::move(state), place);
  }
  // At most for so long, not counting on_create and healthy; tries once even if the time is over.
  // Empty: the time was over. Cancel point.
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Lease<T>> acquire_for(std::chrono::duration<Rep, Period> d) {
    std::shared_ptr<State> state = state_;
    Received<detail::PoolPlace> place = state->places().rx.recv_for(d);
    return lent(std::move(state), place);
  }
  // Empty: our scope was cancelled while we waited for a place.
  [[nodiscard]] std::optional<Lease<T>> acquire(no_throw_t) {
    std::shared_ptr<State> state = state_;
    Received<detail::PoolPlace> place = state->places().rx.recv(no_throw);
    return lent(std::move(state), place);
  }

  // As an arm of a select. The handler gets the Lease<T>; exceptions leave the select instead.
  [[nodiscard]] AcquireArm<T> on_acquire() { return AcquireArm<T>{state_}; }
  template <std::invocable<Lease<T>> Handler>
  [[nodiscard]] Handled<AcquireArm<T>, Handler> on_acquire(Handler handler) {
    return Handled<AcquireArm<T>, Handler>{std::move(handler), state_};
  }

  // Lends no more: whoever waits gets PoolClosed, idle resources are destroyed here, the others
  // when they come back. True: it was this call.
  bool close() noexcept {
    const std::shared_ptr<State> state = state_;
    return state->close();
  }
  [[nodiscard]] bool closed() const noexcept { return state_->closed(); }

  // At this moment. Resources alive: idle or in use; in use are also those that are being checked,
  // reset or destroyed.
  [[nodiscard]] std::size_t size() const noexcept { return state_->counts().alive; }
  [[nodiscard]] std::size_t idle() const noexcept { return state_->counts().idle; }
  [[nodiscard]] std::size_t in_use() const noexcept {
    const auto counts = state_->counts();
    return counts.alive - counts.idle;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return state_->places().rx.capacity(); }

 private:
  static std::optional<Lease<T>> lent(std::shared_ptr<State> state,
                                      Received<detail::PoolPlace>& place) {
    if (!place) return std::nullopt;
    return Lease<T>{std::move(state), std::move(*place)};
  }

  const std::shared_ptr<State> state_;
};

}  // namespace weft
