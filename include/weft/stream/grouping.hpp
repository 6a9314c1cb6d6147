// Steps that make one value of several, or several of one.
#pragma once

#include <weft/stream/stage.hpp>
#include <weft/stream/steps.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

// What window(n) does before n values have come.
enum class Windows : std::uint8_t {
  full,     // nothing: each window has n values
  growing,  // the first has one value, the second two, up to n
};

namespace stream_detail {

template <class>
inline constexpr bool kIsReceiver = false;
template <class T>
inline constexpr bool kIsReceiver<Receiver<T>> = true;

// What can be taken apart.
template <class R>
concept Parts = std::ranges::input_range<R> || kIsReceiver<std::remove_cvref_t<R>>;
template <class R>
struct PartOf {
  using type = std::ranges::range_value_t<R>;
};
template <class R>
  requires kIsReceiver<std::remove_cvref_t<R>>
struct PartOf<R> {
  using type = typename std::remove_cvref_t<R>::value_type;
};

// The parts of one value. It may have endlessly many, none of which comes out at the other end.
template <class R, class Emit>
bool pour(R&& parts, Emit emit, Pace& go_on) {
  using Part = typename PartOf<R>::type;
  if constexpr (kIsReceiver<std::remove_cvref_t<R>>) {
    Inlet<Part> in{std::forward<R>(parts)};
    while (std::optional<Part> part = in.next(emit))
      if (!emit(*std::move(part))) return false;
    return !emit.gone();
  } else {
    for (auto&& part : parts) {
      if (!go_on(emit)) return false;
      // Ours, if it was made for us: what a view shows belongs to somebody else.
      if (!emit(Part(static_cast<detail::ElementOf<R>>(part)))) return false;
    }
    return true;
  }
}

template <class In, class F>
struct FlatMapStep {
  static_assert(std::invocable<F&, In>, "flat_map: the function does not take these values");
  using Result = std::invoke_result_t<F&, In>;
  static_assert(Parts<Result>, "flat_map: the function does not return a range or a Receiver");
  using Out = typename PartOf<Result>::type;
  template <class Emit>
  bool push(In&& value, Emit emit) {
    return pour<Result>(std::invoke(f, std::move(value)), emit, go_on);
  }
  F f;
  Pace go_on{};
};
template <class F>
struct FlatMap : StepOf<FlatMapStep, F> {
  static constexpr const char* kName = "flat_map";
  using StepOf<FlatMapStep, F>::StepOf;
};

struct Flatten : StepTag {
  static constexpr const char* kName = "flatten";
  template <class In>
  struct Bound {
    static_assert(Parts<In>, "flatten: these values are neither ranges nor Receivers");
    using Out = typename PartOf<In>::type;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      return pour<In>(std::move(value), emit, go_on);
    }
    Pace go_on{};
  };
  template <class In>
  auto bind() && {
    return Bound<In>{};
  }
};

// A group of n values, one of which must be there.
[[nodiscard]] inline std::size_t at_least_one(std::size_t n, const char* stage) {
  if (n == 0) throw std::invalid_argument{std::string{"weft::"} + stage + ": of no values"};
  return n;
}

// Room for a chunk, unless somebody who wants all of a stream in one has asked for a huge one.
template <class T>
void reserve_some(std::vector<T>& chunk, std::size_t n) {
  if (chunk.capacity() == 0) chunk.reserve(std::min<std::size_t>(n, 256));
}

struct Chunk : StepTag {
  static constexpr const char* kName = "chunk";
  explicit Chunk(std::size_t n) : size(at_least_one(n, kName)) {}
  template <class In>
  struct Bound {
    using Out = std::vector<In>;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      reserve_some(chunk, size);
      chunk.push_back(std::move(value));
      return chunk.size() < size || emit(std::exchange(chunk, {}));
    }
    template <class Emit>
    void finish(Emit emit) {
      if (!chunk.empty()) static_cast<void>(emit(std::move(chunk)));
    }
    std::size_t size;
    std::vector<In> chunk{};
  };
  template <class In>
  auto bind() && {
    return Bound<In>{size};
  }
  std::size_t size;
};

struct Window : StepTag {
  static constexpr const char* kName = "window";
  Window(std::size_t n, Windows which) : size(at_least_one(n, kName)), windows(which) {}
  template <class In>
  struct Bound {
    static_assert(std::copy_constructible<In>, "window: values are in several windows, as copies");
    using Out = std::vector<In>;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      if (last.size() == size) last.pop_front();
      last.push_back(std::move(value));
      if (last.size() < size && windows == Windows::full) return true;
      return emit(Out(last.begin(), last.end()));
    }
    std::size_t size;
    Windows windows;
    std::deque<In> last{};
  };
  template <class In>
  auto bind() && {
    return Bound<In>{size, windows};
  }
  std::size_t size;
  Windows windows;
};

