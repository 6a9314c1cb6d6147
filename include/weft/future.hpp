// Futures: the results of child fibers, and the ways to wait for several.
//
//   auto [user, posts] = weft::all([&] { return load_user(id); }, [&] { return load_posts(id); });
//
// Structured like everything else: whatever all(), race() and the others started has ended when
// they return.
#pragma once

#include <weft/base/keepers.hpp>
#include <weft/core/arm.hpp>
#include <weft/nursery.hpp>

#include <ranges>
#include <tuple>
#include <variant>
#include <vector>

namespace weft {

// Thrown by Future::get() when the child was cancelled, or dropped before it ran.
class ChildCancelled : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "weft: the child was cancelled before it had a result";
  }
};

// Thrown by any() when every function failed.
class AllFailed : public ChildErrors {
 public:
  using ChildErrors::ChildErrors;
};

namespace detail {

template <class T>
using NonVoid = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

// Calls `f`; what is void becomes std::monostate.
template <class F>
NonVoid<std::invoke_result_t<F>> invoke_to_value(F&& f) {
  if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
    std::invoke(std::forward<F>(f));
    return {};
  } else {
    return std::invoke(std::forward<F>(f));
  }
}

// The part of a future's state that does not depend on T. Two keep it: the future and the child.
//
// It is the child's home, in front of the nursery: the scope that the future cancels, who is told
// how the child ended, and the mark by which get() knows the child among the unborn.
//
// Invariant: a result that nobody has taken dies in the middle of a fiber, where its destructor may
//            wait: in the one that drops the future, or in the child, before the nursery's join.
// Race:      the future is dropped while the child settles. Both look under the lock: the child
//            finds that nobody wants the result, or the future finds it settled.
class FutureBase : public Home {
 public:
  FutureBase(const FutureBase&) = delete;
  FutureBase& operator=(const FutureBase&) = delete;

  void let_go() noexcept {
    if (keepers_.drop()) delete this;
  }
  // There is no child after all.
  void not_spawned() noexcept { keepers_.only_one(); }

  enum class Status : std::uint8_t { pending, value, error, cancelled, taken };

  // acquire: pairs with settle(); who sees a result sees all of it.
  [[nodiscard]] Status status() const noexcept { return status_.load(std::memory_order_acquire); }
  // Ends the pending state, once, and wakes all who wait. The result is in its place before. False:
  // nobody will come for it, and it is the caller's to destroy.
  bool settle(Status status, std::exception_ptr error = nullptr) noexcept;
  // By who drops the future. True: settled, and the result is the caller's to destroy.
  [[nodiscard]] bool abandon() noexcept;
  // Until it is settled. Cancel point.
  void wait();
  // The status that get() finds; afterwards it is taken.
  Status take();
  [[nodiscard]] const std::exception_ptr& error() const noexcept { return error_; }

  // Asks the child alone to stop; one that has not started finds out when it does.
  void cancel() noexcept {
    if (status() == Status::pending) CancelScope::cancel();
  }

  class Ready;

 protected:
  explicit FutureBase(Nursery& nursery) noexcept : Home(&nursery, nursery.owner()) {}
  virtual ~FutureBase() = default;

 private:
  [[nodiscard]] Nursery& nursery() const noexcept { return static_cast<Nursery&>(*parent()); }
  void run_child_in_place(Fiber& self);

  void child_failed(Fiber& child, std::exception_ptr error) noexcept override;
  void child_cancelled() noexcept override;
  void children_ended(std::size_t count) noexcept override;
  bool children_ended_for_owner(std::size_t count) noexcept override;
  void child_ended() noexcept;
  [[nodiscard]] const Home& family() const noexcept override { return nursery(); }
  [[nodiscard]] std::string_view name() const noexcept override { return nursery().name(); }
  [[nodiscard]] NurseryState state() const noexcept override { return nursery().state(); }

  Keepers keepers_{2};
  mutable Sync::KeptLock lock_;             // protects the rest; held by one of the two keepers
  Atomic<Status> status_{Status::pending};  // settled under the lock
  Var<bool> abandoned_{false};
  std::exception_ptr error_;                // once settled the future's alone, and needs no lock
  WaitList waiters_;
};

