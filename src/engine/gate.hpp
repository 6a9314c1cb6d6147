// Gate: a worker's right of way to its own queues, which another thread may take from it.
//
// Invariant: between enter() and leave() the owner is alone with the queues; so is another thread
//            from the moment has_yielded(), or is_outside() after insist(), told it so, until its
//            open().
// Race:      the owner enters while another bars the way. Each writes its own word and then reads
//            the other's, so one of them sees the other. That needs a fence on both sides; the
//            owner, who enters millions of times, only promises one to the compiler, and the other,
//            who comes rarely, pays for both with a barrier that reaches every core.
// Rejected:  deques with shared indices (a fence or compare-exchange at every pop, thieves that
//            pull the owner's cache lines about, one fiber a steal); a lock (two read-modify-writes
//            an entry); mailboxes and requests (a second way beside this one for an owner that
//            computes and does not answer).
#pragma once

#include <weft/base/chaos.hpp>
#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>

#include <cstdint>

namespace weft::engine {

class Gate {
 public:
  // ── the owner ───────────────────────────────────────────────────────────────────────────────

  [[gnu::always_inline]] void enter() noexcept {
    if (!enter_if_open()) [[unlikely]] stand_aside();
  }
  // False: not alone inside; enter() waits for that.
  [[nodiscard, gnu::always_inline]] bool enter_if_open() noexcept {
    chaos::step();
    inside_.store(true, std::memory_order_relaxed);
    if (!mutant::kGateEntersUnfenced) Sync::fence_here();  // pairs with insist()
    // acquire: pairs with open(); we see the queues as the other left them.
    return bar_.load(std::memory_order_acquire) == kOpen;
  }
  [[gnu::always_inline]] void leave() noexcept {
    chaos::step();
    // release: pairs with is_outside(); the other sees the queues as we left them.
    inside_.store(false, std::memory_order_release);
  }

  // ── another thread ──────────────────────────────────────────────────────────────────────────

  // Bars the way. False: somebody else has. The owner yields at its next entry; until then we have
  // nothing but its attention.
  [[nodiscard]] bool bar() noexcept {
    std::uint32_t open = kOpen;
    // acquire: pairs with the open() of whoever was here before.
    return bar_.compare_exchange_strong(open, kBarred, std::memory_order_acquire,
                                        std::memory_order_relaxed);
  }
  // The owner came to the gate and stands aside. acquire: pairs with stand_aside().
  [[nodiscard]] bool has_yielded() const noexcept {
    return bar_.load(std::memory_order_acquire) != kBarred;
  }
  // For an owner that does not come. Afterwards it is inside, and we see it, or finds the way
  // barred.
  void insist() const noexcept {
    if (!mutant::kGateForcedUnfenced) Sync::fence_everywhere();  // pairs with enter()
  }
  [[nodiscard]] bool is_outside() const noexcept {
    return !inside_.load(std::memory_order_acquire);
  }
  // Ends what bar() began, whether the owner gave way or not.
  void open() noexcept {
    chaos::step();
    if (bar_.exchange(kOpen, std::memory_order_release) == kAsleep) Sync::wake(bar_, 1);
  }

 private:
  enum : std::uint32_t { kOpen, kBarred, kYielded, kAsleep };
  static constexpr unsigned kSpins = 200;  // about as long as a thief needs

  [[gnu::cold, gnu::noinline]] void stand_aside() noexcept {
    do {
      leave();
      become(kBarred, kYielded);
      for (unsigned i = 0; i < kSpins && bar_.load(std::memory_order_relaxed) != kOpen; ++i)
        Sync::spin();
      // The other may have lost its core: with more workers than cores, spinning on would keep it.
      if (become(kYielded, kAsleep)) Sync::sleep(bar_, kAsleep);
      inside_.store(true, std::memory_order_relaxed);
      Sync::fence_here();
    } while (bar_.load(std::memory_order_acquire) != kOpen);
  }
  bool become(std::uint32_t from, std::uint32_t to) noexcept {
    // release: pairs with has_yielded(); the other sees the queues as we left them.
    return bar_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                        std::memory_order_relaxed);
  }

  Atomic<bool> inside_{false};
  Atomic<std::uint32_t> bar_{kOpen};
};

// Inside the gate for a scope. By the owner.
class [[nodiscard]] Inside {
 public:
  [[gnu::always_inline]] explicit Inside(Gate& gate) noexcept : gate_(gate) { gate_.enter(); }
  [[gnu::always_inline]] ~Inside() { gate_.leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Gate& gate_;
};

}  // namespace weft::engine
