// Operations on a channel as arms of a select, what carries a value, and how a channel is made.
#pragma once

#include <weft/sync/channel_core.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>

namespace weft {

template <class T>
struct ChannelOptions;
template <class T>
class Sender;
template <class T>
class Receiver;

namespace detail {

// A type whose move may throw travels in a box: what happens under the channel's lock cannot fail.
template <class T>
struct Boxed {
  std::unique_ptr<T> box;
};
template <class T>
using CellOf = std::conditional_t<std::is_nothrow_move_constructible_v<T>, T, Boxed<T>>;
template <class T>
using StateOf = ChannelState<CellOf<T>>;
template <class T>
inline constexpr bool kBoxed = !std::is_same_v<CellOf<T>, T>;

template <class T>
T take_out(CellOf<T>& cell) {
  if constexpr (kBoxed<T>) return std::move(*cell.box);  // if this throws, it counts as received
  else return std::move(cell);
}

template <class T>
std::optional<T> unboxed(std::optional<Boxed<T>>& cell) {
  if (!cell) return std::nullopt;
  return std::optional<T>{std::move(*cell->box)};
}

// Completes when nobody is left on the other side: no sender or a closed channel, or no receiver.
class PeerGone : public ChannelOp {
 public:
  enum class Side : bool { senders, receivers };
  PeerGone(ChannelCore* core, Side side) noexcept
      : ChannelOp(core, side == Side::senders ? &ChannelCore::watch_senders_
                                              : &ChannelCore::watch_receivers_),
        side_(side) {}
  bool try_complete() override;
  bool publish() noexcept override;
  [[nodiscard]] WaitReason reason() const noexcept override;

 private:
  [[nodiscard]] bool gone_locked() const noexcept;
  const Side side_;
};

[[noreturn, gnu::cold]] void throw_no_channel();
[[noreturn, gnu::cold]] void throw_bad_options(const char* why);

// How send_all() passes on the elements of what it was given as R&&.
template <class R>
using ElementOf = std::conditional_t<std::is_lvalue_reference_v<R> ||
                                         std::ranges::borrowed_range<R> ||
                                         std::ranges::enable_view<R>,
                                     std::ranges::range_reference_t<R>&&,
                                     std::ranges::range_rvalue_reference_t<R>&&>;

}  // namespace detail

// A receive as an arm. The receiver must outlive it. When it has won, value() is what came, or
// empty at the end.
template <class T>
class RecvArm : public detail::ChannelState<detail::CellOf<T>>::Recv {
  using Cell = detail::CellOf<T>;
  using Base = typename detail::ChannelState<Cell>::Recv;

 public:
  explicit RecvArm(detail::ChannelState<Cell>* state) noexcept : Base(state, cell_) {}

  // Throws the error that the channel was closed with, if it has ended with one.
  [[nodiscard]] std::optional<T>& value() {
    if (this->fate() == detail::Fate::closed) [[unlikely]] this->core_->throw_error();
    if constexpr (detail::kBoxed<T>) {
      if (cell_) {
        result_.emplace(detail::take_out<T>(*cell_));
        cell_.reset();
      }
      return result_;
    } else {
      return cell_;
    }
  }

  template <class Handler>
  void hand_to(Handler& handler) {
    handler(std::move(value()));
  }
  // To be waited for again.
  void renew() noexcept {
    Base::renew();
    cell_.reset();
    if constexpr (detail::kBoxed<T>) result_.reset();
  }

 private:
  struct Nothing {};
  std::optional<Cell> cell_;
  [[no_unique_address]] std::conditional_t<detail::kBoxed<T>, std::optional<T>, Nothing> result_;
};

// A send as an arm; it owns the value, until it has won. The sender must outlive it.
template <class T>
class SendArm : public detail::ChannelState<detail::CellOf<T>>::Send {
  using Cell = detail::CellOf<T>;
  using Base = typename detail::ChannelState<Cell>::Send;

 public:
  SendArm(detail::ChannelState<Cell>* state, T value)
      : Base(state, cell_), cell_(into_cell(std::move(value))) {}