class FutureBase::Ready : public Waitable {
 public:
  explicit Ready(FutureBase& state) noexcept : state_(state) {}
  bool try_complete() override { return state_.status() != Status::pending; }
  bool publish() noexcept override;
  void unpublish() noexcept override;
  [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "future"}; }

 private:
  FutureBase& state_;
};

template <class T>
class FutureState final : public FutureBase {
 public:
  explicit FutureState(Nursery& nursery) noexcept : FutureBase(nursery) {}
  std::optional<NonVoid<T>> value;
};

// The future's share of a state.
template <class T>
class KeptState {
 public:
  explicit KeptState(FutureState<T>* state) noexcept : state_(state) {}
  KeptState(KeptState&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  KeptState& operator=(KeptState&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~KeptState() {
    if (!state_) return;
    if (state_->abandon()) state_->value.reset();
    state_->let_go();
  }
  FutureState<T>* operator->() const noexcept { return state_; }
  FutureState<T>& operator*() const noexcept { return *state_; }

 private:
  FutureState<T>* state_;
};

}  // namespace detail

// The result of Nursery::async(). Moves; its child is owned by the nursery, not by it.
template <class T>
class [[nodiscard]] Future {
  static_assert(!std::is_reference_v<T>, "return by value, or a pointer");

 public:
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  // The child's value, or its exception, or ChildCancelled. Waits for it. Cancel point. Once: a
  // second call throws std::logic_error.
  T get() {
    wait();
    switch (state_->take()) {
      case detail::FutureBase::Status::value:
        if constexpr (std::is_void_v<T>) return;
        else return std::move(*state_->value);
      case detail::FutureBase::Status::error: std::rethrow_exception(state_->error());
      default: throw ChildCancelled{};
    }
  }
  // Until get() would not wait. Cancel point; the second form returns false instead of throwing.
  void wait() { state_->wait(); }
  [[nodiscard]] bool wait(no_throw_t) {
    detail::FutureBase::Ready ready{*state_};
    return weft::wait(ready, no_throw);
  }
  // Whether get() would not wait.
  [[nodiscard]] bool ready() const noexcept {
    return state_->status() != detail::FutureBase::Status::pending;
  }
  // Asks the child, and what it has spawned, to stop. Its nursery goes on; get() then throws
  // ChildCancelled, unless the child had a result in spite of it.
  void cancel() noexcept { state_->cancel(); }
  // As an arm: completes when get() would not wait.
  [[nodiscard]] detail::FutureBase::Ready on_ready() noexcept {
    return detail::FutureBase::Ready{*state_};
  }
  template <std::invocable Handler>
  [[nodiscard]] Handled<detail::FutureBase::Ready, Handler> on_ready(Handler handler) {
    return Handled<detail::FutureBase::Ready, Handler>{std::move(handler), *state_};
  }

 private:
  friend class Nursery;
  explicit Future(detail::KeptState<T> state) noexcept : state_(std::move(state)) {}

  detail::KeptState<T> state_;
};

namespace detail {

// What runs in the child. How it ends otherwise, its home is told.
template <class T, class F>
struct AsyncBody {
  FutureState<T>& state;
  F f;

