// blocking: calls that block their thread, made on a thread that may be blocked.
//
//   const std::string text = weft::blocking([&] { return slurp(path); });
//
// The calling fiber waits; its worker goes on with other fibers. Meant for what cannot be done
// otherwise: files, libraries that wait by themselves, long computations in one piece.
#pragma once

#include <weft/cancel.hpp>
#include <weft/core/offload.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>

#include <concepts>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

namespace weft {

namespace detail {

template <class F>
class BlockingCall final : public OffloadJob {
  using R = std::invoke_result_t<F>;

 public:
  explicit BlockingCall(F&& f) noexcept : f_(std::forward<F>(f)) {}

  void run() noexcept override {
    try {
      result_.emplace(invoke_to_value(std::forward<F>(f_)));
    } catch (...) {
      error_ = std::current_exception();
    }
    made_.set();
  }

  R get(Offload& threads) {
    while (!made_.wait(no_throw) && !made_.is_set()) {
      if (threads.withdraw(*this)) {
        attend(Fiber::current());  // throws Cancelled
        threads.submit(*this);
      } else {
        shielded([this] { made_.wait(); });  // it refers to what our caller owns
      }
    }
    if (error_) std::rethrow_exception(error_);
    if constexpr (!std::is_void_v<R>) return std::move(*result_);
  }

 private:
  F&& f_;
  Event made_{"blocking call"};
  std::optional<NonVoid<R>> result_;
  std::exception_ptr error_;
};

}  // namespace detail

// Calls `f` once, on a thread of the engine that no fiber runs on, and returns what it returns or
// throws what it throws. Parks until then.
//
// Cancel point. Cancelled before `f` has begun, it is not called; while it runs, blocking() waits
// for its end and returns its result: the next wait throws Cancelled. So a call that hangs holds
// its scope, timeouts included.
//
// At most Options::max_blocking calls at a time; the others wait, first come, first served. `f` may
// use channels, events and locks as any thread may, but no spawn(), and no fiber_local. On a plain
// thread, and in simulation, `f` is called here: a simulated world stands still meanwhile.
template <std::invocable F>
std::invoke_result_t<F> blocking(F&& f) {
  static_assert(!std::is_reference_v<std::invoke_result_t<F>>, "return by value, or a pointer");
  Fiber& self = Fiber::current();
  checkpoint(self);
  Offload* const threads = self.io->offload();
  if (!threads) return std::invoke(std::forward<F>(f));
  detail::BlockingCall<F> call{std::forward<F>(f)};
  threads->submit(call);
  return call.get(*threads);
}

// Announces that the calling fiber is about to block its worker, or to compute for long, on its own
// stack: other workers take over what waits for this one, now, instead of after the while it takes
// to notice. Cheap (some ten nanoseconds if nothing waits), and advisory: where nobody listens, in
// simulation and on plain threads, it does nothing.
//
//   {
//     const weft::blocking_hint hint;
//     legacy_flush();  // a millisecond, as a rule
//   }
//
// It holds until the fiber's next wait, or the end of the scope. For calls that block for long, or
// many at a time, use blocking(): there are more threads for those.
class [[nodiscard]] blocking_hint {
 public:
  blocking_hint() noexcept { Fiber::current().io->expect_blocking(true); }
  ~blocking_hint() { Fiber::current().io->expect_blocking(false); }
  blocking_hint(const blocking_hint&) = delete;
  blocking_hint& operator=(const blocking_hint&) = delete;
};

}  // namespace weft
