// Nurseries: a scope that owns fibers and does not end before they have.
//
//   weft::nursery([&](weft::Nursery& n) {
//     n.spawn([&] { warm(cache); });
//     n.spawn("reader", [&] { read(cache); });
//   });                                     // both have ended here, whatever happened
//
// Children may refer to what is outside the nursery's braces, or in its arena (make()). What is
// inside dies when the body returns, before the children are joined: hand it over by value.
#pragma once

#include <weft/cancel.hpp>
#include <weft/core/closure.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

template <class T>
class Future;
namespace detail {
class FutureBase;
}

struct SpawnOptions {
  Name name{};
};

// What a failure among body and children does to the others.
enum class ErrorPolicy : std::uint8_t {
  fail_fast,  // cancels them; nursery() throws the first
  supervise,  // nothing; nursery() throws the first once all have ended
  collect,    // nothing; nursery() throws ChildErrors with all of them
};

// Which workers may run a child.
enum class Migration : std::uint8_t {
  free,           // any, and another after each wait
  until_started,  // the one that runs it first, from then on
  pinned,         // the one that it was spawned on; spawned by a thread: as until_started
};

struct NurseryOptions {
  Name name{};
  ErrorPolicy on_error = ErrorPolicy::fail_fast;
  // Called with every error that nursery() does not throw, on the fiber that failed, and that
  // fiber's id. Without one they are printed on standard error. Must not throw.
  std::function<void(std::exception_ptr, FiberId)> on_suppressed{};
  std::size_t max_live = 0;    // children at a time; spawn() waits. 0: no limit
  std::size_t max_spawns = 0;  // children in all; one more throws BudgetExhausted. 0: no limit
  // For children that use thread_local state or thread-bound libraries across waits. A worker that
  // is busy elsewhere makes its pinned fibers wait. Of the children, not of theirs.
  Migration migration = Migration::free;
};

// Thrown by nursery() when its body was unwound by the nursery's own cancellation, so that there is
// no value to return.
class NurseryCancelled : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "weft: the nursery was cancelled before its body returned a value";
  }
};

// Thrown by spawn() after close() or after the nursery's own cancel(). Nothing was spawned.
class NurseryClosed : public std::logic_error {
 public:
  NurseryClosed() : std::logic_error("weft: spawn() into a nursery that takes no more children") {}
};

// Thrown by spawn() when the nursery has had max_spawns children.
class BudgetExhausted : public std::runtime_error {
 public:
  BudgetExhausted() : std::runtime_error("weft: the nursery's budget of spawns is used up") {}
};

// All failures of a nursery with ErrorPolicy::collect, in their order. what() is the first's.
class ChildErrors : public std::exception {
 public:
  explicit ChildErrors(std::vector<std::exception_ptr> errors);
  [[nodiscard]] std::span<const std::exception_ptr> errors() const noexcept { return *errors_; }
  [[nodiscard]] const char* what() const noexcept override { return what_->c_str(); }

 private:
  std::shared_ptr<const std::vector<std::exception_ptr>> errors_;
  std::shared_ptr<const std::string> what_;
};

// How a nursery ended. An error beats a cancellation, whichever came first.
struct NurseryResult {
  enum class Kind : std::uint8_t { success, child_failed, cancelled };
  Kind kind = Kind::success;
  std::exception_ptr error{};  // the first one
  FiberId child = 0;           // who failed; the owner's id: the body
  std::string_view child_name{};  // its name then; as long as the nursery is there
};

// Given to the body of nursery(). Only there, and in its children, may it be used.
class Nursery final : public Home {
 public:
  // Starts `f` as a child fiber: it runs once, some time before nursery() returns, unless the
  // nursery is cancelled first. Allocates nothing in the steady state (captures up to 152 bytes).
  // By the body, by children, or by a thread that one of them waits for. `f` is moved into the
  // child's frame; if that throws, nothing was spawned. Throws NurseryClosed or BudgetExhausted.
  // Never parks, unless NurseryOptions::max_live is reached: then it is a cancel point. `site` is
  // what dumps call the child's place; who spawns for somebody else passes that one's on.
  template <std::invocable F>
  void spawn(F f, Site site = Site::here()) {
    Name none;
    spawn_in(*this, none, std::move(f), site);
  }
  template <std::invocable F>
  void spawn(Name name, F f, Site site = Site::here()) {
    spawn_in(*this, name, std::move(f), site);
  }
  template <std::invocable F>
  void spawn(SpawnOptions options, F f, Site site = Site::here()) {
    spawn(std::move(options.name), std::move(f), site);
  }

