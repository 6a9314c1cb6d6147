// Stages that change how values flow: whether they wait, how long, and what ends them.
#pragma once

#include <weft/event.hpp>
#include <weft/stream/stage.hpp>
#include <weft/time.hpp>

#include <algorithm>
#include <functional>

namespace weft {

namespace stream_detail {

struct Buffer : StageTag {
  explicit Buffer(std::size_t n) noexcept : capacity(n) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    Nursery& n = s.nursery();
    return stream_of(n, std::move(s).open(capacity));
  }
  std::size_t capacity;
};

// A receive without waiting, for stages that wait for more than their input.
template <class T>
[[nodiscard]] Received<T> try_next(const Receiver<T>& rx) {
  try {
    return rx.try_recv();
  } catch (...) {
    throw UpstreamFailed{std::current_exception()};
  }
}

// What a killswitch watches: off(), and that as an arm.
template <class X>
struct KeptAlive {
  Receiver<X> keepalive;
  [[nodiscard]] bool off() const { return keepalive.closed(); }
  [[nodiscard]] auto on_off() const noexcept { return keepalive.on_peer_gone(); }
};
struct UntilSet {
  Event* event;
  [[nodiscard]] bool off() const { return event->is_set(); }
  [[nodiscard]] auto on_off() const noexcept { return event->on_set(); }
};

template <class T, class Key>
struct KillswitchBody {
  Receiver<T> rx;
  Key key;

  void operator()(Outlet<T>& out) const {
    while (!key.off()) {
      this_fiber::checkpoint();
      std::optional<T> value = next(out);
      if (!value || key.off() || !pass(std::move(*value), out)) return;
    }
  }
  // Empty: it is off, the input has ended, or nobody wants the output.
  std::optional<T> next(const Outlet<T>& out) const {
    if (Received<T> got = try_next(rx)) return *std::move(got);
    else if (got.status() == RecvStatus::closed) return std::nullopt;
    auto off = key.on_off();
    auto gone = out.on_gone();
    auto value = rx.on_recv();
    if (select_first(off, gone, value) != 2) return std::nullopt;
    return Inlet<T>::taken(value);
  }
  bool pass(T&& value, const Outlet<T>& out) const {
    const SendStatus now = out.sender().try_send(std::move(value));
    if (now != SendStatus::full) return now == SendStatus::ok;
    auto off = key.on_off();
    auto sent = out.sender().on_send(std::move(value));
    return select_first(off, sent) == 1 && sent.sent();
  }
};

template <class Key>
struct Killswitch : StageTag {
  explicit Killswitch(Key by) noexcept : key(std::move(by)) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    using T = typename S::value_type;
    Nursery& n = s.nursery();
    return stream_of(n, spawn_into_channel<T>(
                            n, "killswitch", 0,
                            KillswitchBody<T, Key>{std::move(s).open(), std::move(key)}));
  }
  Key key;
};

}  // namespace stream_detail

// How often, and how long in between.
struct RetryOptions {
  std::size_t times = 3;  // after the first attempt
  // Before the second attempt; twice as long before each one after it, up to max_delay. A random
  // part of up to a half is left out, lest many who failed together come again together.
  Duration delay = std::chrono::milliseconds{100};
  Duration max_delay = std::chrono::seconds{10};
};

namespace stream_detail {

class Backoff {
 public:
  explicit Backoff(const RetryOptions& options) noexcept
      : next_(std::min(options.delay, options.max_delay)), max_(options.max_delay) {}
  [[nodiscard]] Duration operator()() {
    const Duration now = next_;
    next_ = now > max_ / 2 ? max_ : now * 2;
    const Duration half = now / 2;
    if (half <= Duration::zero()) return now;
    const auto chance = io().random() % static_cast<std::uint64_t>(half.count() + 1);
    return now - Duration{static_cast<Duration::rep>(chance)};
  }

 private:
  Duration next_;
  Duration max_;
};

template <class T, class R, class F>
struct RetryBody {
  Receiver<T> rx;
  RetryOptions options;
  F f;

  void operator()(Outlet<R>& out) {
    Inlet<T> in{std::move(rx)};
    while (std::optional<T> value = in.next(out)) {
      std::optional<R> result = attempt(*value, out);
      if (!result || !out(*std::move(result))) return;
    }
  }
  // Empty: nobody wants it any more.
  std::optional<R> attempt(const T& value, const Outlet<R>& out) {
    Backoff backoff{options};
    for (std::size_t left = options.times;; --left) {
      Settled<R> result;
      result.settle([&] { return R(std::invoke(f, value)); });
      if (result || left == 0) return std::move(result.value());
      auto gone = out.on_gone();
      auto again = after(backoff());
      if (select_first(gone, again) == 0) return std::nullopt;
    }
  }
};

template <class F>
struct Retry : StageTag {
  Retry(const RetryOptions& how, F by) : options(how), f(std::move(by)) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    using T = typename S::value_type;
    static_assert(std::invocable<F&, const T&>,
                  "retry: the function does not take these values; it may see one several times, "
                  "so by value or const reference");
    using R = std::remove_cvref_t<std::invoke_result_t<F&, const T&>>;
    static_assert(!std::is_void_v<R>, "retry: the function returns nothing; return the value");
    Nursery& n = s.nursery();
    return stream_of(n, spawn_into_channel<R>(n, "retry", 0,
                                              RetryBody<T, R, F>{std::move(s).open(), options,
                                                                 std::move(f)}));
  }
  RetryOptions options;
  F f;
};

}  // namespace stream_detail

// Room for n values in the channel behind the stage before: that may run so far ahead. Costs no
// fiber, unless nothing but a channel stands before it.
//
//   1 2 3 4   ▶ buffer(2) ▶   1 2 3 4, at their own pace
[[nodiscard]] inline auto buffer(std::size_t n) noexcept { return stream_detail::Buffer{n}; }

// Ends the stream when the last sender of `keepalive` is gone, or that channel is closed; or when
// the event, which must outlive the stream, is set. Even between two values, and even while one
// waits to be received: that one is dropped. What is sent to `keepalive` is never received.
//
//   1 2 3 4 …   ▶ killswitch(keepalive) ▶   1 2 |
template <class X>
[[nodiscard]] auto killswitch(Receiver<X> keepalive) noexcept {
  return stream_detail::Killswitch{stream_detail::KeptAlive<X>{std::move(keepalive)}};
}
[[nodiscard]] inline auto killswitch(Event& off) noexcept {
  return stream_detail::Killswitch{stream_detail::UntilSet{&off}};
}

// f(value) instead of each value; when that throws, again after a while, with the same value. The
// last attempt's error fails the stream. The values behind wait meanwhile: order is kept.
//
//   1 2 3   ▶ retry({.times = 2}, fetch) ▶   a b c, though fetch(2) had failed once
template <class F>
[[nodiscard]] auto retry(const RetryOptions& options, F f) {
  return stream_detail::Retry<F>{options, std::move(f)};
}

}  // namespace weft
