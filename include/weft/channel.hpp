// Channels: values flow from senders to receivers, and nothing is lost.
//
//   weft::Channel<int> ch;                        // a rendezvous: a send waits for its receive
//   n.spawn([tx = std::move(ch.tx)] { for (int i = 0; i < 3; ++i) if (!tx.send(i)) return; });
//   for (int v : ch.rx) use(v);                   // ends when the last sender is gone
//
// Move the end that you give away: a copy left behind keeps the channel open. Ends are handles,
// like pointers: a const one can send. Every value that was admitted is received once or, if the
// channel is aborted, overflows or loses its last receiver, given to on_undelivered once; whatever
// closes, time-outs, selects and cancellations race. docs/channels.md has the table of who sees
// what.
//
// All waiting forms are cancel points: in a cancelled scope they throw Cancelled, even if they
// could complete, and nothing has moved. `try_` forms never wait and never look at the scope.
// Usable from fibers of any engine and from plain threads.
#pragma once

#include <weft/sync/channel_arms.hpp>
#include <weft/sync/channel_core.hpp>
#include <weft/sync/pass.hpp>
#include <weft/time.hpp>

#include <algorithm>
#include <concepts>
#include <functional>
#include <iterator>
#include <ranges>
#include <stdexcept>
#include <type_traits>

namespace weft {

namespace stream_detail {
template <class T>
class Inlet;
}

// full: the buffer is, and the operation was not to wait. Unless `ok`, the caller keeps the value.
enum class [[nodiscard]] SendStatus : std::uint8_t { ok, full, timed_out, closed, cancelled };
std::string_view to_string(SendStatus status) noexcept;

enum class RecvStatus : std::uint8_t { value, empty, timed_out, closed, cancelled };
std::string_view to_string(RecvStatus status) noexcept;

// A value, or why there is none.
template <class T>
class [[nodiscard]] Received {
 public:
  Received(RecvStatus status) noexcept : status_(status) {}
  explicit Received(T value) : value_(std::move(value)), status_(RecvStatus::value) {}

  [[nodiscard]] RecvStatus status() const noexcept { return status_; }
  explicit operator bool() const noexcept { return value_.has_value(); }
  // There must be one.
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return std::addressof(*value_); }
  const T* operator->() const noexcept { return std::addressof(*value_); }
  // Throws std::bad_optional_access if there is none.
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }

 private:
  std::optional<T> value_;
  RecvStatus status_;
};

template <class T>
struct ChannelOptions {
  std::size_t capacity = 0;
  Overflow overflow = Overflow::block;
  Name name{};
  // Gets what was admitted and will not be received. Runs in the fiber or thread that dropped,
  // aborted or overflowed, under drop_old in several at once; must not throw, and should not wait.
  // It may use the channel.
  std::function<void(T&&)> on_undelivered{};
};

