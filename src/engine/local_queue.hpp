// The two queues of a worker: depth first for the unborn, first in first out for the living.
//
// A tree of a million fibers, spawned depth first, needs the memory of its depth; woken and yielded
// fibers take turns. Both are owned by their worker's thread alone.
#pragma once

#include <weft/core/fiber.hpp>
#include <weft/core/spec.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::engine {

// F2, checked on both sides of every queue.
inline Fiber& queued(Fiber& fiber) noexcept {
  spec::check(spec::Rule::f2_only_runnable_is_queued,
              [&] { return spec::can_be_queued(fiber.word.state()); });
  return fiber;
}

// Spawned, not yet started. The owner takes the newest; fairness now and then takes the oldest.
class FreshQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }
  [[nodiscard]] Fiber* newest() const noexcept {
    return empty() ? nullptr : slots_[(last_ - 1) & mask_];
  }

  // Throws std::bad_alloc, changing nothing, when it cannot grow.
  void push(Fiber& fiber) {
    if (last_ - first_ > mask_) [[unlikely]] grow();
    slots_[last_++ & mask_] = &queued(fiber);
  }
  Fiber* pop_newest() noexcept { return empty() ? nullptr : &queued(*slots_[--last_ & mask_]); }
  Fiber* pop_oldest() noexcept { return empty() ? nullptr : &queued(*slots_[first_++ & mask_]); }

 private:
  [[gnu::cold, gnu::noinline]] void grow() {
    const std::size_t bigger = 2 * (mask_ + 1);
    auto slots = std::make_unique<Fiber*[]>(bigger);
    for (std::uint64_t i = first_; i != last_; ++i) slots[i & (bigger - 1)] = slots_[i & mask_];
    slots_ = std::move(slots);
    mask_ = bigger - 1;
  }

  std::size_t mask_ = 255;
  std::unique_ptr<Fiber*[]> slots_ = std::make_unique<Fiber*[]>(mask_ + 1);
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
};

// Woken or yielded. A ring, because a ring can be looked ahead in; what does not fit waits in a
// chain through the frames, so that push() cannot fail.
class ReadyQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }

  void push(Fiber& fiber) noexcept {
    if (last_ - first_ == kSlots) [[unlikely]] {
      overflow_.push_back(fiber);
      return;
    }
    slots_[last_++ % kSlots] = &queued(fiber);
  }

  Fiber* pop() noexcept {
    if (empty()) return nullptr;
    Fiber* const fiber = &queued(*slots_[first_++ % kSlots]);
    if (!overflow_.empty()) [[unlikely]] slots_[last_++ % kSlots] = overflow_.pop_front();
    prefetch();
    return fiber;
  }

 private:
  static constexpr std::size_t kSlots = 2048;
  static constexpr std::uint64_t kFrameAhead = 3;

  // A thousand fibers that take turns miss the cache on every frame and stack: fetch the frame of
  // three turns ahead and the stack of the next.
  void prefetch() const noexcept {
    if (last_ - first_ <= kFrameAhead) return;
    __builtin_prefetch(slots_[(first_ + kFrameAhead) % kSlots]);
    __builtin_prefetch(slots_[(first_ + 1) % kSlots]->context.stack_pointer);
  }

  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  FiberList overflow_;
  std::array<Fiber*, kSlots> slots_{};
};

}  // namespace weft::engine
