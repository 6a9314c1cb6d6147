// Stages of streams in the three spawn forms of the CSP idiom: behind a reader, in front of a
// writer, and alone.
//
//   reader<U> spawn_map(reader<T> in, f)         in ──▶ f ──▶ what is returned
//   writer<T> spawn_map<T>(writer<U> out, f)     what is returned ──▶ f ──▶ out
//   channel<T, U> spawn_map<T>(f)                +it ──▶ f ──▶ -it
//
// They end as <weft/stream/stage.hpp> has it, from either end. One that fails fails the nursery;
// what comes out of it throws its error, too.
#pragma once

#include <weft/csp/ends.hpp>
#include <weft/csp/spawn.hpp>
#include <weft/stream/ends.hpp>
#include <weft/stream/steps.hpp>

#include <cstddef>
#include <cstdint>

namespace weft::csp {
namespace detail {

template <class T, class S>
using StageOut = typename decltype(weft::stream(std::declval<Nursery&>(),
                                                std::declval<Receiver<T>>()) |
                                   std::declval<S>())::value_type;

// In a nursery of their own, since the engine's root is none. The microthread joins its only child,
// and mostly runs it in place.
template <class T, class S, class U>
void start(reader<T> in, S stages, writer<U> out) {
  spawn([in = std::move(in), stages = std::move(stages), out = std::move(out)]() mutable {
    nursery([&](Nursery& n) {
      weft::stream(n, Receiver<T>{std::move(in)}) | std::move(stages) |
          weft::into(Sender<U>{std::move(out)});
    });
  });
}

// map(f), with results of type U; of f's own type if U is void.
template <class U, class F>
auto mapping(F f) {
  if constexpr (std::is_void_v<U>) return weft::map(std::move(f));
  else
    return weft::map(
        [f = std::move(f)](auto&& value) mutable -> U { return std::invoke(f, std::move(value)); });
}

}  // namespace detail

// Any stages, such as where(p) | take(3); most of them are in <weft/stream.hpp>.
template <class T, Stage S>
[[nodiscard]] auto spawn_stages(reader<T> in, S stages) {
  reader<detail::StageOut<T, S>> out;
  detail::start(std::move(in), std::move(stages), ++out);
  return out;
}
template <class T, class U, Stage S>
[[nodiscard]] writer<T> spawn_stages(writer<U> out, S stages) {
  writer<T> in;
  detail::start(--in, std::move(stages), std::move(out));
  return in;
}
template <class T, Stage S>
[[nodiscard]] auto spawn_stages(S stages) {
  writer<T> in;
  reader<detail::StageOut<T, S>> out;
  detail::start(--in, std::move(stages), ++out);
  return channel<T, detail::StageOut<T, S>>{std::move(in), std::move(out)};
}

template <class T, class U = void, class F>
[[nodiscard]] auto spawn_map(reader<T> in, F f) {
  return spawn_stages(std::move(in), detail::mapping<U>(std::move(f)));
}
// `T` is the type of `out` unless it is said.
template <class T = void, class U, class F>
[[nodiscard]] auto spawn_map(writer<U> out, F f) {
  using In = std::conditional_t<std::is_void_v<T>, U, T>;
  return spawn_stages<In>(std::move(out), detail::mapping<U>(std::move(f)));
}
template <class T, class U = void, class F>
[[nodiscard]] auto spawn_map(F f) {
  return spawn_stages<T>(detail::mapping<U>(std::move(f)));
}

template <class T, class P>
[[nodiscard]] reader<T> spawn_where(reader<T> in, P p) {
  return spawn_stages(std::move(in), weft::where(std::move(p)));
}
template <class T, class P>
[[nodiscard]] writer<T> spawn_where(writer<T> out, P p) {
  return spawn_stages<T>(std::move(out), weft::where(std::move(p)));
}
template <class T, class P>
[[nodiscard]] channel<T> spawn_where(P p) {
  return spawn_stages<T>(weft::where(std::move(p)));
}

// Room for `capacity` values; without end if it is not said. Alone it is a channel with a buffer,
// and no microthread.
template <class T>
[[nodiscard]] channel<T> spawn_buffer(std::size_t capacity = SIZE_MAX) {
  return Channel<T>{capacity};
}
template <class T>
[[nodiscard]] reader<T> spawn_buffer(reader<T> in, std::size_t capacity = SIZE_MAX) {
  channel<T> room = spawn_buffer<T>(capacity);
  spawn(in.stream_to(++room), "buffer");
  return --room;
}
template <class T>
[[nodiscard]] writer<T> spawn_buffer(writer<T> out, std::size_t capacity = SIZE_MAX) {
  channel<T> room = spawn_buffer<T>(capacity);
  spawn((--room).stream_to(std::move(out)), "buffer");
  return ++room;
}

}  // namespace weft::csp
