// par_map: a function that takes its time, for several values at once.
//
// One fiber of the caller's nursery leads `width` workers in a nursery of its own. Unordered, they
// receive the input and send the output themselves, and it only waits for them. In order, it
// numbers the values and hands them out; who puts the result that the others wait for sends those
// that are there.
//
// A worker must not wait for a slower one while there is something to do. It would be woken where
// that one runs, and all would gather on one core: hence a generous number of results that are held
// back.
//
// Rejected:  a fiber for each value (a spawn, a future and a queue of them); workers in a ring who
//            take and give in turns, or as many held results as workers (less per value, but of two
//            cores only one had work, with 10 us for each); a second fiber that sorts (one more
//            channel on the way).
#pragma once

#include <weft/mutex.hpp>
#include <weft/semaphore.hpp>
#include <weft/stream/stage.hpp>

#include <deque>
#include <functional>
#include <stdexcept>

namespace weft {

namespace stream_detail {

// Room in each channel on the way, and half as much as results may wait for a slower one before
// them: some milliseconds of work, as long as a core may be somebody else's.
inline constexpr std::size_t kAhead = 256;

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

  Unordered(Team<T, R, F> of, std::size_t, std::size_t) : team(of) {}
  void lead() {}
  void work() {
    while (std::optional<T> value = team.next())
      if (!team.give(R(std::invoke(team.f, *std::move(value))))) return;
  }

  Team<T, R, F> team;
};

template <class T, class R, class F>
class Ordered {
 public:
  static constexpr const char* kName = "par_map";

  Ordered(Team<T, R, F> of, std::size_t width, std::size_t ahead)
      : team_(of), jobs_(ahead), places_(2 * ahead + width) {}

  void lead() {
    for (std::size_t number = 0;; ++number) {
      places_.acquire();
      std::optional<T> value = team_.next();
      if (!value || !jobs_.tx.send(Job{number, *std::move(value)})) break;
    }
    jobs_.tx.drop();
  }
  void work() {
    while (std::optional<Job> job = jobs_.rx.recv()) {
      Settled<R> result;
      result.settle([&] { return R(std::invoke(team_.f, std::move(job->value))); });
      const std::size_t number = job->number;
      job.reset();
      if (!put(number, std::move(result))) return;
    }
  }

 private:
  struct Job {
    std::size_t number;
    T value;
  };
  struct Held {
    explicit Held(Mutex& mutex) : of(mutex) { of.lock(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { of.unlock(); }
    Mutex& of;
  };

  // Who puts the result that the others wait for sends them all. False: nobody wants any more.
  bool put(std::size_t number, Settled<R>&& result) {
    if (!keep(number, std::move(result))) return true;
    while (std::optional<Settled<R>> next = first()) {
      if (!team_.give(std::move(next->value()))) return false;
      places_.release();
    }
    return true;
  }
  // True: it is ours to send what is there.
  bool keep(std::size_t number, Settled<R>&& result) {
    const Held held{mutex_};
    const std::size_t at = number - sent_;
    if (at >= results_.size()) results_.resize(at + 1);
    results_[at].emplace(std::move(result));
    return !std::exchange(sending_, true);
  }
  // The next in order, if it is there; else who puts it sends it.
  std::optional<Settled<R>> first() {
    const Held held{mutex_};
    if (results_.empty() || !results_.front()) {
      sending_ = false;
      return std::nullopt;
    }
    std::optional<Settled<R>> next = std::move(results_.front());
    results_.pop_front();
    ++sent_;
    return next;
  }

  Team<T, R, F> team_;
  Channel<Job> jobs_;
  Semaphore places_;  // for values between input and output
  Mutex mutex_;       // of the three below
  std::deque<std::optional<Settled<R>>> results_;  // from number sent_ on
  std::size_t sent_ = 0;
  bool sending_ = false;
};

template <template <class, class, class> class How, class T, class R, class F>
struct ParMapBody {
  Receiver<T> rx;
  F f;
  std::size_t width;
  std::size_t ahead;

  void operator()(Outlet<R>& out) {
    using Work = How<T, R, F>;
    std::optional<Work> work;  // outlives the workers
    nursery({.name = Name{std::string_view{Work::kName}}}, [&](Nursery& n) {
      work.emplace(Team<T, R, F>{rx, out, f, n}, width, ahead);
      for (std::size_t i = 0; i < width; ++i) {
        const auto worker = [&of = *work] {
          this_fiber::set_name(Name{std::string_view{Work::kName}});
          of.work();
        };
        if (!n.try_spawn(worker)) return;  // one of them has ended it all
      }
      work->lead();
    });
    if (std::exception_ptr error = rx.error()) throw UpstreamFailed{std::move(error)};
  }
};

template <template <class, class, class> class How, class F>
struct ParMap : StageTag {
  ParMap(std::size_t n, F by, std::size_t values) : width(n), ahead(values), f(std::move(by)) {
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
                            n, name, ahead,
                            ParMapBody<How, T, R, F>{std::move(s).open(S::kIsChannel ? 0 : ahead),
                                                     std::move(f), width, ahead}));
  }
  std::size_t width;
  std::size_t ahead;
  F f;
};

}  // namespace stream_detail

// f(value) instead of each value, in their order, for up to `width` values at once. `f` is called
// by several fibers and may wait. If f throws, the stream fails where that value would have been.
// Throws std::invalid_argument for a width of 0.
//
// `ahead`: up to so many values wait before the calls, twice as many behind a slow one, and so many
// results to be received. For large values choose less: with 0, none beside those that are being
// called for; but then the callers wait for each other, and gather on one core.
//
//   1 2 3 4   ▶ par_map(2, slow_square) ▶   1 4 9 16, in half the time
template <class F>
[[nodiscard]] auto par_map(std::size_t width, F f, std::size_t ahead = stream_detail::kAhead) {
  return stream_detail::ParMap<stream_detail::Ordered, F>{width, std::move(f), ahead};
}

// The same, as they come: a slow value holds nobody back. If f throws, the stream fails at once.
//
//   1 2 3 4   ▶ par_map_unordered(2, slow_square) ▶   4 1 9 16
template <class F>
[[nodiscard]] auto par_map_unordered(std::size_t width, F f,
                                     std::size_t ahead = stream_detail::kAhead) {
  return stream_detail::ParMap<stream_detail::Unordered, F>{width, std::move(f), ahead};
}

}  // namespace weft
