// Operations on a channel as arms of a select, and what carries a value.
#pragma once

#include <weft/sync/channel_core.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace weft {

namespace detail {

// A type whose move may throw travels in a box: what happens under the channel's lock cannot fail.
template <class T>
struct Boxed {
  std::unique_ptr<T> box;
};
template <class T>
using CellOf = std::conditional_t<std::is_nothrow_move_constructible_v<T>, T, Boxed<T>>;
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

[[noreturn, gnu::cold]] void throw_no_channel();
[[noreturn, gnu::cold]] void throw_bad_options(const char* why);

template <class T>
class Shared;  // how the ends come to their state

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
  // With another value.
  void renew(T value) {
    Base::renew();
    cell_ = into_cell(std::move(value));
  }

 private:
  static Cell into_cell(T&& value) {
    if constexpr (detail::kBoxed<T>) return {std::make_unique<T>(std::move(value))};
    else return std::move(value);
  }
  Cell cell_;
};

}  // namespace weft
