// Supervisors: children that are started again when they fail.
//
//   weft::supervise({.name = "server", .max_restarts = 5, .within = 1min}, [&](auto& s) {
//     s.child("accept", [&] { accept_connections(); });
//     s.child("expire", [&] { expire_sessions(); });
//   });                                     // nobody runs here any more, or will be restarted
//
// A supervisor is a nursery whose children may fail: a failure is answered by a restart, after a
// growing delay, until there are too many of them in too short a time. Then all children are
// stopped, and supervise() throws RestartsExhausted, which a supervisor further out sees as the
// failure of its own child. docs/supervision.md tells all of it.
#pragma once

#include <weft/nursery.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weft {

// Who is started again when one child is. The others of its group are cancelled first, the newest
// first, each one joined before the next is told; then all start in the order they were added.
enum class Strategy : std::uint8_t {
  one_for_one,   // the child alone
  one_for_all,   // every child
  rest_for_one,  // the child and those added after it
};

// When a child is started again. A child that has ended for good is forgotten: a restart of its
// group does not bring it back.
enum class Restart : std::uint8_t {
  always,      // whenever it ends
  on_failure,  // when it throws
  never,       // its failure is given to on_suppressed; with its group it ends for good
};

// How long a child, or a group, rests before it is started again: `first`, then `factor` times as
// long each time, but no more than `most`, give or take the part `jitter` of it. It begins with
// `first` again when they have run for SupervisorOptions::within.
struct Backoff {
  Duration first = std::chrono::milliseconds{10};
  double factor = 2;
  Duration most = std::chrono::seconds{10};
  double jitter = 0.1;  // 0 to 1; from io().random()
};

// A restart that has been decided, before the delay.
struct RestartEvent {
  std::string_view child;    // valid during the call
  std::size_t attempt;       // 1: the delay is Backoff::first
  std::exception_ptr error;  // null: it returned, and is to run always
  Duration delay;
};

struct SupervisorOptions {
  Name name{};
  Strategy strategy = Strategy::one_for_one;
  // One restart more than max_restarts within this time is one too many. A group counts once. The
  // largest number of its type: none is too many, and they are not counted.
  std::size_t max_restarts = 3;
  Duration within = std::chrono::seconds{5};
  Backoff backoff{};
  // Called on a fiber of the supervisor, one at a time. If it throws, the supervisor has failed.
  std::function<void(const RestartEvent&)> on_restart{};
  // Called with every failure that neither leads to a restart nor leaves supervise(), and whose it
  // was: the child's name, or the supervisor's for its body. Maybe on several workers at a time.
  // Without one they are printed on standard error. Must not throw.
  std::function<void(std::string_view, std::exception_ptr)> on_suppressed{};
};

struct ChildOptions {
  Name name{};
  Restart restart = Restart::on_failure;
};

// Thrown by supervise() when a child would have to be started again once too often. Every child has
// been stopped.
class RestartsExhausted : public std::runtime_error {
 public:
  RestartsExhausted(std::string_view supervisor, std::string_view child, std::size_t max_restarts,
                    Duration within, std::exception_ptr cause);

  [[nodiscard]] std::string_view child() const noexcept { return *child_; }
  [[nodiscard]] std::size_t max_restarts() const noexcept { return max_restarts_; }
  [[nodiscard]] Duration within() const noexcept { return within_; }
  // What the child failed with last; null: it returned.
  [[nodiscard]] const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  std::shared_ptr<const std::string> child_;  // exceptions must be copied without throwing
  std::size_t max_restarts_;
  Duration within_;
  std::exception_ptr cause_;
};

// Thrown by child() after stop(), or once the supervisor has given up. Nothing was added.
class SupervisorStopped : public std::logic_error {
 public:
  SupervisorStopped()
      : std::logic_error("weft: child() of a supervisor that takes no more children") {}
};