  // False, and nothing happened, where spawn() would wait or throw NurseryClosed or
  // BudgetExhausted. Never parks.
  template <std::invocable F>
  [[nodiscard]] bool try_spawn(F f, Site site = Site::here()) {
    static_assert(std::is_void_v<std::invoke_result_t<F>>,
                  "try_spawn() drops no results: return void");
    if (!word_.is_open()) return false;
    if (!extras_) return try_admit(std::move(f), site);
    Permit permit = try_permit();
    return permit && with_budget([&] {
             return try_admit(Limited<F>{std::move(f), std::move(permit)}, site,
                              traits_of_children());
           });
  }

  // Starts `f` as a child whose result can be waited for. <weft/future.hpp>
  template <std::invocable F>
  [[nodiscard]] Future<std::invoke_result_t<F>> async(F f, Site site = Site::here());

  // A T that lives until every child has ended; destroyed in reverse order of making.
  template <class T, class... Args>
  T& make(Args&&... args) {
    auto node = std::make_unique<ArenaOf<T>>(std::forward<Args>(args)...);
    T& made = node->value;
    keep(node.release());
    return made;
  }

  // Closes a channel behind the children: when all of them have ended, however they did, and before
  // nursery() returns. What they have sent is still received; who waits for more learns that there
  // will be none, even if copies of the sender live on. `tx` is any end with close(); one of no
  // channel is ignored. In the order of make(): the last comes first.
  template <class Tx>
    requires requires(const Tx& end) { end.close(); }
  void close_after(Tx tx) {
    make<CloseAfter<Tx>>(std::move(tx));
  }

  // Asks the body and the children to stop; those that have not started never run. From anywhere
  // the nursery may be used, any thread included. Idempotent.
  void cancel() noexcept {
    preemption_point();
    cancel_because(CancelReason::requested);
  }
  // Lets them see this_fiber::stopping() first, and cancels them when `grace` has passed.
  template <class Rep, class Period>
  void cancel(std::chrono::duration<Rep, Period> grace) {
    cancel_at(saturating_add(io().now(), to_duration(grace)));
  }
  // Takes no more children from now on. True in the call that closed it.
  bool close() noexcept {
    preemption_point();
    return word_.begin_closing();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_.view(); }
  [[nodiscard]] NurseryState state() const noexcept override;
  // Children that have not ended; exact when none starts or ends meanwhile, and those that ended
  // one after another on one stack may be counted late, but never after the join.
  [[nodiscard]] std::size_t live() const noexcept { return word_.live(spawned_); }
  // Empty until the body has returned and the last child has ended: seen by the destructors of what
  // make() made.
  [[nodiscard]] std::optional<NurseryResult> result() const noexcept;

 private:
  template <class Body>
  friend auto nursery(NurseryOptions options, Body&& body)
      -> std::invoke_result_t<Body, Nursery&>;
  template <class Body>
    requires std::invocable<Body, Nursery&>
  friend auto nursery(Body&& body) -> std::invoke_result_t<Body, Nursery&>;

  // What only nurseries with options need.
  struct Extras;
  class Slot;
  class Grace;
  // A place among max_live, given back when the child's closure is destroyed.
  class [[nodiscard]] Permit {
   public:
    explicit Permit(Extras* of = nullptr) noexcept : of_(of) {}
    Permit(Permit&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Permit& operator=(Permit&&) = delete;
    ~Permit() {
      if (of_) give_back(*of_);
    }
    explicit operator bool() const noexcept { return of_ != nullptr; }

   private:
    Extras* of_;
  };
  template <class F>
  struct Limited {
    F f;
    Permit permit;
    void operator()() && { std::move(f)(); }
  };
  struct ArenaNode {
    virtual ~ArenaNode() = default;
    ArenaNode* below = nullptr;
  };
  template <class T>
  struct ArenaOf final : ArenaNode {
    template <class... Args>
    explicit ArenaOf(Args&&... args) : value(std::forward<Args>(args)...) {}
    T value;
  };

  template <class Tx>
  struct CloseAfter {
    explicit CloseAfter(Tx of) noexcept(std::is_nothrow_move_constructible_v<Tx>)
        : tx(std::move(of)) {}
    CloseAfter(const CloseAfter&) = delete;
    CloseAfter& operator=(const CloseAfter&) = delete;
    ~CloseAfter() {
      if (tx) tx.close();
    }
    Tx tx;
  };

  explicit Nursery(Fiber& owner) noexcept : Home(owner.scope, &owner), io_(*owner.io) {}
  Nursery(Fiber& owner, NurseryOptions options);
  ~Nursery() {
    if (arena_ || grace_ || extras_) [[unlikely]] let_go();
  }

  template <class Body>
  auto run(Fiber& self, Body&& body) -> std::invoke_result_t<Body, Nursery&>;

