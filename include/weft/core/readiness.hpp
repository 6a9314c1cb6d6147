// Readiness: one direction of a descriptor, and who waits until it can be read or written.
//
// Invariant: whoever waits has tried since the last edge, and would have blocked.
// Race:      an edge comes between a call that would block and the wait for the next edge. Edges
//            are counted: who waits says up to which one it has seen, from before its call, and
//            does not wait if there was another. The count moves under the lock that waiters
//            publish under.
// Rejected:  a flag that the caller clears when its call would block: the edge that came in between
//            is cleared with it.
#pragma once

#include <weft/base/mutant.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <cstdint>

namespace weft {

class Readiness {
 public:
  using Edges = std::uint32_t;

  // ── by the reactor ──────────────────────────────────────────────────────────────────────────

  // Something has happened: everybody who waits tries again. Fibers to be resumed go to `woken`.
  // `ends`: there is an end or an error to be found, so that from now on every call is tried.
  void tell(FiberList& woken, bool ends = false) noexcept {
    const Locked locked{lock_};
    if (ends) ends_.store(true, std::memory_order_relaxed);
    // release: pairs with edges(); who has seen this edge also knows that the end has come.
    edges_.store(edges_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    waiters_.wake_all(woken);
  }

  // ── by who reads or writes ──────────────────────────────────────────────────────────────────

  // To be asked before the call that may block. acquire: the call comes after it.
  [[nodiscard]] Edges edges() const noexcept { return edges_.load(std::memory_order_acquire); }
  // Whether a call would only find out that it blocks: no edge has come since drained().
  [[nodiscard]] bool is_drained(Edges seen) const noexcept {
    return drained_.load(std::memory_order_relaxed) == seen;
  }
  // A call that was made after `seen` was asked for has blocked, or has taken all there was.
  void drained(Edges seen) noexcept {
    if (!ends_.load(std::memory_order_relaxed)) drained_.store(seen, std::memory_order_relaxed);
  }

  // Returns once there is an edge after `seen`. Parks until then. Cancel point.
  void wait_after(Edges seen) {
    Fiber& self = Fiber::current();
    for (;;) {
      glance(self);
      lock_.lock();
      if (edges() != seen && !mutant::kReadyUnseenAtPublish) return lock_.unlock();
      Wait operation{*this, seen};
      if (park_on(self, operation, lock_, waiters_)) return;
    }
  }

  // publish() and unpublish() of an operation that waits for an edge after `seen`.
  [[nodiscard]] bool link_after(Edges seen, Waitable& waiter) noexcept {
    const Locked locked{lock_};
    if (edges() != seen && !mutant::kReadyUnseenAtPublish) return false;
    waiters_.link(waiter);
    return true;
  }
  void unlink(Waitable& waiter) noexcept {
    const Locked locked{lock_};
    waiters_.unlink(waiter);
  }
  [[nodiscard]] const WaitReason& reason() const noexcept { return reason_; }

  // The wait for an edge as an operation.
  class Wait final : public Waitable {
   public:
    Wait(Readiness& readiness, Edges seen) noexcept : readiness_(readiness), seen_(seen) {}
    bool try_complete() override { return readiness_.edges() != seen_; }
    bool publish() noexcept override { return readiness_.link_after(seen_, *this); }
    void unpublish() noexcept override { readiness_.unlink(*this); }
    [[nodiscard]] WaitReason reason() const noexcept override { return readiness_.reason_; }

   private:
    Readiness& readiness_;
    const Edges seen_;
  };

  // ── by the owner of the descriptor, while nobody else has it ────────────────────────────────

  // What is waited for from now on; nothing is known of it yet.
  void begin(WaitReason reason) noexcept {
    const Locked locked{lock_};  // somebody may still tell us of the last one
    reason_ = reason;
    ends_.store(false, std::memory_order_relaxed);
    drained_.store(edges_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

 private:
  mutable Lock lock_;  // protects waiters_, and every step of edges_
  Atomic<Edges> edges_{1};
  Atomic<Edges> drained_{0};   // a hint: the last edge after which nothing is left
  Atomic<bool> ends_{false};
  WaitList waiters_;
  WaitReason reason_{};
};

}  // namespace weft