struct Cycle : StepTag {
  static constexpr const char* kName = "cycle";
  template <class In>
  struct Bound {
    static_assert(std::copy_constructible<In>, "cycle: values come again and again, as copies");
    using Out = In;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      all.push_back(value);
      wanted = emit(std::move(value));
      return wanted;
    }
    template <class Emit>
    void finish(Emit emit) {
      if (all.empty()) return;
      for (Pace go_on; wanted;)
        for (auto value = all.begin(); wanted && value != all.end(); ++value)
          wanted = go_on(emit) && emit(In(*value));
    }
    std::vector<In> all{};
    bool wanted = true;
  };
  template <class In>
  auto bind() && {
    return Bound<In>{};
  }
};

template <class Amount, class F>
struct Quantize : StepTag {
  static constexpr const char* kName = "quantize";
  static_assert(std::copy_constructible<Amount> && std::default_initializable<Amount>,
                "quantize: a quantum is passed on as a copy, and there is a zero of its type");
  static_assert(std::invocable<F&, Amount>, "quantize: the function does not take the rest");
  Quantize(Amount each, F rest) : quantum(std::move(each)), on_rest(std::move(rest)) {
    if (!(Amount{} < quantum)) throw std::invalid_argument{"weft::quantize: not positive"};
  }
  template <class In>
  struct Bound {
    static_assert(requires(Amount& sum, In value) { sum += std::move(value); },
                  "quantize: these values cannot be added to a quantum");
    using Out = Amount;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      sum += std::move(value);
      while (!(sum < quantum)) {
        if (!go_on(emit)) return false;
        sum -= quantum;
        if (!emit(Amount(quantum))) return false;
      }
      return true;
    }
    template <class Emit>
    void finish(Emit) {
      static_cast<void>(std::invoke(on_rest, std::move(sum)));
    }
    Amount quantum;
    F on_rest;
    Amount sum{};
    Pace go_on{};
  };
  template <class In>
  auto bind() && {
    return Bound<In>{std::move(quantum), std::move(on_rest)};
  }
  Amount quantum;
  F on_rest;
};

}  // namespace stream_detail

// The elements of what f(value) returns, for each value, in order. That is a range; its elements
// are moved out of it, unless it is a view or a reference. Or a Receiver: see flatten().
//
//   2 0 3   ▶ flat_map(from_one_to) ▶   1 2 1 2 3
template <class F>
[[nodiscard]] auto flat_map(F f) {
  return stream_detail::FlatMap<F>{std::move(f)};
}

// The elements of ranges, one range after the other. Of Receivers: what comes from the first until
// its end, then from the second; if one of them fails, so does the stream.
//
//   [1 2] [] [3]   ▶ flatten() ▶   1 2 3
[[nodiscard]] inline auto flatten() noexcept { return stream_detail::Flatten{}; }

// Vectors of n values; the last one may be shorter, none is empty. A chunk that is not full when
// the stream fails is lost. Throws std::invalid_argument for n = 0. See also chunk(n, d).
//
//   1 2 3 4 5   ▶ chunk(2) ▶   [1 2] [3 4] [5]
[[nodiscard]] inline auto chunk(std::size_t n) { return stream_detail::Chunk{n}; }

// For each value a vector of it and the n - 1 before it, oldest first. Throws std::invalid_argument
// for n = 0.
//
//   1 2 3 4   ▶ window(3) ▶                     [1 2 3] [2 3 4]
//   1 2 3 4   ▶ window(3, Windows::growing) ▶   [1] [1 2] [1 2 3] [2 3 4]
[[nodiscard]] inline auto window(std::size_t n, Windows windows = Windows::full) {
  return stream_detail::Window{n, windows};
}

// The values again and again, for ever: keeps them all. Nothing, if there are none.
//
//   1 2 |   ▶ cycle() ▶   1 2 1 2 1 …
[[nodiscard]] inline auto cycle() noexcept { return stream_detail::Cycle{}; }

// Adds the values up, and passes on `quantum` as often as it is in the sum. At the end,
// on_rest(rest) gets what is left of the sum and was not passed on, be it zero; not if the stream
// fails. Throws std::invalid_argument for a quantum that is not positive.
//
//   3 4 9 1   ▶ quantize(5) ▶   5 5 5   and a rest of 2
template <class Amount, class F = stream_detail::Ignore>
[[nodiscard]] auto quantize(Amount quantum, F on_rest = {}) {
  return stream_detail::Quantize<Amount, F>{std::move(quantum), std::move(on_rest)};
}

}  // namespace weft
