// Injector: where fibers wait that belong to no worker yet. Any thread puts in and takes out.
//
// A bounded ring without locks in front, a locked list behind it for bursts: push() never waits and
// never fails. First in, first out, but for what two threads do at the same moment.
//
// Invariant: slot i of lap k is written by who moved `tail_` past it and read by who moved `head_`
//            past it; its turn word says whose turn it is.
// Race:      a writer has taken its place but not written yet. The readers see its turn word
//            unchanged and find nothing; the writer looks for sleepers after it has written.
#pragma once

#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/fiber.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::engine {

template <std::size_t kSlots>
class InjectorOf {
 public:
  InjectorOf() noexcept {
    for (std::size_t i = 0; i < kSlots; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
  }
  InjectorOf(const InjectorOf&) = delete;
  InjectorOf& operator=(const InjectorOf&) = delete;

  void push(Fiber& fiber) noexcept {
    // Behind those that did not fit: nobody overtakes them.
    if (beyond_.load(std::memory_order_relaxed) == 0 && push_ring(fiber)) return;
    const Locked locked{lock_};
    overflow_.push_back(fiber);
    beyond_.store(beyond_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // The oldest, or null.
  Fiber* pop() noexcept {
    if (Fiber* const fiber = pop_ring()) return fiber;
    if (beyond_.load(std::memory_order_relaxed) == 0) return nullptr;
    const Locked locked{lock_};
    Fiber* const fiber = overflow_.pop_front();
    if (fiber)
      beyond_.store(beyond_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    return fiber;
  }

  // Whether pop() would find nothing.
  [[nodiscard]] bool empty() const noexcept {
    std::uint64_t at = head_.load(std::memory_order_relaxed);
    for (;;) {
      // acquire: a turn that has gone past us tells that head_ has, too.
      const std::uint64_t turn = slots_[at % kSlots].turn.load(std::memory_order_acquire);
      if (turn == at + 1) return false;
      if (turn < at + 1)
        return mutant::kEmptyIgnoresOverflow || beyond_.load(std::memory_order_relaxed) == 0;
      at = head_.load(std::memory_order_relaxed);
    }
  }
  // About how many.
  [[nodiscard]] std::size_t length() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return (tail > head ? tail - head : 0) + beyond_.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    Atomic<std::uint64_t> turn{0};  // position: free for its writer; position + 1: full
    Var<Fiber*> fiber{nullptr};
  };

  bool push_ring(Fiber& fiber) noexcept {
    std::uint64_t at = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[at % kSlots];
      // acquire: pairs with pop_ring(); its reader is done with the slot.
      const std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn < at) return false;  // full
      if (turn > at) {
        at = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        slot.fiber.write(&fiber);
        // release: pairs with pop_ring(); the reader sees the fiber as we left it.
        slot.turn.store(at + 1, mutant::kInjectorTurnRelaxed ? std::memory_order_relaxed
                                                             : std::memory_order_release);
        return true;
      }
    }
  }

  Fiber* pop_ring() noexcept {
    std::uint64_t at = head_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[at % kSlots];
      const std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn < at + 1) return nullptr;  // empty, or its writer is not done
      if (turn > at + 1) {
        at = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        Fiber* const fiber = slot.fiber.read();
        slot.turn.store(at + kSlots, std::memory_order_release);
        return fiber;
      }
    }
  }

  alignas(64) Atomic<std::uint64_t> tail_{0};
  alignas(64) Atomic<std::uint64_t> head_{0};
  alignas(64) Lock lock_;  // protects overflow_; beyond_ is written under it
  Atomic<std::size_t> beyond_{0};
  FiberList overflow_;
  std::array<Slot, kSlots> slots_{};
};

using Injector = InjectorOf<4096>;

}  // namespace weft::engine
