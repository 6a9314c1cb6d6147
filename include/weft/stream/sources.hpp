// Sources of streams that are not channels.
#pragma once

#include <weft/stream/stage.hpp>
#include <weft/time.hpp>

#include <iterator>
#include <ranges>

namespace weft {

namespace stream_detail {

template <class T>
struct Iota : SourceTag {
  using value_type = T;
  static constexpr const char* kName = "iota";

  Iota(T from, std::optional<T> to) : next(std::move(from)), end(std::move(to)) {}
  template <class Out, class Push>
  void feed(const Out& out, Push push) {
    for (Pace go_on; (!end || next < *end) && go_on(out); ++next)
      if (!push(T(next))) return;
  }

  T next;
  std::optional<T> end;
};

template <class R>
struct FromRange : SourceTag {
  using value_type = std::ranges::range_value_t<R>;
  static constexpr const char* kName = "from_range";

  explicit FromRange(R from) : range(std::move(from)) {}
  template <class Out, class Push>
  void feed(const Out& out, Push push) {
    Pace go_on;
    for (auto&& element : range) {
      if (!go_on(out)) return;
      // The range is ours, but what a view shows belongs to somebody else.
      if constexpr (std::ranges::view<R> || std::ranges::borrowed_range<R>) {
        if (!push(value_type(element))) return;
      } else {
        if (!push(value_type(std::move(element)))) return;
      }
    }
  }

  R range;
};

template <class F>
struct Generate : SourceTag {
  using value_type = typename std::invoke_result_t<F&>::value_type;
  static constexpr const char* kName = "generate";

  explicit Generate(F by) : f(std::move(by)) {}
  template <class Out, class Push>
  void feed(const Out& out, Push push) {
    for (Pace go_on; go_on(out);) {
      auto value = f();
      if (!value || !push(*std::move(value))) return;
    }
  }

  F f;
};

struct Ticks : SourceTag {
  using value_type = Instant;
  static constexpr const char* kName = "ticker";

  explicit Ticks(Ticker of) noexcept : every(of) {}
  template <class Out, class Push>
  void feed(const Out& out, Push push) {
    for (;;) {
      auto gone = out.on_gone();
      auto tick = every.on_tick();
      if (select_first(gone, tick) == 0 || !push(every.tick())) return;
    }
  }

  Ticker every;
};

}  // namespace stream_detail

// first, first + 1, … without end, or up to `last`, which is not among them.
//
//   iota(3)      ▶ 3 4 5 6 …
//   iota(3, 6)   ▶ 3 4 5 |
template <std::weakly_incrementable T>
[[nodiscard]] auto iota(T first) {
  return stream_detail::Iota<T>{std::move(first), std::nullopt};
}
template <std::weakly_incrementable T>
  requires std::totally_ordered<T>
[[nodiscard]] auto iota(T first, std::type_identity_t<T> last) {
  return stream_detail::Iota<T>{std::move(first), std::move(last)};
}

// The elements of a range: moved out of it if it was given away, else copied from a copy of it. A
// view is read where it is, and must live as long as the stream.
template <std::ranges::input_range R>
[[nodiscard]] auto from_range(R&& range) {
  return stream_detail::FromRange<std::remove_cvref_t<R>>{std::forward<R>(range)};
}

// What f() returns, until that is empty. `f` runs in the fiber of the stage, and may wait.
template <std::invocable F>
  requires requires(std::invoke_result_t<F&> result) {
    typename std::invoke_result_t<F&>::value_type;
    static_cast<bool>(result);
    *result;
  }
[[nodiscard]] auto generate(F f) {
  return stream_detail::Generate<F>{std::move(f)};
}

// The instants at which a tick was due, every so often, without drift and without end; what becomes
// of those that nobody took is said by `options`. Throws std::invalid_argument for a period that is
// not positive.
template <class Rep, class Period>
[[nodiscard]] auto ticker(std::chrono::duration<Rep, Period> period, Ticker::Options options = {}) {
  return stream_detail::Ticks{Ticker{period, options}};
}

}  // namespace weft
