// Where values go to stay, and ends of channels that do nothing: pieces to put a program together
// from. Those that return a Sender take a nursery; the others are ends of streams, and return at
// once.
//
//   Sender<int> log = sink<int>(n, print);              // whoever has it may send
//   stream(n, rx) | map(square) | sink(print);
//   Sender<int> squares = through<int>(n, map(square), sink<int>(n, print));
#pragma once

#include <weft/stream/stage.hpp>

#include <functional>

namespace weft {

namespace stream_detail {

template <class T, class F>
void spawn_sink(Nursery& n, const char* name, Receiver<T> rx, F f) {
  static_assert(std::invocable<F&, T>, "sink: the function does not take these values");
  n.spawn(Name{std::string_view{name}}, [rx = std::move(rx), f = std::move(f)]() mutable {
    while (std::optional<T> value = rx.recv()) std::invoke(f, *std::move(value));
  });
}
template <class T, class F>
[[nodiscard]] Sender<T> spawn_sink(Nursery& n, const char* name, F f) {
  Channel<T> ch{ChannelOptions<T>{.name = Name{std::string_view{name}}}};
  spawn_sink<T>(n, name, std::move(ch.rx), std::move(f));
  return std::move(ch.tx);
}

template <class F>
struct Sink : EndTag {
  Sink(const char* called, F by) : name(called), f(std::move(by)) {}
  template <AnyStream S>
  void run(S s) && {
    Nursery& n = s.nursery();
    spawn_sink<typename S::value_type>(n, name, std::move(s).open(), std::move(f));
  }
  const char* name;
  F f;
};

template <class T>
struct StoreIn {
  T* latest;
  template <class V>
  void operator()(V&& value) const {
    *latest = std::forward<V>(value);
  }
};

}  // namespace stream_detail

// f(value) for each, in a fiber of the nursery. It ends when the last sender is gone. An error of
// `f`, or of the stream, fails the nursery.
//
//   1 2 3   ▶ sink(print)
template <class F>
[[nodiscard]] auto sink(F f) {
  return stream_detail::Sink<F>{"sink", std::move(f)};
}
template <class T, class F>
[[nodiscard]] Sender<T> sink(Nursery& n, F f) {
  return stream_detail::spawn_sink<T>(n, "sink", std::move(f));
}

// Keeps the last value in `latest`, which must outlive the nursery, and is nobody else's to look at
// until it has ended: a send returns before its value is there.
//
//   1 2 3   ▶ sinkhole(latest)       and then latest == 3
template <class T>
[[nodiscard]] auto sinkhole(T& latest) {
  return stream_detail::Sink{"sinkhole", stream_detail::StoreIn<T>{&latest}};
}
template <class T>
[[nodiscard]] Sender<T> sinkhole(Nursery& n, std::type_identity_t<T>& latest) {
  return stream_detail::spawn_sink<T>(n, "sinkhole", stream_detail::StoreIn<T>{&latest});
}

// Receives all, and forgets it: keeps those before it going.
//
//   1 2 3   ▶ blackhole()
[[nodiscard]] inline auto blackhole() {
  return stream_detail::Sink{"blackhole", stream_detail::Ignore{}};
}
template <class T>
[[nodiscard]] Sender<T> blackhole(Nursery& n) {
  return stream_detail::spawn_sink<T>(n, "blackhole", stream_detail::Ignore{});
}

// A sender to whom nobody listens: what is sent waits until it is cancelled or loses a select, or
// until `n` has ended, and is refused then. No fiber.
template <class T>
[[nodiscard]] Sender<T> deaf(Nursery& n) {
  Channel<T> ch{{.name = "deaf"}};
  n.make<Receiver<T>>(std::move(ch.rx));
  return std::move(ch.tx);
}

// A receiver on which nothing comes, until `n` has ended: that is its end. No fiber.
template <class T>
[[nodiscard]] Receiver<T> mute(Nursery& n) {
  Channel<T> ch{{.name = "mute"}};
  n.make<Sender<T>>(std::move(ch.tx));
  return std::move(ch.rx);
}

}  // namespace weft