  [[nodiscard]] Io& io() const noexcept { return io_; }
  // `home` is ours, or that of a child of ours alone: a future's. `name`, if any, is moved from.
  template <class F>
  void spawn_in(Home& home, Name& name, F&& f, Site site) {
    static_assert(std::is_void_v<std::invoke_result_t<F>>,
                  "spawn() drops no results: use async(), or return void");
    if (!word_.is_open()) [[unlikely]] throw NurseryClosed{};
    if (extras_) [[unlikely]] return spawn_limited(home, name, std::move(f), site);
    admit(home, name, std::move(f), site);
  }
  template <class F>
  void admit(Home& home, Name& name, F&& f, Site site, std::uint8_t traits = 0) {
    Carrier& here = Carrier::here();
    Fiber& self = *here.current;
    Fiber& child = make_fiber(here, io(), home, std::forward<F>(f), site);
    if (traits != 0) child.traits |= traits;
    if (!name.empty()) [[unlikely]] child.set_name(std::move(name));
    if (!start(self, child)) [[unlikely]] throw NurseryClosed{};
  }
  template <class F>
  bool try_admit(F&& f, Site site, std::uint8_t traits = 0) {
    Fiber& child = make_fiber(io(), *this, std::forward<F>(f), site);
    if (traits != 0) child.traits |= traits;
    return start(Fiber::current(), child);
  }
  template <class F>
  void spawn_limited(Home& home, Name& name, F f, Site site) {
    Permit place = permit();
    with_budget([&] {
      if (!word_.is_open()) throw NurseryClosed{};  // while we waited
      admit(home, name, Limited<F>{std::move(f), std::move(place)}, site,
            traits_of_children());
      return true;
    });
  }
  // One spawn of the budget has been used; it comes back if nothing was spawned.
  template <class F>
  bool with_budget(F f) {
    bool spawned = false;
    try {
      spawned = f();
    } catch (...) {
      return_budget();
      throw;
    }
    if (!spawned) return_budget();
    return spawned;
  }
  void return_budget() noexcept;
  [[nodiscard]] std::uint8_t traits_of_children() const noexcept;
  // False: closed meanwhile, and the child is gone. The owner counts its own spawns without an
  // atomic.
  bool start(const Fiber& self, Fiber& child) {
    const bool by_owner = &self == owner();
    if (by_owner) spawned_ = spawned_ + 1;
    else if (!word_.child_added()) [[unlikely]] return refuse(child);
    try {
      io().start(child);
    } catch (...) {
      take_back(child, by_owner);
      throw;
    }
    return true;
  }
  [[gnu::cold]] bool refuse(Fiber& child) noexcept;
  [[gnu::cold]] void take_back(Fiber& child, bool by_owner) noexcept;
  Permit permit();
  Permit try_permit();
  static void give_back(Extras& extras) noexcept;
  void keep(ArenaNode* node) noexcept;
  void let_go() noexcept;
  void cancel_at(Instant when);
  void cancel_because(CancelReason why) noexcept {
    if (word_.begin_cancelling()) CancelScope::cancel(why);
  }

  void fail(std::exception_ptr error, const Fiber& who) noexcept;
  [[noreturn]] void throw_errors();
  // After the body: waits for the last child.
  void join(Fiber& self) noexcept {
    // arena_ after the children: they may have made something, too.
    if (!run_own_children(self) || arena_) [[unlikely]] wait_for_children();
    if (spec::kSpecAssert || arena_) [[unlikely]] end_state();
    if (arena_) [[unlikely]] empty_arena();
  }
  void end_state() noexcept;  // terminal; only the arena and the checks can see it
  void empty_arena() noexcept;
  bool run_own_children(Fiber& self) noexcept;
  // A child has ended on the stack of `self`, which waits in our scope for its result.
  void ended_in_place(const Fiber& self) noexcept {
    if (&self == owner()) spawned_ = spawned_ - 1;  // the body: not yet in word_
    else children_ended(1);
  }
  void wait_for_children() noexcept;

  void child_failed(Fiber& child, std::exception_ptr error) noexcept override;
  void child_cancelled() noexcept override {
    child_cancelled_.store(true, std::memory_order_relaxed);  // the count orders it before the join
  }
  void children_ended(std::size_t count) noexcept override;
  // Counted as the body counts its spawns: it cannot look before we let it run.
  bool children_ended_for_owner(std::size_t count) noexcept override {
    if (!word_.body_holds()) [[unlikely]] return false;  // in its join: a deadlock has ended that
    if (!mutant::kOwnerUntold) spawned_ = spawned_ - static_cast<std::int64_t>(count);
    return true;
  }

  friend class detail::FutureBase;
  class Join;