// One of possibly many sending ends. The last one's end closes the channel.
template <class T>
class Sender {
 public:
  Sender() = default;  // of no channel; a disabled arm
  Sender(const Sender& other) noexcept : state_(other.state_) {
    if (state_) state_->add_sender();
  }
  Sender(Sender&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Sender& operator=(Sender other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Sender() { drop(); }

  // Gives up this end. The last one's drop closes.
  void drop() noexcept {
    if (detail::ChannelCore* const state = std::exchange(state_, nullptr)) state->drop_sender();
  }
  explicit operator bool() const noexcept { return state_ != nullptr; }

  // Sends; true: admitted. False: the channel is closed or nobody receives any more (or it is full
  // and drops what is new), and `value` is untouched. Parks while the buffer is full; a rendezvous,
  // until it is received. Cancel point.
  [[nodiscard, gnu::always_inline]] bool send(T&& value) const {
    if constexpr (detail::kBoxed<T>) {
      return boxed(value, [](auto& s, auto& c) { return s.send(c); });
    } else {
      return state().send(value);
    }
  }
  [[nodiscard, gnu::always_inline]] bool send(const T& value) const {
    auto copy = copied(value);
    return state().send(copy);
  }

  // Without waiting: ok, full or closed.
  SendStatus try_send(T&& value) const {
    preemption_point();
    return giving(value, [](auto& s, auto& c) { return status_of(s.send_now(c)); });
  }
  SendStatus try_send(const T& value) const {
    preemption_point();
    auto copy = copied(value);
    return status_of(state().send_now(copy));
  }

  // At most for so long; tries once even if the time is over. ok, timed_out, closed, or full.
  // Cancel point.
  template <class Rep, class Period>
  SendStatus send_for(T&& value, std::chrono::duration<Rep, Period> d) const {
    return giving(value, [d](auto& s, auto& c) { return send_until(s, c, after(d)); });
  }
  template <class Rep, class Period>
  SendStatus send_for(const T& value, std::chrono::duration<Rep, Period> d) const {
    auto copy = copied(value);
    return send_until(state(), copy, after(d));
  }

  // `cancelled` instead of an exception.
  SendStatus send(T&& value, no_throw_t) const {
    return giving(value, [](auto& s, auto& c) { return send_quietly(s, c); });
  }
  SendStatus send(const T& value, no_throw_t) const {
    auto copy = copied(value);
    return send_quietly(state(), copy);
  }

  // One after the other, until the channel is closed: how many were sent. The elements of an
  // rvalue range are moved, unless it is a view: those belong to somebody else. What was not sent
  // stays where it is. Cancel point.
  template <std::ranges::input_range R>
    requires std::constructible_from<T, detail::ElementOf<R>>
  std::size_t send_all(R&& range) const {
    std::size_t count = 0;
    for (auto&& element : range) {
      if (!send_element(static_cast<detail::ElementOf<R>>(element))) break;
      ++count;
    }
    return count;
  }

  // No more sends are admitted, by anybody; what was admitted is still delivered. True: it was this
  // call. With an error: receivers drain, then throw it.
  bool close() const { return state().close(nullptr); }
  bool close(std::exception_ptr error) const { return state().close(std::move(error)); }
  // At once: what is not delivered goes to on_undelivered, receives throw `error` (or see the end
  // if it is null), sends return false. True: it was this call.
  bool abort(std::exception_ptr error = nullptr) const {
    return state().abort(std::move(error));
  }

  [[nodiscard]] std::size_t size() const { return state().size(); }  // in the buffer
  [[nodiscard]] std::size_t capacity() const { return state().capacity(); }
  [[nodiscard]] bool closed() const { return state().closed(); }  // or nobody receives
  [[nodiscard]] std::exception_ptr error() const { return state().error(); }

  // Arms for select. Of no channel: never ready.
  [[nodiscard]] SendArm<T> on_send(T value) const { return SendArm<T>{typed(), std::move(value)}; }
  template <std::invocable<bool> Handler>
  [[nodiscard]] Handled<SendArm<T>, Handler> on_send(T value, Handler handler) const {
    return Handled<SendArm<T>, Handler>{std::move(handler), typed(), std::move(value)};
  }
  // Completes when no receiver is left.
  [[nodiscard]] detail::PeerGone on_peer_gone() const noexcept {
    return detail::PeerGone{state_, detail::PeerGone::Side::receivers};
  }
  template <std::invocable Handler>
  [[nodiscard]] Handled<detail::PeerGone, Handler> on_peer_gone(Handler handler) const {
    return Handled<detail::PeerGone, Handler>{std::move(handler), state_,
                                              detail::PeerGone::Side::receivers};
  }

  // Of the same channel.
  friend bool operator==(const Sender&, const Sender&) = default;

 private:
  friend class detail::Shared<T>;
  explicit Sender(detail::ChannelCore* state) noexcept : state_(state) {}

  [[nodiscard]] auto* typed() const noexcept { return static_cast<detail::StateOf<T>*>(state_); }
  [[nodiscard]] auto& state() const {
    if (!state_) [[unlikely]] detail::throw_no_channel();
    return *typed();
  }

  template <class Element>
  [[nodiscard]] bool send_element(Element&& element) const {
    if constexpr (std::is_same_v<std::remove_cvref_t<Element>, T>)
      return send(std::forward<Element>(element));
    else return send(T(std::forward<Element>(element)));
  }
  static auto copied(const T& value) {
    if constexpr (detail::kBoxed<T>) return detail::Boxed<T>{std::make_unique<T>(value)};
    else return T(value);
  }
  // Lends `value` as a cell; it is the caller's again unless it was sent.
  template <class F>
  auto giving(T& value, F send) const {
    if constexpr (detail::kBoxed<T>) return boxed(value, send);
    else return send(state(), value);
  }
  template <class F>
  auto boxed(T& value, F send) const {
    auto& channel = state();
    // As std::move_if_noexcept has it: what can be copied stays whole whatever happens.
    detail::Boxed<T> cell{std::make_unique<T>(std::move_if_noexcept(value))};
    if constexpr (std::is_copy_constructible_v<T>) {
      return send(channel, cell);
    } else {
      try {
        const auto result = send(channel, cell);
        give_back(cell, value);
        return result;
      } catch (...) {  // cancelled, or out of memory
        give_back(cell, value);
        throw;
      }
    }
  }
  // The value of a box that was not sent, to where it came from.
  static void give_back(detail::Boxed<T>& cell, T& value) {
    static_assert(std::is_move_assignable_v<T>,
                  "what cannot be copied, and may throw when moved, must be assignable");
    if (const std::unique_ptr<T> box = std::move(cell.box)) value = std::move(*box);
  }

  static SendStatus status_of(detail::Sent sent) noexcept {
    switch (sent) {
      case detail::Sent::sent: return SendStatus::ok;
      case detail::Sent::closed: return SendStatus::closed;
      case detail::Sent::full: break;
    }
    return SendStatus::full;
  }
  static SendStatus status_of(detail::Fate fate) noexcept {
    switch (fate) {
      case detail::Fate::done: return SendStatus::ok;
      case detail::Fate::full: return SendStatus::full;
      default: return SendStatus::closed;
    }
  }
  template <class Cell>
  static SendStatus send_quietly(detail::ChannelState<Cell>& channel, Cell& cell) {
    typename detail::ChannelState<Cell>::Send operation{&channel, cell};
    return wait(operation, no_throw) ? status_of(operation.fate()) : SendStatus::cancelled;
  }
  template <class Cell>
  static SendStatus send_until(detail::ChannelState<Cell>& channel, Cell& cell, Alarm&& alarm) {
    typename detail::ChannelState<Cell>::Send operation{&channel, cell};
    Waitable* const arms[] = {&operation, &alarm};
    return wait(arms) == 0 ? status_of(operation.fate()) : SendStatus::timed_out;
  }

  detail::ChannelCore* state_ = nullptr;  // a detail::StateOf<T>; T may be incomplete here
};

// One of possibly many receiving ends: each value goes to one of them. The last one's end hangs up.
template <class T>
class Receiver {
 public:
  using iterator = detail::Pass<Receiver, T>;
  using value_type = T;

  Receiver() = default;
  Receiver(const Receiver& other) noexcept : state_(other.state_) {
    if (state_) state_->add_receiver();
  }
  Receiver(Receiver&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Receiver& operator=(Receiver other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Receiver() { drop(); }

  // Gives up this end. The last one's drop hangs up: what was admitted and not received goes to
  // on_undelivered, sends return false.
  void drop() noexcept {
    if (detail::ChannelCore* const state = std::exchange(state_, nullptr)) state->drop_receiver();
  }
  explicit operator bool() const noexcept { return state_ != nullptr; }

  // The next value; empty: the channel is closed and drained. Throws the error it was closed with
  // instead, as do all forms below. Parks while there is none. Cancel point.
  [[nodiscard, gnu::always_inline]] std::optional<T> recv() const {
    std::optional<detail::CellOf<T>> value;
    if (!state().recv(value)) [[unlikely]] state_->throw_error();
    // Part by part: a copy of the whole would read it before its parts have left the store buffer.
    if (!value) return std::nullopt;
    return std::optional<T>{detail::take_out<T>(*value)};
  }

  // Without waiting: value, empty or closed.
  Received<T> try_recv() const {
    preemption_point();
    std::optional<detail::CellOf<T>> cell;
    switch (state().recv_now(cell)) {
      case detail::Got::value: return received(cell);
      case detail::Got::ended: return ended();
      case detail::Got::empty: break;
    }
    return RecvStatus::empty;
  }
  // At most for so long; tries once even if the time is over. value, timed_out or closed. Cancel
  // point.
  template <class Rep, class Period>
  Received<T> recv_for(std::chrono::duration<Rep, Period> d) const {
    std::optional<detail::CellOf<T>> cell;
    typename detail::StateOf<T>::Recv operation{&state(), cell};
    Alarm alarm = after(d);
    Waitable* const arms[] = {&operation, &alarm};
    return wait(arms) == 0 ? outcome(operation, cell) : Received<T>{RecvStatus::timed_out};
  }
  // `cancelled` instead of an exception.
  Received<T> recv(no_throw_t) const {
    std::optional<detail::CellOf<T>> cell;
    typename detail::StateOf<T>::Recv operation{&state(), cell};
    return wait(operation, no_throw) ? outcome(operation, cell)
                                     : Received<T>{RecvStatus::cancelled};
  }

  // Waits for one value, and takes with it what else is there, `max` at most: how many were written
  // to `out`. 0: the end. Cancel point.
  template <std::output_iterator<T> Out>
  std::size_t recv_many(Out out, std::size_t max) const {
    if (max == 0) return 0;
    std::optional<T> first = recv();
    if (!first) return 0;
    *out++ = *std::move(first);
    std::size_t count = 1;
    for (; count < max; ++count) {
      std::optional<detail::CellOf<T>> cell;
      state().recv_now(cell);
      if (!cell) break;
      *out++ = detail::take_out<T>(*cell);
    }
    return count;
  }

  // Channel-wide, like the sender's.
  bool close() const { return state().close(nullptr); }
  bool close(std::exception_ptr error) const { return state().close(std::move(error)); }
  bool abort(std::exception_ptr error = nullptr) const {
    return state().abort(std::move(error));
  }

  [[nodiscard]] std::size_t size() const { return state().size(); }
  [[nodiscard]] std::size_t capacity() const { return state().capacity(); }
  [[nodiscard]] bool closed() const { return state().closed(); }
  [[nodiscard]] std::exception_ptr error() const { return state().error(); }

  // Arms for select. Of no channel: never ready.
  [[nodiscard]] RecvArm<T> on_recv() const noexcept { return RecvArm<T>{typed()}; }
  template <std::invocable<std::optional<T>> Handler>
  [[nodiscard]] RecvCase<T, Handler> on_recv(Handler handler) const {
    return RecvCase<T, Handler>{typed(), std::move(handler)};
  }
  // Completes when no sender is left, or the channel is closed.
  [[nodiscard]] detail::PeerGone on_peer_gone() const noexcept {
    return detail::PeerGone{state_, detail::PeerGone::Side::senders};
  }
  template <std::invocable Handler>
  [[nodiscard]] Handled<detail::PeerGone, Handler> on_peer_gone(Handler handler) const {
    return Handled<detail::PeerGone, Handler>{std::move(handler), state_,
                                              detail::PeerGone::Side::senders};
  }

  // A single pass over what comes, until the end. begin() waits for the first value.
  [[nodiscard]] iterator begin() const { return iterator{*this}; }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  friend bool operator==(const Receiver&, const Receiver&) = default;

 private:
  friend class detail::Shared<T>;
  explicit Receiver(detail::ChannelCore* state) noexcept : state_(state) {}

  [[nodiscard]] auto* typed() const noexcept { return static_cast<detail::StateOf<T>*>(state_); }
  [[nodiscard]] auto& state() const {
    if (!state_) [[unlikely]] detail::throw_no_channel();
    return *typed();
  }
  template <class>
  friend class stream_detail::Inlet;
  using Slot = std::optional<detail::CellOf<T>>;
  // A value if there is one now, and nothing said about the end.
  [[gnu::always_inline]] void poll(Slot& into) const { state().recv_now(into); }
  // A receive as an arm; and when it has won, whether it was a value, or the end.
  [[nodiscard]] typename detail::StateOf<T>::Recv on_recv_into(Slot& into) const {
    return {&state(), into};
  }
  [[nodiscard]] bool has_come(const detail::ChannelOp& operation) const {
    if (operation.fate() != detail::Fate::done) state_->throw_error();
    return operation.fate() == detail::Fate::done;
  }
  template <class Cell>
  static Received<T> received(std::optional<Cell>& cell) {
    return Received<T>{detail::take_out<T>(*cell)};
  }
  Received<T> ended() const {
    state_->throw_error();
    return RecvStatus::closed;
  }
  template <class Cell>
  Received<T> outcome(const detail::ChannelOp& operation, std::optional<Cell>& cell) const {
    return operation.fate() == detail::Fate::done ? received(cell) : ended();
  }

  detail::ChannelCore* state_ = nullptr;  // a detail::StateOf<T>; T may be incomplete here
};

// Both ends of a new channel.
template <class T>
class Channel {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>, "a channel carries objects, by value");
  static_assert(std::is_move_constructible_v<T>, "what is sent must be movable");

 public:
  // A rendezvous.
  Channel() : Channel(ChannelOptions<T>{}) {}
  // With a buffer of so many values.
  explicit Channel(std::size_t capacity) : Channel(ChannelOptions<T>{.capacity = capacity}) {}
  explicit Channel(ChannelOptions<T> options) : Channel(Shared::make(std::move(options))) {}

  Sender<T> tx;
  Receiver<T> rx;

 private:
  using Shared = detail::Shared<T>;
  template <class U>
  friend Channel<U> unbounded(Name name);
  template <class U>
  friend Channel<U> oneshot(Name name);
  explicit Channel(typename Shared::State* state) noexcept
      : tx(Shared::sender(state)), rx(Shared::receiver(state)) {}
};

// A channel whose sends never wait: its buffer grows. A send throws std::bad_alloc when it cannot.
template <class T>
[[nodiscard]] Channel<T> unbounded(Name name = {}) {
  return Channel<T>{ChannelOptions<T>{.capacity = SIZE_MAX, .name = std::move(name)}};
}

// A channel for one value: it is closed behind the first. The send does not wait.
template <class T>
[[nodiscard]] Channel<T> oneshot(Name name = {}) {
  return Channel<T>{detail::Shared<T>::make({.capacity = 1, .name = std::move(name)}, true)};
}

}  // namespace weft
