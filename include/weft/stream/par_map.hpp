// par_map: a function that takes its time, for several values at once.
//
// One fiber of the caller's nursery leads `width` workers in a nursery of its own. They receive
// the input and send the output themselves: there is nobody between who would have to be waited
// for.
//
// In order, the workers stand in a ring. Two turns go around it: who has the first may receive,
// who has the second may send. So worker i has every width-th value, in and out; a slow one holds
// back those that are done before it, which is the bound on values that are held.
//
// Rejected:  a fiber for each value (a spawn, a future and a queue of them: more than the turns
//            cost); sequence numbers and a fiber that sorts (two more channels on the way).
#pragma once

#include <weft/semaphore.hpp>
#include <weft/stream/stage.hpp>

#include <functional>
#include <stdexcept>
#include <vector>

namespace weft {

namespace stream_detail {

// What the workers share.
template <class T, class R, class F>
struct Team {
  const Receiver<T>& rx;
  const Outlet<R>& out;
  F& f;
  Nursery& n;

  // Empty: there are no more, or nobody wants any. An error of the input is asked for by the lead,
  // when the values before it are out.
  std::optional<T> next() const {
    this_fiber::checkpoint();
    try {
      if (Received<T> got = rx.try_recv()) return *std::move(got);
      else if (got.status() == RecvStatus::closed) return std::nullopt;
      auto gone = out.on_gone();
      auto value = rx.on_recv();
      if (select_first(gone, value) == 1) return std::move(value.value());
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      if (!rx.error()) throw;
      return std::nullopt;
    }
    n.cancel();
    return std::nullopt;
  }
  // False: nobody wants any more.
  bool give(R&& result) const {
    if (out(std::move(result))) return true;
    n.cancel();
    return false;
  }
};

template <class T, class R, class F>
struct Unordered {
  static constexpr const char* kName = "par_map_unordered";

  Unordered(Team<T, R, F> of, std::size_t) : team(of) {}
  void work(std::size_t) {
    while (std::optional<T> value = team.next())
      if (!team.give(R(std::invoke(team.f, *std::move(value))))) return;
  }

  Team<T, R, F> team;
};

template <class T, class R, class F>
struct Ordered {
  static constexpr const char* kName = "par_map";

  Ordered(Team<T, R, F> of, std::size_t width) : team(of), turns(width) {
    turns[0].to_take.release();
    turns[0].to_give.release();
  }
  void work(std::size_t i) {
    Turns& mine = turns[i];
    Turns& neighbour = turns[i + 1 < turns.size() ? i + 1 : 0];
    for (;;) {
      mine.to_take.acquire();
      std::optional<T> value;
      if (!ended) value = team.next();
      ended = !value;
      neighbour.to_take.release();
      if (!value) return;
      Settled<R> result;
      result.settle([&] { return R(std::invoke(team.f, *std::move(value))); });
      value.reset();
      // An error, too, has its turn: the values before it are out.
      mine.to_give.acquire();
      if (!team.give(std::move(result.value()))) return;
      neighbour.to_give.release();
    }
  }

  struct Turns {
    Semaphore to_take{0};
    Semaphore to_give{0};
  };
  Team<T, R, F> team;
  std::vector<Turns> turns;
  bool ended = false;  // of who has the turn to take
};

template <template <class, class, class> class How, class T, class R, class F>
struct ParMapBody {
  Receiver<T> rx;
  F f;
  std::size_t width;

  void operator()(Outlet<R>& out) {
    using Ring = How<T, R, F>;
    std::optional<Ring> ring;  // outlives the workers
    nursery({.name = Name{std::string_view{Ring::kName}}}, [&](Nursery& n) {
      ring.emplace(Team<T, R, F>{rx, out, f, n}, width);
      for (std::size_t i = 0; i < width; ++i) {
        const auto worker = [&workers = *ring, i] {
          this_fiber::set_name(Name{std::string_view{Ring::kName}});
          workers.work(i);
        };
        if (!n.try_spawn(worker)) break;  // one of them has ended it all
      }
    });
    if (std::exception_ptr error = rx.error()) throw UpstreamFailed{std::move(error)};
  }
};

template <template <class, class, class> class How, class F>
struct ParMap : StageTag {
  ParMap(std::size_t n, F by) : width(n), f(std::move(by)) {
    if (width == 0) throw std::invalid_argument("weft: par_map with a width of 0");
  }
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    using T = typename S::value_type;
    static_assert(std::invocable<F&, T>, "par_map: the function does not take these values");
    using R = std::remove_cvref_t<std::invoke_result_t<F&, T>>;
    static_assert(!std::is_void_v<R>, "par_map: the function returns nothing; return a value");
    Nursery& n = s.nursery();
    const Name name{std::string_view{How<T, R, F>::kName}};
    return stream_of(n, spawn_into_channel<R>(
                            n, name, 0,
                            ParMapBody<How, T, R, F>{std::move(s).open(), std::move(f), width}));
  }
  std::size_t width;
  F f;
};

}  // namespace stream_detail

// f(value) instead of each value, in their order, for up to `width` values at once. `f` is called
// by several fibers and may wait. A value whose turn has not come is held back, and counts: at most
// `width` values are between input and output. If f throws, the stream fails where that value would
// have been. Throws std::invalid_argument for a width of 0.
//
//   1 2 3 4   ▶ par_map(2, slow_square) ▶   1 4 9 16, in half the time
template <class F>
[[nodiscard]] auto par_map(std::size_t width, F f) {
  return stream_detail::ParMap<stream_detail::Ordered, F>{width, std::move(f)};
}

// The same, as they come: a slow value holds nobody back. If f throws, the stream fails at once.
//
//   1 2 3 4   ▶ par_map_unordered(2, slow_square) ▶   4 1 9 16
template <class F>
[[nodiscard]] auto par_map_unordered(std::size_t width, F f) {
  return stream_detail::ParMap<stream_detail::Unordered, F>{width, std::move(f)};
}

}  // namespace weft
