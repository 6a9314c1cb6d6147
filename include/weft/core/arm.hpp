// Arm: an operation that may enter a select, alone or with a handler.
#pragma once

#include <weft/core/waitable.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace weft {

// Something waited for that loses nothing when another arm wins.
template <class W>
concept Arm = std::derived_from<std::remove_reference_t<W>, Waitable>;

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

// Runs the handler of an arm that has won, if it has one.
template <Arm W>
void run_handler(W& arm) {
  if constexpr (requires { arm.won(); }) arm.won();
}

}  // namespace weft
