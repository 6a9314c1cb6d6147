// Nurseries: a scope that owns fibers and does not end before they have.
//
//   weft::nursery([&](weft::Nursery& n) {
//     n.spawn([&] { warm(cache); });
//     n.spawn("reader", [&] { read(cache); });
//   });                                     // both have ended here, whatever happened
//
// Children may refer to what is outside the nursery's braces. What is inside dies when the body
// returns, before the children are joined: hand it over by value.
#pragma once

#include <weft/core/closure.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <concepts>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace weft {

struct SpawnOptions {
  Name name;
};

struct NurseryOptions {
  Name name;
};

// Thrown by nursery() when its body was unwound by the nursery's own cancellation, so that there is
// no value to return.
class NurseryCancelled : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "weft: the nursery was cancelled before its body returned a value";
  }
};

// Given to the body of nursery(). Only there, and in its children, may it be used.
class Nursery final : public Home {
 public:
  // Starts `f` as a child fiber: it runs once, some time before nursery() returns, unless the
  // nursery is cancelled first. Never parks, allocates nothing in the steady state (captures up to
  // 160 bytes). By the body, by children, or by a thread that one of them waits for. `f` is moved
  // into the child's frame; if that throws, nothing was spawned.
  template <std::invocable F>
  void spawn(F f) {
    static_assert(std::is_void_v<std::invoke_result_t<F>>,
                  "spawn() drops no results: use async(), or return void");
    start(make_fiber(io(), *this, std::move(f)));
  }
  template <std::invocable F>
  void spawn(Name name, F f) {
    static_assert(std::is_void_v<std::invoke_result_t<F>>,
                  "spawn() drops no results: use async(), or return void");
    Fiber& child = make_fiber(io(), *this, std::move(f));
    child.set_name(std::move(name));
    start(child);
  }
  template <std::invocable F>
  void spawn(SpawnOptions options, F f) {
    spawn(std::move(options.name), std::move(f));
  }

  // Asks the body and the children to stop; those that have not started never run. From anywhere
  // the nursery may be used, any thread included. Idempotent.
  void cancel() noexcept {
    if (word_.begin_cancelling()) CancelScope::cancel();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_.view(); }
  [[nodiscard]] const Fiber* owner() const noexcept override { return &owner_; }
  [[nodiscard]] NurseryState state() const noexcept override { return word_.state(); }

 private:
  template <class Body>
  friend auto nursery(NurseryOptions options, Body&& body)
      -> std::invoke_result_t<Body, Nursery&>;

  Nursery(Fiber& owner, NurseryOptions options) noexcept
      : Home(owner.scope), owner_(owner), name_(std::move(options.name)) {}
  ~Nursery() = default;

  [[nodiscard]] Io& io() const noexcept { return *owner_.io; }
  // The owner counts its own spawns without an atomic.
  void start(Fiber& child) {
    const bool by_owner = &Fiber::current() == &owner_;
    if (by_owner) ++spawned_;
    else word_.child_added();
    try {
      io().start(child);
    } catch (...) {
      take_back(child, by_owner);
      throw;
    }
  }
  [[gnu::cold]] void take_back(Fiber& child, bool by_owner) noexcept;
  void fail(std::exception_ptr error) noexcept;
  // After the body: waits for the last child.
  void join() noexcept {
    if (!run_own_children()) [[unlikely]] wait_for_children();
    if constexpr (spec::kSpecAssert) end_state();
  }
  void end_state() noexcept;  // terminal; nobody can see it but the checks
  bool run_own_children() noexcept;
  void wait_for_children() noexcept;

  void child_failed(Fiber& child, std::exception_ptr error) noexcept override;
  void child_cancelled() noexcept override {
    child_cancelled_.store(true, std::memory_order_relaxed);  // the count orders it before the join
  }
  void children_ended(std::size_t count) noexcept override;

  class Join;

