// Waitable: one thing waited for, once, on the waiter's stack.
//
// Everything that can block derives from this class and answers three verbs. An operation cannot be
// copied or moved: while it is published, its address is in somebody's list.
#pragma once

#include <weft/base/intrusive_list.hpp>
#include <weft/core/fiber.hpp>
#include <weft/core/spec.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

// What a waiting fiber waits for, for dumps and deadlock reports. Views into static or owned text.
struct WaitReason {
  std::string_view verb;       // "event wait", "nursery join": a literal
  std::string_view name{};     // the object's own name, may be empty
  const void* object = nullptr;
  bool is_join = false;        // ends when fibers do, and those have reasons of their own
  std::string_view peer{};     // "sender": by whom the wait could be ended, if they are counted,
  std::uint32_t peers_alive = 0;  // and how many of them there are
  bool from_outside = false;   // by the world outside the program, which is never a deadlock
};

class Waitable : public ListNode<Waitable> {
 public:
  // Finishes now, without parking. The only verb that may throw; if it does, nothing has happened.
  virtual bool try_complete() = 0;
  // Becomes findable by wakers. False: it turned ready instead, and is not published.
  virtual bool publish() noexcept = 0;
  // Afterwards no waker can find *this. Idempotent, never sleeps.
  virtual void unpublish() noexcept = 0;

  [[nodiscard]] virtual WaitReason reason() const noexcept = 0;

  // Null: of no concern to the kernel.
  [[nodiscard]] class KernelOwned* kernel_owned() noexcept;

  // Called by a waker that found *this, under the lock of the object waited for: ends the wait in
  // favour of this arm. Data moves under that same lock, before it is released.
  [[gnu::always_inline]] Claim claim() noexcept {
    return fiber_.read()->word.claim(ticket_.read(), Verdict::arm(arm_.read()));
  }
  // For whoever publishes it: whose wait, under which ticket, and the how-manieth arm it is.
  void bind(Fiber& fiber, Ticket ticket, std::size_t arm) noexcept {
    fiber_.write(&fiber);
    ticket_.write(ticket);
    arm_.write(static_cast<std::uint16_t>(arm));
  }
  // The waiting fiber; to be read before the claim's lock is released, since *this may die then.
  [[nodiscard]] Fiber& fiber() const noexcept { return *fiber_.read(); }

 protected:
  Waitable() = default;
  ~Waitable() {
    // When its wait has returned, nobody can find an operation any more.
#if defined(WEFT_MODEL)
    model::check(!is_linked(), "an operation was destroyed while published");
#else
    spec::check(spec::Rule::f3_only_parked_is_woken, [&] { return !is_linked(); });
#endif
  }

 private:
  friend class KernelOwned;
  // Written by the fiber before publish(), read by wakers under the object's lock.
  Var<Fiber*> fiber_{nullptr};
  Var<Ticket> ticket_{Ticket{}};
  Var<std::uint16_t> arm_{0};
  bool is_kernel_owned_ = false;
};

// An operation of which the kernel has buffers: it is not over before the kernel says so. At most
// one in a wait.
class KernelOwned : public Waitable {
 public:
  // After unpublish(): waits, shielded, for the last word. True: it had completed.
  virtual bool settle() noexcept = 0;

 protected:
  KernelOwned() noexcept { is_kernel_owned_ = true; }
  ~KernelOwned() = default;
};

inline KernelOwned* Waitable::kernel_owned() noexcept {
  return is_kernel_owned_ ? static_cast<KernelOwned*>(this) : nullptr;
}

// The waiters of one object, first come first served. Every member is called under its lock.
class WaitList {
 public:
  [[nodiscard]] bool empty() const noexcept { return waiters_.empty(); }
  [[gnu::always_inline]] void link(Waitable& waiter) noexcept { waiters_.push_back(waiter); }
  void unlink(Waitable& waiter) noexcept { waiters_.remove(waiter); }

  // Ends the wait of the first waiter that nobody else has ended, and returns it: it stays where it
  // is until the lock is released. `woken`: its fiber, if it is ours to resume then. Null: no such
  // waiter.
  [[nodiscard, gnu::always_inline]] Waitable* claim_first(Fiber*& woken) noexcept {
    while (Waitable* const waiter = waiters_.pop_front()) {
      Fiber& fiber = waiter->fiber();
      const Claim claim = waiter->claim();
      if (claim == Claim::owned) woken = &fiber;
      if (claim != Claim::lost) return waiter;
    }
    return nullptr;
  }
  // The same, for a waiter that is told nothing. Fibers to be resumed are appended to `woken`.
  bool wake_one(FiberList& woken) noexcept {
    while (Waitable* waiter = waiters_.pop_front())
      if (end(*waiter, woken)) return true;
    return false;
  }
  // Whether anybody but `self` waits here: another arm of the same wait is nobody to meet.
  [[nodiscard]] bool holds_another_than(const Fiber& self) const noexcept {
    for (const Waitable* waiter = waiters_.front(); waiter; waiter = waiters_.after(*waiter))
      if (&waiter->fiber() != &self) return true;
    return false;
  }
  void wake_all(FiberList& woken) noexcept {
    while (Waitable* waiter = waiters_.pop_front()) {
      static_cast<void>(end(*waiter, woken));
      if (mutant::kEventWakesFirstOnly) return;
    }
  }
  // The first few of all.
  void wake_some(FiberList& woken) noexcept {
    for (unsigned i = 0; i < kSome; ++i)
      if (!wake_one(woken)) return;
  }
  // For an object that may be gone once its last wait has returned, and has more waiters than one
  // wants to wake in one breath: ends the wait of the last, who must be resumed after all others.
  // Until then the object stays. Null: there are few, or nobody can be held back.
  [[nodiscard]] Fiber* hold_back_last() noexcept {
    if (mutant::kEventWakesFirstOnly) return nullptr;
    const Waitable* at = waiters_.front();
    for (unsigned i = 0; i < kSome && at; ++i) at = waiters_.after(*at);
    while (at) {
      Waitable& last = *waiters_.back();
      if (&last == at) at = nullptr;
      waiters_.remove(last);
      FiberList held;
      if (end(last, held); Fiber* const fiber = held.pop_front()) return fiber;
    }
    return nullptr;
  }

 private:
#if defined(WEFT_MODEL)
  static constexpr unsigned kSome = 1;
#else
  static constexpr unsigned kSome = 256;
#endif

  static bool end(Waitable& waiter, FiberList& woken) noexcept {
    Fiber& fiber = waiter.fiber();
    const Claim claim = waiter.claim();
    if (claim == Claim::owned || (mutant::kEventEnqueuesParking && claim == Claim::latched))
      woken.push_back(fiber);
    return claim != Claim::lost;
  }

  List<Waitable> waiters_;
};

// Hands RUNNABLE fibers to their engines, in order. After the locks are released.
void resume_all(FiberList fibers) noexcept;

}  // namespace weft
