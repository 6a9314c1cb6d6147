// The two queues of a worker: depth first for the unborn, first in first out for the living.
//
// A tree of a million fibers, spawned depth first, needs the memory of its depth; woken and yielded
// fibers take turns. Whoever is inside the worker's gate is alone with both; only their positions
// may be looked at from outside, as a hint.
#pragma once

#include <weft/base/inspected.hpp>
#include <weft/core/fiber.hpp>
#include <weft/core/spec.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>

namespace weft::engine {

// F2, checked on both sides of every queue.
inline Fiber& queued(Fiber& fiber) noexcept {
  spec::check(spec::Rule::f2_only_runnable_is_queued,
              [&] { return spec::can_be_queued(fiber.word.state()); });
  return fiber;
}

// Spawned, not yet started. The owner takes the newest; thieves, and fairness now and then, the
// oldest.
class FreshQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }
  [[nodiscard]] std::size_t length() const noexcept { return last_ - first_; }
  // How often it turned from empty to not empty: as long as this stays, the oldest has been there.
  [[nodiscard]] std::uint64_t fillings() const noexcept { return fillings_; }
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }

  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint64_t at = first_; at != last_; ++at) visit(*slots_[at & mask_]);
  }

  // Throws std::bad_alloc, changing nothing, when it cannot grow.
  void push(Fiber& fiber) {
    if (push_if_room(fiber) == kNoRoom) [[unlikely]] {
      grow();
      static_cast<void>(push_if_room(fiber));
    }
  }
  // How many were there before; kNoRoom: and nothing has changed.
  static constexpr std::size_t kNoRoom = SIZE_MAX;
  [[nodiscard, gnu::always_inline]] std::size_t push_if_room(Fiber& fiber) noexcept {
    const std::uint64_t last = last_;
    const std::uint64_t before = last - first_;
    if (before > mask_) [[unlikely]] return kNoRoom;
    if (before == 0) fillings_ = fillings_ + 1;
    slots_[last & mask_] = &queued(fiber);
    last_ = last + 1;
    return before;
  }
  Fiber* pop_newest() noexcept {
    const std::uint64_t last = last_;
    if (last == first_) return nullptr;
    last_ = last - 1;
    return &queued(*slots_[(last - 1) & mask_]);
  }
  // The newest, if it was spawned in `home`.
  Fiber* pop_newest_of(const CancelScope& home) noexcept {
    const std::uint64_t last = last_;
    if (last == first_) return nullptr;
    Fiber* const newest = slots_[(last - 1) & mask_];
    if (newest->scope != &home) return nullptr;
    last_ = last - 1;
    return &queued(*newest);
  }
  Fiber* pop_oldest() noexcept {
    const std::uint64_t first = first_;
    if (first == last_) return nullptr;
    first_ = first + 1;
    return &queued(*slots_[first & mask_]);
  }

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
  Inspected<std::uint64_t> first_ = 0;
  Inspected<std::uint64_t> last_ = 0;
  Inspected<std::uint64_t> fillings_ = 0;
};

