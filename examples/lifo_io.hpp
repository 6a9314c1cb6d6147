// LifoIo: an engine of one's own, in one file. One thread, real time, and the newest fiber first.
//
// Depth first: what was spawned or woken last runs next, so a tree of fibers needs little memory. A
// fiber that yields goes behind everybody. Other threads may wake fibers, but not spawn.
#pragma once

#include <weft/base/splitmix.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/cancel_scope.hpp>
#include <weft/core/thread.hpp>
#include <weft/core/waitable.hpp>
#include <weft/engine_kit.hpp>

#include <algorithm>
#include <ctime>
#include <stdexcept>
#include <string>
#include <utility>

class LifoIo final : public weft::Engine {
 public:
  explicit LifoIo(weft::OnDeadlock on_deadlock = weft::OnDeadlock::raise)
      : thread_(*this), on_deadlock_(on_deadlock), chance_(weft::entropy()) {
    enlist();  // for weft::dump_all(): the last thing
  }
  ~LifoIo() { delist(); }  // and the first

  // ── who runs ────────────────────────────────────────────────────────────────────────────────

  void start(weft::Fiber& fiber) override {
    if (!thread_.is_here()) throw std::logic_error{"LifoIo: spawned by another thread"};
    fiber.id = ++ids_;
    push(fiber);
  }

  weft::Fiber& successor(weft::Fiber& self, weft::Departure how) noexcept override {
    const bool parks = how == weft::Departure::park;
    if (parks && self.word.verdict() != weft::Verdict::none()) return self;  // latched already
    look_outside();
    while (weft::Fiber* const next = pop())
      if (thread_.prepare(*next)) return *next;
    return how == weft::Departure::yield ? self : thread_.base();
  }

  void departed(weft::Fiber& fiber, weft::Departure how) noexcept override {
    if (how == weft::Departure::finish) return thread_.release(fiber);
    fiber.word.mark_runnable(weft::Actor::worker);
    yielded_.push_back(fiber);
  }

  void resume(weft::FiberList fibers) noexcept override {
    if (thread_.is_here()) {
      while (weft::Fiber* const fiber = fibers.pop_front()) push(*fiber);
      return;
    }
    // All under the lock: once our thread has one of them, the run may end, and the engine be gone.
    const weft::Locked locked{lock_};
    while (weft::Fiber* const fiber = fibers.pop_front()) woken_.push_back(*fiber);
    ring();
  }

  // ── time and chance ─────────────────────────────────────────────────────────────────────────

  [[nodiscard]] weft::Instant now() const noexcept override { return weft::monotonic_now(); }

  void arm(weft::Timer& timer) noexcept override {
    const weft::Locked locked{lock_};
    timers_.arm(timer);
    if (!thread_.is_here()) ring();
  }
  void disarm(weft::Timer& timer) noexcept override {
    const weft::Locked locked{lock_};
    timers_.disarm(timer);
  }

  [[nodiscard]] std::uint64_t random() noexcept override { return chance_.next(); }

  // ── what to say ─────────────────────────────────────────────────────────────────────────────

  [[nodiscard]] std::string_view kind() const noexcept override { return "LifoIo"; }
  [[noreturn]] void raise_deadlock() const override { throw weft::Deadlock{report_}; }

  bool inspect(Look look, void* at, weft::Duration) override {
    if (!thread_.over() && !thread_.is_here()) return false;  // we do not stop for others
    weft::EngineSight sight;
    sight.now = now();
    if (!thread_.over()) sight.workers.push_back({.running = thread_.running()});
    look(sight, at);
    return true;
  }

 private:
  void run_root(Body body) override {
    thread_.run(std::move(body), [this] { idle(); });
  }

  // Nobody can run. Until somebody can, sleeps; but not if nobody ever will.
  void idle() {
    // acquire: pairs with ring(). Whatever happens after this look, we do not sleep through it.
    const std::uint32_t rung = bell_.load(std::memory_order_acquire);
    look_outside();
    if (newest_ || !yielded_.empty()) return;
    const weft::Instant soonest = soonest_timer();
    if (soonest == weft::Instant::max()) {
      if (on_deadlock_ != weft::OnDeadlock::raise) return weft::Sync::sleep(bell_, rung);
      report_ = weft::engine::describe_deadlock(*this, now(), std::chrono::milliseconds{1});
      weft::engine::raise_deadlock_in_waits(*this);
      return;
    }
    const auto left = std::max(soonest - now(), weft::Duration{}).count();
    const std::timespec timeout{static_cast<std::time_t>(left / 1'000'000'000),
                                static_cast<long>(left % 1'000'000'000)};
    weft::Sync::sleep(bell_, rung, &timeout);
  }

  // Takes in whom other threads have woken, and fires timers that are due.
  void look_outside() noexcept {
    const weft::Instant now = weft::monotonic_now();
    thread_.note_time(now);
    weft::FiberList woken;
    weft::Fired fired;
    {
      const weft::Locked locked{lock_};  // who disarms a timer waits until it has fired
      woken = std::move(woken_);
      timers_.fire_due(now, fired);
    }
    while (weft::Fiber* const fiber = woken.pop_front()) push(*fiber);
    weft::resume_all(std::move(fired.woken));
    weft::CancelScope::tell(fired.hooks);
  }
  weft::Instant soonest_timer() noexcept {
    const weft::Locked locked{lock_};
    return timers_.soonest();
  }
  // By another thread, under the lock.
  void ring() noexcept {
    bell_.fetch_add(1, std::memory_order_release);
    weft::Sync::wake(bell_, 1);
  }

  // A runnable fiber is in one queue, through its link.
  void push(weft::Fiber& fiber) noexcept { fiber.link = std::exchange(newest_, &fiber); }
  weft::Fiber* pop() noexcept {
    if (!newest_) return yielded_.pop_front();
    weft::Fiber* const fiber = newest_;
    newest_ = std::exchange(fiber->link, nullptr);
    return fiber;
  }

  weft::EngineThread thread_;
  const weft::OnDeadlock on_deadlock_;
  weft::SplitMix chance_;
  weft::FiberId ids_ = 0;
  weft::Fiber* newest_ = nullptr;
  weft::FiberList yielded_;
  std::string report_;

  weft::Lock lock_;  // protects what other threads touch, too:
  weft::FiberList woken_;
  weft::TimerQueue timers_;
  weft::Atomic<std::uint32_t> bell_{0};  // changes when there is news from outside
};
