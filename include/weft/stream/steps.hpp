// Steps: stages that look at one value after another and never wait. Adjacent ones share a fiber.
#pragma once

#include <weft/stream/stage.hpp>

#include <functional>

namespace weft {

namespace stream_detail {

// A step whose state is made by `Bound<In, F>{f}` once the type of its values is known.
template <template <class, class> class Bound, class F>
struct StepOf : StepTag {
  explicit StepOf(F by) : f(std::move(by)) {}
  template <class In>
  auto bind() && {
    return Bound<In, F>{std::move(f)};
  }
  F f;
};

template <class In, class F>
struct MapStep {
  static_assert(std::invocable<F&, In>, "map: the function does not take these values");
  using Out = std::remove_cvref_t<std::invoke_result_t<F&, In>>;
  static_assert(!std::is_void_v<Out>, "map: the function returns nothing; tap() is for that");
  template <class Emit>
  bool push(In&& value, Emit emit) {
    return emit(Out(std::invoke(f, std::move(value))));
  }
  F f;
};
template <class F>
struct Map : StepOf<MapStep, F> {
  static constexpr const char* kName = "map";
  using StepOf<MapStep, F>::StepOf;
};

template <class In, class F>
struct WhereStep {
  static_assert(std::predicate<F&, const In&>, "where: not a predicate of these values");
  using Out = In;
  template <class Emit>
  bool push(In&& value, Emit emit) {
    return !std::invoke(f, std::as_const(value)) || emit(std::move(value));
  }
  F f;
};
template <class F>
struct Where : StepOf<WhereStep, F> {
  static constexpr const char* kName = "where";
  using StepOf<WhereStep, F>::StepOf;
};

struct Take : StepTag {
  static constexpr const char* kName = "take";
  explicit Take(std::size_t n) noexcept : count(n) {}
  template <class In>
  struct Bound {
    using Out = In;
    // Ends with the last value it takes, not with the one after.
    template <class Emit>
    bool push(In&& value, Emit emit) {
      if (left == 0) return false;
      --left;
      return emit(std::move(value)) && left > 0;
    }
    [[nodiscard]] bool exhausted() const noexcept { return left == 0; }
    std::size_t left;
  };
  template <class In>
  auto bind() && {
    return Bound<In>{count};
  }
  std::size_t count;
};

}  // namespace stream_detail

// f(value) instead of each value.
//
//   1 2 3   ▶ map(square) ▶   1 4 9
template <class F>
[[nodiscard]] auto map(F f) {
  return stream_detail::Map<F>{std::move(f)};
}

// The values for which p(value).
//
//   1 2 3 4   ▶ where(even) ▶   2 4
template <class P>
[[nodiscard]] auto where(P p) {
  return stream_detail::Where<P>{std::move(p)};
}

// The first n values; then those before it end.
//
//   1 2 3 4 …   ▶ take(2) ▶   1 2 |
[[nodiscard]] inline auto take(std::size_t n) noexcept { return stream_detail::Take{n}; }

}  // namespace weft
