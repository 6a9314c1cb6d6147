// Steps: stages that look at one value after another and never wait. Adjacent ones share a fiber.
//
// Those that make one value of several, or several of one, are in <weft/stream/grouping.hpp>.
#pragma once

#include <weft/stream/stage.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <unordered_set>
#include <utility>

namespace weft {

// A value and its place in the stream: what enumerate() makes.
template <class T>
struct Indexed {
  std::size_t index;
  T value;
  friend bool operator==(const Indexed&, const Indexed&) = default;
};

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

template <class In, class F>
struct TapStep {
  static_assert(std::invocable<F&, const In&>, "tap: the function does not take these values");
  using Out = In;
  template <class Emit>
  bool push(In&& value, Emit emit) {
    static_cast<void>(std::invoke(f, std::as_const(value)));
    return emit(std::move(value));
  }
  F f;
};
template <class F>
struct Tap : StepOf<TapStep, F> {
  static constexpr const char* kName = "tap";
  using StepOf<TapStep, F>::StepOf;
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

template <class In, class F>
struct TakeWhileStep {
  static_assert(std::predicate<F&, const In&>, "take_while: not a predicate of these values");
  using Out = In;
  template <class Emit>
  bool push(In&& value, Emit emit) {
    // A step before it may still pass on what it holds when this one has had enough.
    if (over || !std::invoke(f, std::as_const(value))) {
      over = true;
      return false;
    }
    return emit(std::move(value));
  }
  F f;
  bool over = false;
};
template <class F>
struct TakeWhile : StepOf<TakeWhileStep, F> {
  static constexpr const char* kName = "take_while";
  using StepOf<TakeWhileStep, F>::StepOf;
};

struct Drop : StepTag {
  static constexpr const char* kName = "drop";
  explicit Drop(std::size_t n) noexcept : count(n) {}
  template <class In>
  struct Bound {
    using Out = In;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      if (left == 0) return emit(std::move(value));
      --left;
      return true;
    }
    std::size_t left;
  };
  template <class In>
  auto bind() && {
    return Bound<In>{count};
  }
  std::size_t count;
};

template <class In, class F>
struct DropWhileStep {
  static_assert(std::predicate<F&, const In&>, "drop_while: not a predicate of these values");
  using Out = In;
  template <class Emit>
  bool push(In&& value, Emit emit) {
    if (dropping && std::invoke(f, std::as_const(value))) return true;
    dropping = false;
    return emit(std::move(value));
  }
  F f;
  bool dropping = true;
};
template <class F>
struct DropWhile : StepOf<DropWhileStep, F> {
  static constexpr const char* kName = "drop_while";
  using StepOf<DropWhileStep, F>::StepOf;
};

template <class Result, class F>
struct Scan : StepTag {
  static constexpr const char* kName = "scan";
  static_assert(std::copyable<Result>, "scan: each result is passed on as a copy");
  Scan(Result from, F by) : result(std::move(from)), f(std::move(by)) {}
  template <class In>
  struct Bound {
    static_assert(std::is_invocable_r_v<Result, F&, Result, In>,
                  "scan: the function does not take a result so far and one of these values");
    using Out = Result;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      result = std::invoke(f, std::move(result), std::move(value));
      return emit(Result(result));
    }
    Result result;
    F f;
  };
  template <class In>
  auto bind() && {
    return Bound<In>{std::move(result), std::move(f)};
  }
  Result result;
  F f;
};

struct Enumerate : StepTag {
  static constexpr const char* kName = "enumerate";
  explicit Enumerate(std::size_t from) noexcept : first(from) {}
  template <class In>
  struct Bound {
    using Out = Indexed<In>;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      return emit(Out{next++, std::move(value)});
    }
    std::size_t next;
  };
  template <class In>
  auto bind() && {
    return Bound<In>{first};
  }
  std::size_t first;
};

template <class In, class F>
struct ChangesStep {
  static_assert(std::copy_constructible<In>, "changes: the last value is kept, as a copy");
  static_assert(std::predicate<F&, const In&, const In&>,
                "changes: these values, or the function, do not tell whether two are the same");
  using Out = In;
  template <class Emit>
  bool push(In&& value, Emit emit) {
    if (last && std::invoke(f, std::as_const(*last), std::as_const(value))) return true;
    last.emplace(std::as_const(value));
    return emit(std::move(value));
  }
  F f;
  std::optional<In> last{};
};
template <class F>
struct Changes : StepOf<ChangesStep, F> {
  static constexpr const char* kName = "changes";
  using StepOf<ChangesStep, F>::StepOf;
};