  void operator()() && {
    if (mutant::kSettledBeforeResult)
      static_cast<void>(state.settle(FutureBase::Status::value));
    state.value.emplace(invoke_to_value(std::move(f)));
    if (!state.settle(FutureBase::Status::value)) state.value.reset();
  }
};

}  // namespace detail

template <std::invocable F>
Future<std::invoke_result_t<F>> Nursery::async(F f, Site site) {
  using T = std::invoke_result_t<F>;
  auto* const state = new detail::FutureState<T>{*this};
  Future<T> future{detail::KeptState<T>{state}};
  try {
    Name none;
    spawn_in(*state, none, detail::AsyncBody<T, F>{*state, std::move(f)}, site);
  } catch (...) {
    state->not_spawned();
    throw;
  }
  return future;
}

namespace detail {

// Spawns run(0), run(1), … each with its number as a std::integral_constant, unless one of them
// has decided already that the rest is not wanted. `run` must outlive the nursery. A fold over
// lambdas would read better, but clang 14 does not survive it.
template <class Run, std::size_t I>
struct Runner {
  const Run& run;
  void operator()() const { run(std::integral_constant<std::size_t, I>{}); }
};
template <class Run, std::size_t... I>
void spawn_each(Nursery& n, const Run& run, std::index_sequence<I...>) {
  (static_cast<void>(n.try_spawn(Runner<Run, I>{run})), ...);
}

}  // namespace detail

// Runs all of `f…` at once, and returns their values; void becomes std::monostate. The first
// failure cancels the others and is thrown.
template <std::invocable... F>
auto all(F&&... f) -> std::tuple<detail::NonVoid<std::invoke_result_t<F>>...> {
  std::tuple<std::optional<detail::NonVoid<std::invoke_result_t<F>>>...> results;
  std::tuple<F&&...> functions{std::forward<F>(f)...};
  const auto run = [&](auto index) {
    constexpr std::size_t kIndex = decltype(index)::value;
    std::get<kIndex>(results).emplace(
        detail::invoke_to_value(std::get<kIndex>(std::move(functions))));
  };
  nursery([&](Nursery& n) { detail::spawn_each(n, run, std::index_sequence_for<F...>{}); });
  return std::apply(
      [](auto&... result) {
        if (!(result && ...)) throw ChildCancelled{};  // in a destructor, while a cancel unwinds
        return std::tuple<detail::NonVoid<std::invoke_result_t<F>>...>{std::move(*result)...};
      },
      results);
}

// How one function of all_settled() ended.
template <class T>
class [[nodiscard]] Settled {
 public:
  [[nodiscard]] explicit operator bool() const noexcept { return value_.has_value(); }
  // The value; throws the error if there is none.
  T& value() {
    if (error_) std::rethrow_exception(error_);
    if (!value_) throw ChildCancelled{};
    return *value_;
  }
  [[nodiscard]] const std::exception_ptr& error() const noexcept { return error_; }

  // Runs `f` and keeps what comes of it. Cancelled goes on.
  template <class F>
  void settle(F&& f) {
    try {
      value_.emplace(detail::invoke_to_value(std::forward<F>(f)));
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      error_ = std::current_exception();
    }
  }