namespace detail {

// What a child runs, again and again.
struct ChildFunction {
  virtual ~ChildFunction() = default;
  virtual void run() = 0;
};
template <class F>
struct ChildFunctionOf final : ChildFunction {
  explicit ChildFunctionOf(F f_in) : f(std::move(f_in)) {}
  void run() override { std::invoke(f); }
  F f;
};

template <class F>
inline constexpr bool kCanBeEmpty = std::is_pointer_v<F>;
template <class Signature>
inline constexpr bool kCanBeEmpty<std::function<Signature>> = true;

}  // namespace detail

// Given to the body of supervise(). Only there, and in its children, may it be used, or by a thread
// that one of them waits for.
class Supervisor final {
 public:
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Adds a child, the last in the order of start. It starts at once; if its group is about to be
  // restarted, then with the group. Each time `f` is called again, as an lvalue, on a new fiber
  // named like the child; it is destroyed when the child has ended for good. Throws
  // SupervisorStopped, or std::invalid_argument if `f` is empty. Never parks.
  template <class F>
    requires std::invocable<F&>
  void child(ChildOptions options, F f) {
    static_assert(std::is_void_v<std::invoke_result_t<F&>>,
                  "child() drops no results: return void");
    if constexpr (detail::kCanBeEmpty<F>)
      if (!f) throw std::invalid_argument{"weft: child() was given an empty function"};
    add(std::move(options), std::make_unique<detail::ChildFunctionOf<F>>(std::move(f)));
  }
  template <class F>
    requires std::invocable<F&>
  void child(Name name, F f) {
    child(ChildOptions{.name = std::move(name)}, std::move(f));
  }

  // Takes no more children and restarts none. The children are cancelled, the newest first, each
  // one joined before the next is told; then the body is. From any thread; idempotent; does not
  // wait for any of it.
  void stop() noexcept;

  [[nodiscard]] std::string_view name() const noexcept;
  // Restarts decided so far; that of a group counts once.
  [[nodiscard]] std::size_t restarts() const noexcept;
  // Children that run or will be started.
  [[nodiscard]] std::size_t live() const noexcept;

 private:
  template <class Body>
  friend auto supervise(SupervisorOptions options, Body&& body)
      -> std::invoke_result_t<Body, Supervisor&>;

  class Core;
  // From before the body's first step to after its last.
  class [[nodiscard]] BodyRuns {
   public:
    BodyRuns(Supervisor& supervisor, Nursery& nursery);
    ~BodyRuns();
    BodyRuns(const BodyRuns&) = delete;
    BodyRuns& operator=(const BodyRuns&) = delete;

   private:
    Core& core_;
  };

  explicit Supervisor(SupervisorOptions options);
  ~Supervisor();
  [[nodiscard]] NurseryOptions nursery_options() const;
  void add(ChildOptions options, std::unique_ptr<detail::ChildFunction> function);

  const std::unique_ptr<Core> core_;
};

// Runs `body` with a Supervisor, and returns its value once the body has returned and no child runs
// or will be restarted. Throws RestartsExhausted, or what the body threw; that stops the children
// at once, as a cancel from further out does, and nobody is restarted. If stop() unwound the body,
// a void supervise() returns, and any other throws NurseryCancelled. Throws std::invalid_argument
// for options that make no sense, saying which and why, and std::logic_error outside an engine. Not
// a cancel point itself: cancellation reaches body and children, and they are waited for.
template <class Body>
auto supervise(SupervisorOptions options, Body&& body)
    -> std::invoke_result_t<Body, Supervisor&> {
  Supervisor s{std::move(options)};
  return nursery(s.nursery_options(), [&](Nursery& n) -> std::invoke_result_t<Body, Supervisor&> {
    const Supervisor::BodyRuns runs{s, n};
    return std::invoke(std::forward<Body>(body), s);
  });
}

template <class Body>
  requires std::invocable<Body, Supervisor&>
auto supervise(Body&& body) -> std::invoke_result_t<Body, Supervisor&> {
  return supervise(SupervisorOptions{}, std::forward<Body>(body));
}

}  // namespace weft
