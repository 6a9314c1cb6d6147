// Signals of the process, as something that fibers wait for; and the graceful end of a server.
//
//   const bool ended = weft::until_signal({SIGINT, SIGTERM}, [&] { serve(listener); });
//   if (!ended) log("drained");  // Ctrl-C, or kill: every fiber of serve() has unwound
//
// Several fibers, in several engines, may want the same signal at once: each gets each. What was
// the signal's action before the first of them is its action again after the last. Needs no thread,
// and a fiber that waits for a signal is never part of a deadlock.
#pragma once

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/core/descriptor.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/result.hpp>

#include <csignal>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>

namespace weft {

// Movable. Signals that come are kept, in order, until they are received; thousands of them, and
// what comes then is lost. As ever, two of a kind that come at once may be one.
class Signals {
 public:
  Signals() noexcept;  // none: closed
  Signals(Signals&&) noexcept;
  Signals& operator=(Signals&&) noexcept;
  ~Signals();

  // The next one. Empty: closed. Parks until one comes. Cancel point.
  std::optional<int> recv() const;
  // Empty: there is none now.
  std::optional<int> try_recv() const;
  // Completes when there may be one: try_recv() then has it, unless somebody else was faster.
  [[nodiscard]] Descriptor::Ready on_signal() const noexcept;
  [[nodiscard]] bool is_open() const noexcept;
  // No more of them. Idempotent; wakes who waits.
  void close() noexcept;

 private:
  friend Result<Signals> signals(std::initializer_list<int> wanted);
  class Subscription;
  explicit Signals(std::unique_ptr<Subscription> subscription) noexcept;

  std::unique_ptr<Subscription> subscription_;
};

// From now on these are received instead of doing what they do by default. Fails with
// std::errc::invalid_argument for signals that cannot be caught, and in simulation, which has none,
// with std::errc::operation_not_supported; nothing is changed then. Never parks.
Result<Signals> signals(std::initializer_list<int> wanted);
// The same as a channel, fed by a child of `n` that ends when nobody receives any more.
Result<Receiver<int>> signals(Nursery& n, std::initializer_list<int> wanted);

namespace detail {

// Requests a stop when one of `wanted` comes, and takes no more of them then; returns when `ended`.
class UntilSignal {
 public:
  // In simulation no signal comes. Throws std::system_error.
  explicit UntilSignal(std::initializer_list<int> wanted);
  void watch();

  std::stop_source stop;
  Event ended{"until_signal"};

 private:
  Signals signals_;
};

}  // namespace detail

// Runs `f` until it ends or one of `wanted` comes, which cancels it: as with_stop() does. The next
// signal of the kind does what it did before, by default it ends the program: who is impatient
// types Ctrl-C again. `f` runs in a fiber of its own.
//
// Throws std::system_error, before `f` has begun, for signals that cannot be caught. In simulation
// no signal comes; in BlockingIo none is seen before `f` has ended.
template <std::invocable F>
auto until_signal(std::initializer_list<int> wanted, F&& f) -> Scoped<std::invoke_result_t<F>> {
  detail::UntilSignal until{wanted};
  std::optional<Scoped<std::invoke_result_t<F>>> result;
  nursery([&](Nursery& n) {
    n.spawn([&] {
      result.emplace(with_stop(until.stop.get_token(), std::forward<F>(f)));
      until.ended.set();
    });
    until.watch();
  });
  return *std::move(result);
}

}  // namespace weft
