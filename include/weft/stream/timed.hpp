// Stages that look at the clock, or keep but the latest value.
//
// Durations are rounded up to nanoseconds, and negative ones are zero. What such a stage holds is
// passed on at once when its input ends, and lost when that fails. While it waits for somebody to
// take a value it takes none: those before it wait, too.
#pragma once

#include <weft/stream/grouping.hpp>
#include <weft/stream/stage.hpp>
#include <weft/time.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// No value came in time.
class TimedOut : public std::runtime_error {
 public:
  TimedOut() : std::runtime_error("weft: timed out") {}
};

namespace stream_detail {

// A stage with one input and a fiber of its own: `Body<T>{settings}(in, out)` runs there, sends
// values of type Body<T>::Out, and returns when there are no more or nobody wants any.
template <template <class> class Body, class Settings>
struct OwnFiber : StageTag {
  explicit OwnFiber(Settings with) : settings(std::move(with)) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    using T = typename S::value_type;
    using Result = typename Body<T>::Out;
    Nursery& n = s.nursery();
    auto run = [in = Inlet<T>{std::move(s).open()}, body = Body<T>{std::move(settings)}](
                   const Outlet<Result>& out) mutable { body(in, out); };
    const Name name{std::string_view{Body<T>::kName}};
    return stream_of(n, spawn_into_channel<Result>(n, name, 0, std::move(run)));
  }
  Settings settings;
};

// What has ended a wait.
enum class Came : std::uint8_t { gone, time, value };

// The next value, if it comes before `when`; empty at the end of the input.
template <class T>
[[nodiscard]] Came next_until(Instant when, Inlet<T>& in, const auto& out,
                              std::optional<T>& value) {
  auto gone = out.on_gone();
  auto time = Alarm{when};
  auto next = in.on_recv();
  const auto came = static_cast<Came>(select_first(gone, time, next));
  if (came == Came::value) {
    value.reset();  // not assigned to: what is sent need not be assignable
    if (std::optional<T> got = in.taken(next)) value.emplace(*std::move(got));
  }
  return came;
}
// Keeps the latest value until `until()`, which is asked again after each; Came::value: the end.
template <class T>
[[nodiscard]] Came latest_until(auto until, Inlet<T>& in, const auto& out,
                                std::optional<T>& value) {
  for (std::optional<T> next;;) {
    const Came came = next_until(until(), in, out, next);
    if (came != Came::value || !next) return came;
    value.emplace(*std::move(next));
  }
}

struct ChunkLimits {
  std::size_t size;
  Duration age;
};
template <class T>
struct TimedChunk {
  static constexpr const char* kName = "chunk";
  using Out = std::vector<T>;
  void operator()(Inlet<T>& in, const Outlet<Out>& out) const {
    while (std::optional<T> value = in.next(out)) {
      const Instant due = saturating_add(Clock::now(), limits.age);
      Out chunk;
      reserve_some(chunk, limits.size);
      Came came = Came::value;
      do {
        chunk.push_back(*std::move(value));
        if (chunk.size() < limits.size) came = next_until(due, in, out, value);
        else break;
      } while (came == Came::value && value);
      if (came == Came::gone || !out(std::move(chunk)) || !value) return;
    }
  }
  ChunkLimits limits;
};

template <class T>
struct Paced {
  static constexpr const char* kName = "pace";
  using Out = T;
  // Takes a value before it waits: so it sees the end of its input in time.
  void operator()(Inlet<T>& in, const Outlet<T>& out) const {
    Instant due = Clock::now();
    while (std::optional<T> value = in.next(out)) {
      auto gone = out.on_gone();
      auto time = Alarm{due};
      if (select_first(gone, time) == 0 || !out(*std::move(value))) return;
      due = saturating_add(Clock::now(), apart);
    }
  }
  Duration apart;
};

template <class T>
struct Debounce {
  static constexpr const char* kName = "debounce";
  using Out = T;
  void operator()(Inlet<T>& in, const Outlet<T>& out) const {
    const auto until = [this] { return saturating_add(Clock::now(), quiet); };
    while (std::optional<T> value = in.next(out)) {
      const Came came = latest_until(until, in, out, value);
      if (came == Came::gone || !out(*std::move(value)) || came == Came::value) return;
    }
  }
  Duration quiet;
};

template <class T>
struct Sample {
  static constexpr const char* kName = "sample";
  using Out = T;
  // Without a value there is no timer: an idle stream costs nothing.
  void operator()(Inlet<T>& in, const Outlet<T>& out) const {
    const Instant start = Clock::now();
    while (std::optional<T> value = in.next(out)) {
      const Instant last = start + (Clock::now() - start) / period * period;
      const auto until = [this, last] { return saturating_add(last, period); };
      const Came came = latest_until(until, in, out, value);
      if (came == Came::gone || !out(*std::move(value)) || came == Came::value) return;
    }
  }
  Duration period;
};

template <class T>
struct Timeout {
  static constexpr const char* kName = "timeout";
  using Out = T;
  void operator()(Inlet<T>& in, const Outlet<T>& out) const {
    for (;;) {
      auto gone = out.on_gone();
      auto next = in.on_recv();
      auto time = after(patience);
      const std::size_t came = select_first(gone, next, time);
      if (came == 0) return;
      // It is the input that has failed, not this stage: who receives may catch it, and go on.
      if (came == 2) throw UpstreamFailed{std::make_exception_ptr(TimedOut{})};
      std::optional<T> value = in.taken(next);
      if (!value || !out(*std::move(value))) return;
    }
  }
  Duration patience;
};

