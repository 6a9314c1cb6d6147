// Cancellation: scopes that can be told to stop, by hand, by time or by a std::stop_token.
//
//   auto page = weft::timeout(2s, [&] { return fetch(url); });
//   if (!page) return retry();              // timed out; fetch's destructors have run
//
// Cancelling a scope asks every fiber below it to stop. It is delivered at waits, yield() and
// checkpoint(), as the exception Cancelled, and goes no further than the scope that was cancelled.
// It stays delivered: whoever swallows it gets it again at the next wait. Destructors may wait
// while an exception unwinds; nothing is raised there. docs/cancellation.md tells all of it.
#pragma once

#include <weft/core/cancel_scope.hpp>
#include <weft/core/wait.hpp>
#include <weft/time.hpp>

#include <functional>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace weft {

// What a scope returns: its body's value, or nothing if the scope was cancelled; for a void body,
// whether it ran to its end.
template <class R>
using Scoped = std::conditional_t<std::is_void_v<R>, bool, std::optional<R>>;

namespace detail {

// The running fiber, inside an engine; throws std::logic_error elsewhere.
Fiber& fiber_with_scopes();

// Runs `f(args…)` inside `scope`. A body that finished in spite of the cancel has its value
// returned; a cancel that came from further out goes on unwinding.
template <class F, class... Args>
auto run_in(Fiber& self, CancelScope& scope, F&& f, Args&&... args)
    -> Scoped<std::invoke_result_t<F, Args...>> {
  using R = std::invoke_result_t<F, Args...>;
  static_assert(!std::is_reference_v<R>, "return by value, or a pointer");
  try {
    const Entered entered{self, scope};
    if constexpr (std::is_void_v<R>) {
      std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
      return true;
    } else {
      return Scoped<R>{std::invoke(std::forward<F>(f), std::forward<Args>(args)...)};
    }
  } catch (const Cancelled&) {
  }
  attend(self);
  return {};
}

template <class F>
auto run_until(Instant when, Instant now, F&& f) -> Scoped<std::invoke_result_t<F>> {
  Fiber& self = fiber_with_scopes();
  TimedScope scope{*self.io, self.scope, when, now};
  return run_in(self, scope, std::forward<F>(f));
}

}  // namespace detail

// Runs `f(scope)` in a scope of its own. Empty (false for void) when it was unwound because that
// scope was cancelled. Must be called inside an engine, like all of these.
template <std::invocable<CancelScope&> F>
auto cancel_scope(F&& f) -> Scoped<std::invoke_result_t<F, CancelScope&>> {
  Fiber& self = detail::fiber_with_scopes();
  TimedScope scope{*self.io, self.scope};
  return detail::run_in(self, scope, std::forward<F>(f), static_cast<CancelScope&>(scope));
}

// Runs `f` until it ends or the clock reaches `when`, whichever comes first. Deadlines nest: the
// earliest one counts. A deadline that has passed already still lets `f` run to its first wait.
template <std::invocable F>
auto deadline(Instant when, F&& f) -> Scoped<std::invoke_result_t<F>> {
  return detail::run_until(when, Clock::now(), std::forward<F>(f));
}

// The same, counted from now.
template <class Rep, class Period, std::invocable F>
auto timeout(std::chrono::duration<Rep, Period> d, F&& f) -> Scoped<std::invoke_result_t<F>> {
  const Instant now = Clock::now_or_later();
  return detail::run_until(saturating_add(now, to_duration(d)), now, std::forward<F>(f));
}

// Runs `f` until it ends or a stop is requested of `token`, from whichever thread.
template <std::invocable F>
auto with_stop(const std::stop_token& token, F&& f) -> Scoped<std::invoke_result_t<F>> {
  Fiber& self = detail::fiber_with_scopes();
  CancelScope scope{self.scope};
  const auto stop = [&scope]() noexcept { scope.cancel(CancelReason::stop_requested); };
  const std::stop_callback<decltype(stop)> callback{token, stop};
  return detail::run_in(self, scope, std::forward<F>(f));
}

// Runs `f` to its end, whatever is cancelled around it: for cleanup that must wait. Cancellation
// and deadlines from outside are delivered at the first wait after it.
template <std::invocable F>
auto shielded(F&& f) -> std::invoke_result_t<F> {
  Fiber& self = detail::fiber_with_scopes();
  CancelScope scope{self.scope, Shield::present};
  const Entered entered{self, scope};
  return std::invoke(std::forward<F>(f));
}

}  // namespace weft
