// Inbox: where other threads leave fibers for a worker, and where the worker sleeps.
//
// Invariant: a fiber in the inbox implies that the worker is awake or being woken.
// Race:      the worker goes to sleep while a fiber or a nudge arrives. Both are one
//            compare-exchange on the same word: either it came first, and the worker does not
//            sleep, or the worker fell asleep first, and the sender sees `asleep` and wakes it.
// Rejected:  a sleep flag beside the queue: two words, which need sequential consistency.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/fiber.hpp>

#include <cstdint>
#include <ctime>

namespace weft::engine {

class Inbox {
 public:
  // Leaves `fiber` here. From any thread. If the worker sleeps, wakes it.
  void push(Fiber& fiber) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      fiber.link = to_fiber(head);
      // release: pairs with take_all(); the worker sees the fiber as we left it.
    } while (!head_.compare_exchange_weak(head, to_word(&fiber), std::memory_order_release,
                                          std::memory_order_relaxed));
    if (head == kAsleep) Sync::wake(head_, 1);
  }

  // Has the worker look around without giving it anything to run: wakes it, or keeps it from
  // falling asleep once. From any thread.
  void nudge() noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      if (head != kEmpty && head != kAsleep) return;  // it will look around anyway
      // release: pairs with sleep(); the worker sees why it was nudged.
    } while (!head_.compare_exchange_weak(head, kNudged, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    if (head == kAsleep) Sync::wake(head_, 1);
  }

  [[nodiscard]] bool empty() const noexcept {
    return head_.load(std::memory_order_relaxed) == kEmpty;
  }

  // Everything, in order of arrival. By the worker.
  FiberList take_all() noexcept {
    Fiber* newest = to_fiber(head_.exchange(kEmpty, std::memory_order_acquire));
    Fiber* oldest = nullptr;
    while (newest) {
      Fiber* const before = newest->link;
      newest->link = oldest;
      oldest = newest;
      newest = before;
    }
    FiberList all;
    while (oldest) {
      Fiber* const after = oldest->link;
      all.push_back(*oldest);
      oldest = after;
    }
    return all;
  }

  // Sleeps until something arrives, nudge(), or `timeout`. May return early. By the worker, whose
  // queues are empty.
  void sleep(const std::timespec* timeout) noexcept {
    if (become(kEmpty, kAsleep)) {
      Sync::sleep(head_, kAsleep, timeout);
      if (become(kAsleep, kEmpty)) return;  // nobody came: a time-out, or a spurious return
    }
    become(kNudged, kEmpty);
  }

 private:
  // Frames are cache-line aligned: no pointer's low half reads as one of these.
  static constexpr std::uint64_t kEmpty = 0;
  static constexpr std::uint64_t kAsleep = 1;
  static constexpr std::uint64_t kNudged = 2;

  bool become(std::uint64_t from, std::uint64_t to) noexcept {
    return head_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }
  static std::uint64_t to_word(Fiber* fiber) noexcept {
    return reinterpret_cast<std::uint64_t>(fiber);
  }
  static Fiber* to_fiber(std::uint64_t word) noexcept {
    return word <= kNudged ? nullptr : reinterpret_cast<Fiber*>(word);
  }

  Atomic<std::uint64_t> head_{kEmpty};
};

}  // namespace weft::engine