struct NoSettings {};
template <class T>
struct LatestForEver : NoSettings {
  static constexpr const char* kName = "latch";
  static_assert(std::copy_constructible<T>, "latch: a value is received many times, as copies");
  using Out = T;
  void operator()(Inlet<T>& in, const Outlet<T>& out) const {
    for (std::optional<T> held = in.next(out); held;) {
      auto next = in.on_recv();
      auto offer = out.sender().on_send(*held);
      if (select_first(next, offer) == 1) {
        if (!offer.sent()) return;
      } else if (std::optional<T> value = in.taken(next)) {
        held.emplace(*std::move(value));
      } else {
        while (out(std::as_const(*held))) {}
        return;
      }
    }
  }
};

struct Throttle : StepTag {
  static constexpr const char* kName = "throttle";
  Throttle(Duration d, std::size_t n) : period(d), count(at_least_one(n, kName)) {}
  template <class In>
  struct Bound {
    using Out = In;
    template <class Emit>
    bool push(In&& value, Emit emit) {
      const bool anew = Clock::now() >= until;
      if (anew) left = count;
      if (left == 0) return true;
      --left;
      const bool wanted = emit(std::move(value));
      if (anew) until = saturating_add(Clock::now(), period);
      return wanted;
    }
    Duration period;
    std::size_t count;
    std::size_t left = 0;
    Instant until = Instant::min();
  };
  template <class In>
  auto bind() && {
    return Bound<In>{period, count};
  }
  Duration period;
  std::size_t count;
};

}  // namespace stream_detail

// Vectors of n values, or fewer: a chunk is passed on when it is full, or when its first value came
// d ago. None is empty. Throws std::invalid_argument for n = 0.
//
//   1 2 3 . . . 4 |      ▶ chunk(2, d) ▶   . [1 2] . . . [3] . [4]    d = 3 dots
template <class Rep, class Period>
[[nodiscard]] auto chunk(std::size_t n, std::chrono::duration<Rep, Period> d) {
  return stream_detail::OwnFiber<stream_detail::TimedChunk, stream_detail::ChunkLimits>{
      {stream_detail::at_least_one(n, "chunk"), to_duration(d)}};
}

// At most n values in each stretch of d: the others are dropped. A stretch begins when its first
// value has been passed on. A step: it shares the fiber of its neighbours. Throws
// std::invalid_argument for n = 0. See pace() to lose nothing.
//
//   1 2 3 . . 4 . 5 .    ▶ throttle(d) ▶   1 . . . . 4 . . .          d = 3 dots
template <class Rep, class Period>
[[nodiscard]] auto throttle(std::chrono::duration<Rep, Period> d, std::size_t n = 1) {
  return stream_detail::Throttle{to_duration(d), n};
}

// All values, each at least d after the one before has been passed on: those that come faster wait,
// and so does whoever sends them.
//
//   1 2 3 . . . . . .    ▶ pace(d) ▶       1 . . 2 . . 3 . .          d = 3 dots
template <class Rep, class Period>
[[nodiscard]] auto pace(std::chrono::duration<Rep, Period> d) {
  return stream_detail::OwnFiber<stream_detail::Paced, Duration>{to_duration(d)};
}

// The values that none followed for d: the last one of each burst, when it is over.
//
//   1 2 3 . . . . 4 . .  ▶ debounce(d) ▶   . . . . . 3 . . . . 4      d = 3 dots
template <class Rep, class Period>
[[nodiscard]] auto debounce(std::chrono::duration<Rep, Period> d) {
  return stream_detail::OwnFiber<stream_detail::Debounce, Duration>{to_duration(d)};
}

// The latest value every d, counted from the start of the stage; nothing, if none has come since.
// Throws std::invalid_argument for a period that is not positive.
//
//   1 2 . . 3 . . . . .  ▶ sample(d) ▶     . . . 2 . . 3 . . .        d = 3 dots
template <class Rep, class Period>
[[nodiscard]] auto sample(std::chrono::duration<Rep, Period> d) {
  const Duration period = to_duration(d);
  if (period == Duration::zero()) throw std::invalid_argument{"weft::sample: not positive"};
  return stream_detail::OwnFiber<stream_detail::Sample, Duration>{period};
}

// All values. If it has waited for one for d, the stream fails with TimedOut: who receives throws
// it, the nursery does not fail by itself. The time that values wait to be taken does not count.
//
//   1 2 . 3 . . . .      ▶ timeout(d) ▶    1 2 . 3 . . TimedOut       d = 3 dots
template <class Rep, class Period>
[[nodiscard]] auto timeout(std::chrono::duration<Rep, Period> d) {
  return stream_detail::OwnFiber<stream_detail::Timeout, Duration>{to_duration(d)};
}

// The latest value, as often as somebody receives. It waits only for the first; when the input has
// ended, the last value comes for ever. If there was none, the stream ends.
//
//   1 2 . . 3 |          ▶ latch() ▶       1 2 2 2 3 3 3 …
[[nodiscard]] inline auto latch() {
  return stream_detail::OwnFiber<stream_detail::LatestForEver, stream_detail::NoSettings>{{}};
}

}  // namespace weft