  // One word: {live, waiter, state}. The last child and the joiner cannot miss each other, and
  // nobody touches a nursery after the step that lets its owner go.
  //
  // While the body runs, its own spawns are counted in a plain field (spawned_), and the word holds
  // kBodyHolds on top: children may end at any time, and the count does not reach zero early.
  class Word {
   public:
    // False: the nursery is not open, and nothing was added.
    [[nodiscard]] bool child_added() noexcept;
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
    // The body has not ended yet.
    [[nodiscard]] bool body_holds() const noexcept {
      return bits_.load(std::memory_order_relaxed) >= kBodyHolds / 2;
    }
    [[nodiscard]] bool is_open() const noexcept {
      return (bits_.load(std::memory_order_relaxed) & kStateMask) == 0;
    }
    // Children that have not ended, where the owner has `spawned` that are not counted here yet.
    [[nodiscard]] std::size_t live(std::int64_t spawned) const noexcept;
    void end() noexcept;  // to a terminal state
    // False: it was on its way already.
    bool begin_cancelling() noexcept;
    bool begin_closing() noexcept;
    [[nodiscard]] NurseryState state() const noexcept;

   private:
    static constexpr std::uint64_t kStateMask = 7;
    static constexpr std::uint64_t kWaiter = 8;
    static constexpr std::uint64_t kChild = 16;
    static constexpr std::uint64_t kBodyHolds = kChild << 48;
    static_assert(static_cast<int>(NurseryState::open) == 0);
    void move_to(NurseryState to) noexcept;
    static NurseryState state_of(std::uint64_t bits) noexcept {
      return static_cast<NurseryState>(bits & kStateMask);
    }
    Atomic<std::uint64_t> bits_{kBodyHolds};
  };

  Io& io_;
  Word word_;
  Inspected<std::int64_t> spawned_ = 0;  // by the owner, not yet in word_, less what has ended
  Var<Join*> join_{nullptr};             // before the waiter bit is set
  Extras* extras_ = nullptr;
  ArenaNode* arena_ = nullptr;           // newest first
  Grace* grace_ = nullptr;
  Atomic<bool> child_cancelled_{false};
  mutable Lock error_lock_;              // protects error_, failed_…, arena_, grace_
  std::exception_ptr error_;             // the first one
  FiberId failed_ = 0;
  Name failed_name_;
  Name name_;
};

template <class Body>
auto Nursery::run(Fiber& self, Body&& body) -> std::invoke_result_t<Body, Nursery&> {
  using R = std::invoke_result_t<Body, Nursery&>;
  static_assert(!std::is_reference_v<R>, "the body's locals are gone: return by value");
  [[maybe_unused]] std::optional<std::conditional_t<std::is_void_v<R>, bool, R>> result;
  bool returned = false;
  try {
    const Entered entered{self, *this};
    if constexpr (std::is_void_v<R>) std::invoke(std::forward<Body>(body), *this);
    else result.emplace(std::invoke(std::forward<Body>(body), *this));
    returned = true;
  } catch (const Cancelled&) {
  } catch (...) {
    fail(std::current_exception(), self);
  }
  join(self);
  if (error_) [[unlikely]] throw_errors();
  const bool unwound = !returned || child_cancelled_.load(std::memory_order_relaxed);
  if (unwound) [[unlikely]] attend(self);  // an outer cancel goes on; our own never leaves us
  if constexpr (!std::is_void_v<R>)
    if (!returned) throw NurseryCancelled{};
  if constexpr (!std::is_void_v<R>) return std::move(*result);
}

// Runs `body` with a Nursery, then waits until every child has ended. Returns body's value, or
// throws the first failure among body and children (see ErrorPolicy). If the nursery's own cancel()
// unwound the body, a void nursery returns and any other throws NurseryCancelled. What an outer
// scope's cancel unwound here, body or child, goes on unwinding. The join itself is not a cancel
// point: cancellation reaches the children, and the join waits for them. Must be called inside an
// engine; throws std::logic_error elsewhere.
template <class Body>
auto nursery(NurseryOptions options, Body&& body) -> std::invoke_result_t<Body, Nursery&> {
  Fiber& self = detail::fiber_with_scopes();
  Nursery n{self, std::move(options)};
  return n.run(self, std::forward<Body>(body));
}

template <class Body>
  requires std::invocable<Body, Nursery&>
auto nursery(Body&& body) -> std::invoke_result_t<Body, Nursery&> {
  Fiber& self = Fiber::current();
  if (!self.scope) [[unlikely]] static_cast<void>(io());  // throws: not inside an engine
  Nursery n{self};
  return n.run(self, std::forward<Body>(body));
}

}  // namespace weft
