// Ends of streams: what makes them run.
//
// for_each, reduce, collect, count and drain run in the calling fiber, and return when the stream
// has ended. If it has failed, they throw its error. into and out start the stages and return.
#pragma once

#include <weft/stream/stage.hpp>

#include <functional>
#include <vector>

namespace weft {

namespace stream_detail {

template <class F>
struct ForEach : EndTag {
  explicit ForEach(F by) : f(std::move(by)) {}
  template <AnyStream S>
  void run(S s) && {
    using T = typename S::value_type;
    static_assert(std::invocable<F&, T>, "for_each: the function does not take these values");
    const Receiver<T> rx = std::move(s).open();
    while (std::optional<T> value = rx.recv()) f(*std::move(value));
  }
  F f;
};

template <class Result, class F>
struct Reduce : EndTag {
  Reduce(Result from, F by) : result(std::move(from)), f(std::move(by)) {}
  template <AnyStream S>
  Result run(S s) && {
    using T = typename S::value_type;
    static_assert(std::is_invocable_r_v<Result, F&, Result, T>,
                  "reduce: the function does not take a result so far and one of these values");
    const Receiver<T> rx = std::move(s).open();
    while (std::optional<T> value = rx.recv())
      result = f(std::move(result), *std::move(value));
    return std::move(result);
  }
  Result result;
  F f;
};

struct Collect : EndTag {
  template <AnyStream S>
  auto run(S s) && {
    using T = typename S::value_type;
    const Receiver<T> rx = std::move(s).open();
    std::vector<T> all;
    while (std::optional<T> value = rx.recv()) all.push_back(*std::move(value));
    return all;
  }
};

struct Count : EndTag {
  template <AnyStream S>
  std::size_t run(S s) && {
    const auto rx = std::move(s).open();
    std::size_t count = 0;
    while (rx.recv()) ++count;
    return count;
  }
};

template <class U>
struct Into : EndTag {
  explicit Into(Sender<U> to) noexcept : tx(std::move(to)) {}
  template <AnyStream S>
  void run(S s) && {
    static_assert(std::constructible_from<U, typename S::value_type>,
                  "into: the channel carries another type");
    std::move(s).open_into(std::move(tx));
  }
  Sender<U> tx;
};

struct Out : EndTag {
  template <AnyStream S>
  [[nodiscard]] auto run(S s) && {
    return std::move(s).open();
  }
};

}  // namespace stream_detail

// f(value) for each. Cancel point.
template <class F>
[[nodiscard]] auto for_each(F f) {
  return stream_detail::ForEach<F>{std::move(f)};
}
// f(… f(f(init, first), second) …, last).
template <class Result, class F>
[[nodiscard]] auto reduce(Result init, F f) {
  return stream_detail::Reduce<Result, F>{std::move(init), std::move(f)};
}
// All values, in a std::vector.
[[nodiscard]] inline auto collect() noexcept { return stream_detail::Collect{}; }
// How many there were.
[[nodiscard]] inline auto count() noexcept { return stream_detail::Count{}; }
// Receives all, for what the stages do meanwhile.
[[nodiscard]] inline auto drain() noexcept {
  return for_each(stream_detail::Ignore{});
}

// Sends them to a channel, from a fiber of the nursery. Other senders keep the channel open; an
// error closes it for all.
template <class T>
[[nodiscard]] auto into(Sender<T> tx) noexcept {
  return stream_detail::Into<T>{std::move(tx)};
}
// The channel behind the last stage.
[[nodiscard]] inline auto out() noexcept { return stream_detail::Out{}; }

// Both ends of stages without a source: what is sent to tx comes out of rx, changed.
template <class T, class U>
struct Through {
  Sender<T> tx;
  Receiver<U> rx;
};

// The two other ways to start stages: in front of an existing sender, and alone. `T` is what they
// take.
//
//   Sender<int> tx = through<int>(n, where(odd) | map(square), squares);
//   auto [tx, rx] = through<int>(n, where(odd) | map(square));
template <class T, Stage S, class U>
[[nodiscard]] Sender<T> through(Nursery& n, S stages, Sender<U> to) {
  Channel<T> in;
  stream(n, std::move(in.rx)) | std::move(stages) | into(std::move(to));
  return std::move(in.tx);
}
template <class T, Stage S>
[[nodiscard]] auto through(Nursery& n, S stages) {
  Channel<T> in;
  auto rx = stream(n, std::move(in.rx)) | std::move(stages) | out();
  return Through<T, typename decltype(rx)::value_type>{std::move(in.tx), std::move(rx)};
}

}  // namespace weft
