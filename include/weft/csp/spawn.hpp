// Microthreads and timers in the CSP idiom: fibers of the nursery that the caller is a child of.
#pragma once

#include <weft/csp/ends.hpp>
#include <weft/nursery.hpp>
#include <weft/scope/sibling.hpp>
#include <weft/sync/pass.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <chrono>
#include <concepts>
#include <exception>
#include <functional>
#include <iterator>

namespace weft::csp {
namespace detail {

// What runs in a microthread. Its captures, and so its ends of channels, are gone before its
// exception is delivered.
template <class F>
class Microthread {
 public:
  Microthread(F&& f, writer<std::exception_ptr>&& errors)
      : f_(std::move(f)), errors_(std::move(errors)) {}
  void operator()() && {
    const std::exception_ptr error = run();
    if (!error) return;
    if (errors_.send(error, no_throw) == SendStatus::ok) return;
    std::rethrow_exception(error);  // nobody joins: it fails the nursery
  }

 private:
  std::exception_ptr run() {
    try {
      F f = std::move(f_);
      static_cast<void>(std::invoke(f));
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  F f_;
  writer<std::exception_ptr> errors_;
};

}  // namespace detail

// Starts `f` beside the running fiber: in the nursery that this one is a child of, or beside the
// function that run() was given. The reader is for join(): it gets f's exception, if there is one,
// and its writer dies with f. While the reader lives, a failed `f` waits for somebody to read; once
// it is dropped, the exception fails the nursery. Cancel point.
template <class F>
  requires std::invocable<std::decay_t<F>&>
reader<std::exception_ptr> spawn(F&& f, Name name = {}, Site site = Site::here()) {
  Channel<std::exception_ptr> errors;
  std::decay_t<F> stored(std::forward<F>(f));
  weft::detail::spawn_sibling(
      std::move(name),
      detail::Microthread<std::decay_t<F>>{std::move(stored), std::move(errors.tx)},
      site);
  return std::move(errors.rx);
}

// Waits for the end of what spawn() has started, and throws its exception.
inline void join(const reader<std::exception_ptr>& spawned) {
  std::exception_ptr error;
  if (spawned >> error) std::rethrow_exception(error);
}

// Runs `f` and all that it spawns, until the last has ended: a nursery, whose first child is `f`.
template <class F>
  requires std::invocable<std::decay_t<F>&>
void run(F&& f, Site site = Site::here()) {
  nursery([&](Nursery& n) {
    n.spawn(
        [f = std::decay_t<F>(std::forward<F>(f))]() mutable { static_cast<void>(std::invoke(f)); },
        site);
  });
}

// ── microthreads that come with channels ────────────────────────────────────────────────────────

// `f` is given the writer, the caller the reader.
template <class T = poke_t, class F>
[[nodiscard]] reader<T> spawn_producer(F f, Name name = {}, Site site = Site::here()) {
  reader<T> r;
  spawn([f = std::move(f), w = ++r]() mutable { std::invoke(f, std::move(w)); }, std::move(name),
        site);
  return r;
}
// The other way round.
template <class T = poke_t, class F>
[[nodiscard]] writer<T> spawn_consumer(F f, Name name = {}, Site site = Site::here()) {
  writer<T> w;
  spawn([f = std::move(f), r = --w]() mutable { std::invoke(f, std::move(r)); }, std::move(name),
        site);
  return w;
}
// `f` stands between the two ends that the caller is given.
template <class T = poke_t, class U = T, class F>
[[nodiscard]] channel<T, U> spawn_filter(F f, Name name = {}, Site site = Site::here()) {
  writer<T> w;
  reader<U> r;
  spawn([f = std::move(f), in = --w,
         out = ++r]() mutable { std::invoke(f, std::move(in), std::move(out)); },
        std::move(name), site);
  return {std::move(w), std::move(r)};
}

// Everything that a microthread writes and then, if it failed, its exception.
template <class T>
class range {
 public:
  using iterator = weft::detail::Pass<range, T>;

  explicit range(reader<T> source, reader<std::exception_ptr> errors = {}) noexcept
      : source_(std::move(source)), errors_(std::move(errors)) {}
  [[nodiscard]] iterator begin() const { return iterator{*this}; }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
  [[nodiscard]] const reader<T>& source() const noexcept { return source_; }
  [[nodiscard]] const reader<std::exception_ptr>& except() const noexcept { return errors_; }
  // The next one; empty: the end. Throws the exception.
  [[nodiscard]] std::optional<T> next() const {
    std::optional<T> value;
    if (!(source_ >> value)) join(errors_);
    return value;
  }

 private:
  reader<T> source_;
  reader<std::exception_ptr> errors_;
};

// A producer whose exception comes out of the loop over what it produces.
template <class T, class F>
[[nodiscard]] range<T> spawn_range(F f) {
  reader<T> r;
  auto errors = spawn([f = std::move(f), w = ++r]() mutable { std::invoke(f, std::move(w)); });
  return range<T>{std::move(r), std::move(errors)};
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

using clock = Clock;
using duration = Duration;
using time_point = Instant;

[[nodiscard]] inline time_point now() noexcept { return Clock::now(); }
inline void yield() { this_fiber::yield(); }
using weft::sleep_until;
template <class Rep, class Period>
void sleep(std::chrono::duration<Rep, Period> d) {
  weft::sleep_for(d);
}

// One poke when `d` has passed since this call, then the end. Dropping the reader ends the timer.
template <class Rep, class Period>
[[nodiscard]] reader<> after(std::chrono::duration<Rep, Period> d) {
  return spawn_producer<>(
      [at = Clock::in(to_duration(d))](const writer<>& w) {
        if (select_first(w.on_peer_gone(), Alarm{at}) == 1) w << poke;
      },
      "after");
}

// The instant of each tick, without drift: tick k is due at this call + k * d. Those that were due
// while nobody read come at once, one after another. Throws std::invalid_argument for a period that
// is not positive.
template <class Rep, class Period>
[[nodiscard]] reader<time_point> tick(std::chrono::duration<Rep, Period> d) {
  return spawn_producer<time_point>(
      [ticker = Ticker{d, {.missed = Ticker::Missed::burst}}](const writer<time_point>& w) mutable {
        while (select_first(w.on_peer_gone(), ticker.on_tick()) == 1)
          if (!(w << ticker.tick())) return;
      },
      "tick");
}

}  // namespace weft::csp