 private:
  std::optional<T> value_;
  std::exception_ptr error_;
};

// Runs all of `f…` at once, to their ends, and returns what came of each. A failure stops nobody.
template <std::invocable... F>
auto all_settled(F&&... f) -> std::tuple<Settled<detail::NonVoid<std::invoke_result_t<F>>>...> {
  std::tuple<Settled<detail::NonVoid<std::invoke_result_t<F>>>...> results;
  std::tuple<F&&...> functions{std::forward<F>(f)...};
  const auto run = [&](auto index) {
    constexpr std::size_t kIndex = decltype(index)::value;
    std::get<kIndex>(results).settle(std::get<kIndex>(std::move(functions)));
  };
  nursery([&](Nursery& n) { detail::spawn_each(n, run, std::index_sequence_for<F...>{}); });
  return results;
}

// Runs all of `f…` at once; the first to finish, by returning or by throwing, decides. The others
// are cancelled, and have ended when race() returns. The variant's index tells who won; void
// becomes std::monostate. Throws what the winner threw.
template <std::invocable... F>
auto race(F&&... f) -> std::variant<detail::NonVoid<std::invoke_result_t<F>>...> {
  static_assert(sizeof...(F) > 0, "a race without runners has no winner");
  using Result = std::variant<detail::NonVoid<std::invoke_result_t<F>>...>;
  std::optional<Result> result;
  std::exception_ptr error;
  Atomic<bool> decided{false};
  std::tuple<F&&...> functions{std::forward<F>(f)...};
  Nursery* home = nullptr;
  const auto run = [&](auto index) {
    constexpr std::size_t kIndex = decltype(index)::value;
    Settled<std::variant_alternative_t<kIndex, Result>> own;
    own.settle(std::get<kIndex>(std::move(functions)));
    // acq_rel: one winner; the join orders its result before the caller's look.
    if (mutant::kRaceDecidedApart) {
      if (decided.load(std::memory_order_acquire)) return;
      decided.store(true, std::memory_order_release);
    } else if (decided.exchange(true, std::memory_order_acq_rel)) {
      return;
    }
    if (own) result.emplace(std::in_place_index<kIndex>, std::move(own.value()));
    else error = own.error();
    if (!mutant::kRaceLoserRuns) home->cancel();
  };
  nursery([&](Nursery& n) {
    home = &n;
    detail::spawn_each(n, run, std::index_sequence_for<F...>{});
  });
  if (error) std::rethrow_exception(error);
  if (!result) throw ChildCancelled{};  // in a destructor, while an outer cancel unwinds
  return std::move(*result);
}

// Runs all of `f…` at once; the first to succeed decides, and the others are cancelled. Throws
// AllFailed, with every error in order of failure, if none succeeds.
template <std::invocable... F>
auto any(F&&... f) -> std::variant<detail::NonVoid<std::invoke_result_t<F>>...> {
  static_assert(sizeof...(F) > 0, "nobody can succeed");
  using Result = std::variant<detail::NonVoid<std::invoke_result_t<F>>...>;
  std::optional<Result> result;
  Lock lock;
  std::vector<std::exception_ptr> errors;
  errors.reserve(sizeof...(F));
  Atomic<bool> decided{false};
  std::tuple<F&&...> functions{std::forward<F>(f)...};
  Nursery* home = nullptr;
  const auto run = [&](auto index) {
    constexpr std::size_t kIndex = decltype(index)::value;
    Settled<std::variant_alternative_t<kIndex, Result>> own;
    own.settle(std::get<kIndex>(std::move(functions)));
    if (!own) {
      const Locked locked{lock};
      errors.push_back(own.error());
      return;
    }
    if (decided.exchange(true, std::memory_order_acq_rel)) return;
    result.emplace(std::in_place_index<kIndex>, std::move(own.value()));
    home->cancel();
  };
  nursery([&](Nursery& n) {
    home = &n;
    detail::spawn_each(n, run, std::index_sequence_for<F...>{});
  });
  if (result) return std::move(*result);
  if (errors.size() != sizeof...(F)) throw ChildCancelled{};
  throw AllFailed{std::move(errors)};
}

// Calls `f(i)` for every i below `count`, in pieces, on all workers. The first failure cancels the
// pieces that have not begun and is thrown. Pieces begin with a checkpoint.
template <std::invocable<std::size_t> F>
void parallel_for(std::size_t count, F&& f, Site site = Site::here()) {
  // Halves, and halves of those: thieves take the large ones, and the rest is run in place.
  struct Piece {
    F& f;
    std::size_t grain;
    Site site;
    void operator()(std::size_t from, std::size_t to) const {
      checkpoint(Fiber::current());
      if (to - from <= grain) {
        for (; from != to; ++from) f(from);
        return;
      }
      const std::size_t middle = from + (to - from) / 2;
      nursery([&](Nursery& n) {
        n.spawn([this, middle, to] { (*this)(middle, to); }, site);
        (*this)(from, middle);
      });
    }
  };
  if (count == 0) return;
  Piece{f, count / 256 + 1, site}(0, count);
}

// The same for every element of a random-access range.
template <std::ranges::random_access_range R, class F>
  requires std::ranges::sized_range<R> && std::invocable<F&, std::ranges::range_reference_t<R>>
void parallel_for(R&& range, F&& f, Site site = Site::here()) {
  const auto first = std::ranges::begin(range);
  const auto call = [&](std::size_t i) {
    f(first[static_cast<std::ranges::range_difference_t<R>>(i)]);
  };
  parallel_for(static_cast<std::size_t>(std::ranges::size(range)), call, site);
}

}  // namespace weft