  // When it has won: whether the value was admitted. If not, it is still here.
  [[nodiscard]] bool sent() const noexcept { return this->fate() == detail::Fate::done; }
  // The value, if it was not admitted.
  [[nodiscard]] T& value() noexcept {
    if constexpr (detail::kBoxed<T>) return *cell_.box;
    else return cell_;
  }

  template <class Handler>
  void hand_to(Handler& handler) {
    handler(sent());
  }
  // To be waited for again, with another value. If that throws, nothing has changed.
  void renew(T value) {
    Cell next = into_cell(std::move(value));
    std::destroy_at(std::addressof(cell_));  // what is sent need not be assignable
    std::construct_at(std::addressof(cell_), std::move(next));
    Base::renew();
  }
  // With the value that was not admitted.
  void renew() noexcept { Base::renew(); }

 private:
  static Cell into_cell(T&& value) {
    if constexpr (detail::kBoxed<T>) return {std::make_unique<T>(std::move(value))};
    else return std::move(value);
  }
  Cell cell_;
};

// A receive with a handler, as an arm. The receiver must outlive it.
template <class T, class Handler>
class RecvCase {
  using State = detail::StateOf<T>;

 public:
  RecvCase(State* state, Handler handler) : state_(state), handler_(std::move(handler)) {}
  RecvCase(const RecvCase&) = delete;
  RecvCase& operator=(const RecvCase&) = delete;

  [[nodiscard]] bool looks_ready() const noexcept { return state_ && state_->may_recv(); }
  [[gnu::always_inline]] bool try_now() {
    if (!state_) return false;
    std::optional<detail::CellOf<T>> cell;
    const detail::Got got = state_->recv_now(cell);
    if (got == detail::Got::empty) return false;
    handler_(got == detail::Got::value ? std::optional<T>{detail::take_out<T>(*cell)} : end());
    return true;
  }
  [[nodiscard]] RecvArm<T> operation() const noexcept { return RecvArm<T>{state_}; }
  void won(RecvArm<T>& operation) { handler_(taken_from(operation)); }
  // To be waited for again: nothing of the last time is left in it.
  void renew() noexcept {}

 private:
  // Not inlined: where g++ sees the empty value, it warns of handlers that know theirs is not.
  [[gnu::noinline]] static std::optional<T> taken_from(RecvArm<T>& operation) {
    return std::move(operation.value());
  }
  [[gnu::noinline, gnu::cold]] std::optional<T> end() const {
    state_->throw_error();
    return std::nullopt;
  }

  State* state_;
  Handler handler_;
};

namespace detail {

// How the ends come to their state.
template <class T>
class Shared {
 public:
  using State = StateOf<T>;

  // Throws std::invalid_argument for options that contradict each other.
  static State* make(ChannelOptions<T> options, bool once = false) {
    const bool unbounded = options.capacity == SIZE_MAX;
    if (!unbounded && options.capacity >= ChannelCore::kUnbounded)
      throw_bad_options("a capacity of 4,294,967,295 or more; unbounded<T>() makes an endless one");
    if (options.capacity == 0 && options.overflow == Overflow::drop_old)
      throw_bad_options("drop_old needs a capacity: a rendezvous has no oldest value");
    std::shared_ptr<void> context;
    typename State::Disposer dispose = nullptr;
    if (options.on_undelivered) {
      context = std::make_shared<std::function<void(T&&)>>(std::move(options.on_undelivered));
      dispose = [](void* f, CellOf<T>& cell) noexcept {
        auto& on_undelivered = *static_cast<std::function<void(T&&)>*>(f);
        if constexpr (kBoxed<T>) on_undelivered(std::move(*cell.box));
        else on_undelivered(std::move(cell));
      };
    }
    return new State{{.capacity = unbounded ? ChannelCore::kUnbounded
                                            : static_cast<std::uint32_t>(options.capacity),
                      .overflow = options.overflow,
                      .once = once,
                      .name = std::move(options.name)},
                     std::move(context), dispose};
  }
  static Sender<T> sender(State* state) noexcept { return Sender<T>{state}; }
  static Receiver<T> receiver(State* state) noexcept { return Receiver<T>{state}; }
};

}  // namespace detail

}  // namespace weft
