// Worker: a thread that runs fibers, and the order it runs them in.
#pragma once

#include "host.hpp"
#include "inbox.hpp"
#include "local_queue.hpp"
#include "root.hpp"
#include "timer_queue.hpp"

#include <weft/engine.hpp>

#include <optional>
#include <string>

namespace weft::engine {

class Worker : public Host {
 public:
  Worker(Io& io, const Options& options);
  ~Worker();

  // ── on the worker's own thread ──────────────────────────────────────────────────────────────

  void run(Fiber& root_fiber);  // until the root count is over

  void start(Fiber& fiber) {
    fresh_.push(fiber);
    fiber.id = ++ids_;
  }
  // Woken by a fiber of ours: it runs next, beside the one that woke it.
  void resume(Fiber& fiber) noexcept {
    if (Fiber* const displaced = std::exchange(next_, &fiber)) ready_.push(*displaced);
  }
  void requeue(Fiber& fiber) noexcept { ready_.push(fiber); }

  // Who runs while `self` is parked or gone. Never unprepared unless `finish`.
  Fiber& successor(Departure how) noexcept;
  // Who runs while `self` waits its turn; `self` if there is nobody else.
  Fiber& turn(Fiber& self) noexcept;
  Fiber* adopt(CancelScope& home) noexcept;

  TimerQueue timers;

  // ── from any thread ─────────────────────────────────────────────────────────────────────────

  // Leaves `fiber` to the worker. The engine's destructor waits until the caller is out again.
  void send(Fiber& fiber) noexcept;
  // One of the root's children, admitted from outside, came to nothing.
  void dismiss() noexcept;

  // Has the worker call `question` between two fibers. False: it did not come to it in a second.
  struct Question {
    Engine::Look look;
    void* at;
  };
  bool answer(Question question) noexcept;

  RootCount count;
  Atomic<bool> busy{false};  // a call of run() is under way
  std::optional<Root> root;  // while it runs
  std::string deadlock_report;

 private:
  static constexpr std::uint32_t kFairnessInterval = 61;  // a prime: no rhythm to fall in with
  static constexpr std::uint32_t kTurnsMax = 64;          // in a row through the `next` slot

  Fiber* pick() noexcept;
  Fiber* pick_for_fairness() noexcept;
  void empty_inbox() noexcept;
  void answer_question() noexcept;
  std::size_t fire_timers(Instant now) noexcept;
  void idle() noexcept;
  [[nodiscard]] bool living_wait() const noexcept;
  bool raise_if_deadlocked() noexcept;

  Fiber* next_ = nullptr;    // just woken: coupled fibers take turns without a queue
  std::uint32_t turns_ = 0;  // taken in a row from next_
  std::uint32_t ticks_ = 0;
  FreshQueue fresh_;
  ReadyQueue ready_;
  FiberId ids_ = 0;
  const OnDeadlock on_deadlock_;
  bool deadlock_reported_ = false;

  alignas(64) Inbox inbox_;
  Atomic<std::uint32_t> visitors_{0};  // foreign threads inside send()

  enum : std::uint32_t { kNone, kWritten, kAsked, kAnswering, kDone };
  Atomic<std::uint32_t> question_state_{kNone};
  Question question_{};
};

}  // namespace weft::engine