// Woken or yielded. A ring, because a ring can be looked ahead in. What does not fit waits behind
// it, in a queue of pointers: to move some of them must not mean to look at each. Without memory
// for that they are chained through their frames, so that push() cannot fail.
class ReadyQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }
  [[nodiscard]] std::size_t length() const noexcept { return last_ - first_; }
  [[nodiscard]] std::size_t behind() const noexcept { return behind_; }
  // Positions count up for ever: what stood before `last` then stands there as long as it waits.
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }

  void push(Fiber& fiber) noexcept {
    const std::uint64_t last = last_;
    if (last - first_ == kSlots) [[unlikely]] return push_behind(fiber);
    slots_[last % kSlots] = &queued(fiber);
    last_ = last + 1;
  }

  // The oldest, who is going to run.
  Fiber* pop() noexcept {
    Fiber* const fiber = take();
    if (fiber) prefetch(first_);
    return fiber;
  }
  // The oldest, who is to be moved elsewhere.
  Fiber* take() noexcept {
    const std::uint64_t first = first_;
    if (first == last_) return nullptr;
    Fiber* const fiber = &queued(*slots_[first % kSlots]);
    first_ = first + 1;
    if (behind_ != 0) [[unlikely]] pull_up();
    return fiber;
  }

  // With those that do not fit. Inside the gate, as is for_each(), which leaves them out.
  [[nodiscard]] std::size_t length_of_all() const noexcept { return length() + behind_; }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint64_t at = first_; at != last_; ++at) visit(*slots_[at % kSlots]);
  }

  // Those in the queue come from afar, and no cache of ours holds their stacks.
  void all_are_cold() noexcept { cold_before_ = last_; }

 private:
  static constexpr std::size_t kSlots = 2048;

  // How many turns before its own a fiber's lines are fetched: frames first, which tell where the
  // stacks are. Those that come from memory take longer than a turn or two.
  struct Ahead {
    std::uint64_t frame;
    std::uint64_t stack;
  };
  static constexpr Ahead kWarm{3, 1};
  static constexpr Ahead kCold{8, 4};

  // A thousand fibers that take turns miss the cache on every frame and stack; more than a thousand
  // miss it on each line that they are going to touch: let those trips be made at the same time.
  void prefetch(std::uint64_t first) const noexcept {
    const std::uint64_t waiting = last_ - first;
    if (waiting <= kWarm.frame) return;
    if (first < cold_before_ && waiting > kCold.frame) [[unlikely]] {
      const Fiber& far = at(first + kCold.frame);
      __builtin_prefetch(&far);
      __builtin_prefetch(&far.closure);
      return prefetch_stack(at(first + kCold.stack));
    }
    __builtin_prefetch(&at(first + kWarm.frame));
    __builtin_prefetch(at(first + kWarm.stack).context.stack_pointer);
  }
  [[nodiscard]] const Fiber& at(std::uint64_t position) const noexcept {
    return *slots_[position % kSlots];
  }
  static void prefetch_stack(const Fiber& soon) noexcept {
    // A number, not a pointer: one who has not started yet has no stack.
    const auto pointer = reinterpret_cast<std::uintptr_t>(soon.context.stack_pointer);
    constexpr std::uintptr_t kLine = 64;
    // From what its wait is going to call, up to where the fiber began.
    constexpr std::uintptr_t kBelow = 6;
    constexpr std::uintptr_t kAbove = 10;
    for (std::uintptr_t i = 0; i < kBelow + kAbove; ++i)
      __builtin_prefetch(reinterpret_cast<const void*>(pointer + (i - kBelow) * kLine), 1);
  }

  [[gnu::cold, gnu::noinline]] void push_behind(Fiber& fiber) noexcept {
    behind_ = behind_ + 1;
    try {
      if (chained_.empty()) return crowd_.push_back(&queued(fiber));
    } catch (const std::bad_alloc&) {
    }
    chained_.push_back(fiber);
  }
  [[gnu::noinline]] void pull_up() noexcept {
    behind_ = behind_ - 1;
    Fiber* fiber = nullptr;
    if (!crowd_.empty()) {
      fiber = crowd_.front();
      crowd_.pop_front();
    } else {
      fiber = chained_.pop_front();
    }
    push(*fiber);
    all_are_cold();  // more fibers than a cache has room for
  }

  Inspected<std::uint64_t> first_ = 0;
  Inspected<std::uint64_t> last_ = 0;
  std::uint64_t cold_before_ = 0;  // a position
  Inspected<std::size_t> behind_ = 0;  // how many do not fit: in crowd_, then in chained_
  std::array<Fiber*, kSlots> slots_{};
  std::deque<Fiber*> crowd_;
  FiberList chained_;
};

}  // namespace weft::engine
