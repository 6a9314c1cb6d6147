// Arm: an operation that may enter a select, alone or with a handler.
#pragma once

#include <weft/core/waitable.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace weft {

// An arm that is no operation before it has to wait: one that need not costs nothing to make.
// try_now() does all of it, if that can be without waiting; else operation() makes what waits, and
// won(operation) does the rest. looks_ready(): whether trying may pay.
template <class W>
concept Deferred = requires(std::remove_reference_t<W>& arm) {
  { arm.looks_ready() } -> std::same_as<bool>;
  { arm.try_now() } -> std::same_as<bool>;
  requires std::derived_from<decltype(arm.operation()), Waitable>;
};

// Something waited for that loses nothing when another arm wins.
template <class W>
concept Arm = std::derived_from<std::remove_reference_t<W>, Waitable> || Deferred<W>;

// An operation, and what to do when it has won. The handler runs in the fiber that selects, after
// the other arms were withdrawn. An operation with something to hand over has `hand_to(handler)`.
template <class Operation, class Handler>
class Handled final : public Operation {
 public:
  template <class... Args>
  explicit Handled(Handler handler, Args&&... args)
      : Operation(std::forward<Args>(args)...), handler_(std::move(handler)) {}

  void won() {
    if constexpr (requires { this->hand_to(handler_); }) this->hand_to(handler_);
    else handler_();
  }

 private:
  Handler handler_;
};

// What waits for an arm.
template <Arm W>
[[gnu::always_inline]] inline decltype(auto) operation_of(W& arm) {
  if constexpr (Deferred<W>) return arm.operation();
  else return (arm);
}
template <Arm W>
using OperationOf = std::remove_reference_t<decltype(operation_of(std::declval<W&>()))>;

// Runs the handler of an arm that has won, if it has one.
template <Arm W>
void run_handler(W& arm) {
  if constexpr (requires { arm.won(); }) arm.won();
}
// The same, if `operation` waited for it.
template <Arm W>
void run_handler(W& arm, OperationOf<W>& operation) {
  if constexpr (Deferred<W>) arm.won(operation);
  else run_handler(arm);
}

}  // namespace weft