template <class T>
concept Hashable = std::equality_comparable<T> && requires(const T& value) {
  { std::hash<T>{}(value) } -> std::convertible_to<std::size_t>;
};
template <class T>
concept Sortable = requires(const T& a, const T& b) {
  { a < b } -> std::convertible_to<bool>;
};

struct Distinct : StepTag {
  static constexpr const char* kName = "distinct";
  static constexpr std::size_t kAll = SIZE_MAX;
  explicit Distinct(std::size_t n) : remembered(n) {
    if (n == 0) throw std::invalid_argument{"weft::distinct: one value at least is remembered"};
  }
  template <class In>
  struct Bound {
    static_assert(std::copy_constructible<In>, "distinct: values are remembered, as copies");
    static_assert(Hashable<In> || Sortable<In>,
                  "distinct: values must have a std::hash and ==, or an order");
    using Out = In;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      if (seen.contains(value)) return true;
      if (seen.size() == remembered) forget_oldest();
      const In& kept = *seen.insert(std::as_const(value)).first;
      if (remembered != kAll) oldest_first.push_back(&kept);
      return emit(std::move(value));
    }
    void forget_oldest() {
      seen.erase(seen.find(*oldest_first.front()));
      oldest_first.pop_front();
    }
    std::size_t remembered;
    std::conditional_t<Hashable<In>, std::unordered_set<In>, std::set<In>> seen{};
    std::deque<const In*> oldest_first{};  // into `seen`; if there is a bound
  };
  template <class In>
  auto bind() && {
    return Bound<In>{remembered};
  }
  std::size_t remembered;
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

// All values as they are, after f(value) for each: to log, to count, to test.
//
//   1 2 3   ▶ tap(print) ▶   1 2 3
template <class F>
[[nodiscard]] auto tap(F f) {
  return stream_detail::Tap<F>{std::move(f)};
}

// The first n values; then those before it end.
//
//   1 2 3 4 …   ▶ take(2) ▶   1 2 |
[[nodiscard]] inline auto take(std::size_t n) noexcept { return stream_detail::Take{n}; }

// The values up to the first for which p(value) is false, without that one; then those before it
// end.
//
//   1 3 4 5 …   ▶ take_while(odd) ▶   1 3 |
template <class P>
[[nodiscard]] auto take_while(P p) {
  return stream_detail::TakeWhile<P>{std::move(p)};
}

// All but the first n values.
//
//   1 2 3 4   ▶ drop(2) ▶   3 4
[[nodiscard]] inline auto drop(std::size_t n) noexcept { return stream_detail::Drop{n}; }

// All values from the first on for which p(value) is false. It is not asked again.
//
//   1 3 4 5   ▶ drop_while(odd) ▶   4 5
template <class P>
[[nodiscard]] auto drop_while(P p) {
  return stream_detail::DropWhile<P>{std::move(p)};
}

// The results on the way of what reduce(init, f) ends with, one for each value.
//
//   1 2 3   ▶ scan(0, plus) ▶   1 3 6
template <class Result, class F>
[[nodiscard]] auto scan(Result init, F f) {
  return stream_detail::Scan<Result, F>{std::move(init), std::move(f)};
}

// Each value with its number, as an Indexed: `auto& [index, value] = v;` takes it apart.
//
//   a b c   ▶ enumerate() ▶   {0 a} {1 b} {2 c}
[[nodiscard]] inline auto enumerate(std::size_t first = 0) noexcept {
  return stream_detail::Enumerate{first};
}

// Each value once: those that came before are dropped. They are remembered, as copies, in a hash
// table or, without a std::hash, in order. An endless stream needs a bound: with one, the oldest is
// forgotten when another comes, and may pass again. Throws std::invalid_argument for a bound of 0.
// Repeats alone are dropped by changes(), which remembers but one value.
//
//   1 2 2 1 3   ▶ distinct()  ▶   1 2 3
//   1 2 3 2 1   ▶ distinct(2) ▶   1 2 3 1
[[nodiscard]] inline auto distinct(std::size_t remembered = stream_detail::Distinct::kAll) {
  return stream_detail::Distinct{remembered};
}

// The values that differ from the one before, by == or by same(last passed on, value).
//
//   1 1 2 2 1   ▶ changes() ▶   1 2 1
template <class Same = std::equal_to<>>
[[nodiscard]] auto changes(Same same = {}) {
  return stream_detail::Changes<Same>{std::move(same)};
}

}  // namespace weft
