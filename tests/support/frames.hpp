// Frames without an engine, and how many frames engines and threads hold.
#pragma once

#include <weft/core/frame_pool.hpp>

#include <cstddef>
#include <vector>

namespace weft::testing {

// RUNNABLE frames with the ids 0, 1, 2 ..., as queues hold them; home again at the end.
class Frames {
 public:
  explicit Frames(std::size_t count) {
    fibers_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      Fiber& fiber = cache_.take(FrameSize::small);
      fiber.id = i;
      fiber.word.mark_reborn();
      fiber.word.mark_runnable(Actor::spawner);
      fibers_.push_back(&fiber);
    }
  }
  ~Frames() {
    for (Fiber* fiber : fibers_) {
      fiber->id = 0;
      cache_.give(*fiber);
    }
  }
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;
  Fiber& operator[](std::size_t i) { return *fibers_[i]; }

 private:
  FrameCache cache_;
  std::vector<Fiber*> fibers_;
};

// Those in the hands of a fiber, an engine or a thread.
[[nodiscard]] inline std::size_t frames_in_use() {
  std::size_t count = 0;
  for_each_frame(
      [](Fiber& fiber, void* at) { *static_cast<std::size_t*>(at) += fiber.io != nullptr; },
      &count);
  return count;
}

}  // namespace weft::testing