  // One word: {live, waiter, state}. The last child and the joiner cannot miss each other, and
  // nobody touches a nursery after the step that lets its owner go.
  //
  // While the body runs, its own spawns are counted in a plain field (spawned_), and the word holds
  // kBodyHolds on top: children may end at any time, and the count does not reach zero early.
  class Word {
   public:
    void child_added() noexcept { bits_.fetch_add(kChild, std::memory_order_relaxed); }
    void child_not_added() noexcept { bits_.fetch_sub(kChild, std::memory_order_relaxed); }
    // True: those were the last, and the owner waits: it is the caller's to wake.
    [[nodiscard]] bool children_ended(std::size_t count) noexcept;
    // The body has ended; the word now counts everybody. True: there is nobody.
    [[nodiscard]] bool body_ended(std::int64_t spawned) noexcept;
    // The owner is about to park. False: the last child has ended meanwhile.
    [[nodiscard]] bool owner_waits() noexcept;
    [[nodiscard]] bool nobody_left() const noexcept;
    // Nobody but the body has ever counted here, and nobody cancelled.
    [[nodiscard]] bool is_untouched() const noexcept {
      return bits_.load(std::memory_order_acquire) == kBodyHolds;
    }
    void end() noexcept;  // to a terminal state
    // False: it was on its way already.
    bool begin_cancelling() noexcept;
    [[nodiscard]] NurseryState state() const noexcept;

   private:
    static constexpr std::uint64_t kStateMask = 7;
    static constexpr std::uint64_t kWaiter = 8;
    static constexpr std::uint64_t kChild = 16;
    static constexpr std::uint64_t kBodyHolds = kChild << 48;
    void move_to(NurseryState to) noexcept;
    static NurseryState state_of(std::uint64_t bits) noexcept {
      return static_cast<NurseryState>(bits & kStateMask);
    }
    Atomic<std::uint64_t> bits_{kBodyHolds};
  };

  Fiber& owner_;
  Word word_;
  std::int64_t spawned_ = 0;  // by the owner, not yet in word_, less those it ran in place
  Var<Join*> join_{nullptr};  // before the waiter bit is set
  Atomic<bool> child_cancelled_{false};
  Lock error_lock_;
  std::exception_ptr error_;  // the first one
  Name name_;
};

// Runs `body` with a Nursery, then waits until every child has ended. Returns body's value, or
// throws the first failure among body and children; a failure cancels the others. If the nursery's
// own cancel() unwound the body, a void nursery returns and any other throws NurseryCancelled. What
// an outer scope's cancel unwound here, body or child, goes on unwinding. The join itself is not a
// cancel point: cancellation reaches the children, and the join waits for them. Must be called
// inside an engine; throws std::logic_error elsewhere.
template <class Body>
auto nursery(NurseryOptions options, Body&& body) -> std::invoke_result_t<Body, Nursery&> {
  using R = std::invoke_result_t<Body, Nursery&>;
  static_assert(!std::is_reference_v<R>, "the body's locals are gone: return by value");
  Fiber& self = Fiber::current();
  if (!self.scope) [[unlikely]] static_cast<void>(io());  // throws: not inside an engine
  Nursery n{self, std::move(options)};
  [[maybe_unused]] std::optional<std::conditional_t<std::is_void_v<R>, bool, R>> result;
  bool returned = false;
  try {
    const Entered entered{self, n};
    if constexpr (std::is_void_v<R>) std::invoke(std::forward<Body>(body), n);
    else result.emplace(std::invoke(std::forward<Body>(body), n));
    returned = true;
  } catch (const Cancelled&) {
  } catch (...) {
    n.fail(std::current_exception());
  }
  n.join();
  if (n.error_) [[unlikely]] std::rethrow_exception(n.error_);
  const bool unwound = !returned || n.child_cancelled_.load(std::memory_order_relaxed);
  if (unwound) [[unlikely]] attend(self);  // an outer cancel goes on; our own never leaves us
  if constexpr (!std::is_void_v<R>)
    if (!returned) throw NurseryCancelled{};
  if constexpr (!std::is_void_v<R>) return std::move(*result);
}

template <class Body>
  requires std::invocable<Body, Nursery&>
auto nursery(Body&& body) -> std::invoke_result_t<Body, Nursery&> {
  return nursery(NurseryOptions{}, std::forward<Body>(body));
}

}  // namespace weft
