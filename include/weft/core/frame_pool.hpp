// FramePool: fiber frames, recycled and never given back to the system.
//
// A stale waker may look at a frame long after its fiber ended; the ticket tells it so, but only if
// the frame is still a frame (S0 §1.1). So frames live as long as the process, in slabs on huge
// pages, and flow back to whoever spawns: each carrier keeps a small cache, the surplus returns to
// the pool in batches.
#pragma once

#include <weft/core/fiber.hpp>

#include <cstddef>
#include <cstdint>

namespace weft {

// Closures up to 32 bytes fit a small frame, up to 152 a large one, whose last word is for what
// the fiber inherits. Larger ones are boxed.
enum class FrameSize : std::uint8_t { small, large };
inline constexpr std::size_t kFrameSizes = 2;
inline constexpr std::size_t kFrameBytes[kFrameSizes] = {128, 256};
inline constexpr std::size_t kRoomBytes[kFrameSizes] = {32, 160};

// One carrier's free frames. Used by its thread alone.
class FrameCache {
 public:
  FrameCache() = default;
  FrameCache(const FrameCache&) = delete;
  FrameCache& operator=(const FrameCache&) = delete;
  ~FrameCache() { give_all(); }

  // Throws std::bad_alloc when the system has no memory left.
  Fiber& take(FrameSize size) {
    const auto at = static_cast<std::size_t>(size);
    if (free_[at] == nullptr) [[unlikely]] refill(at);
    Fiber& fiber = *free_[at];
    free_[at] = fiber.link;
    --count_[at];
    return fiber;
  }
  void give(Fiber& fiber) noexcept {
    const std::size_t at = fiber.size_class;
    fiber.link = free_[at];
    free_[at] = &fiber;
    if (++count_[at] > kKeep) [[unlikely]] give_batch(at, kBatch);
  }

 private:
  static constexpr std::uint32_t kBatch = 256;
  static constexpr std::uint32_t kKeep = 2048;

  [[gnu::cold, gnu::noinline]] void refill(std::size_t size);
  [[gnu::cold, gnu::noinline]] void give_batch(std::size_t size, std::uint32_t count) noexcept;
  void give_all() noexcept;

  Fiber* free_[kFrameSizes] = {};
  std::uint32_t count_[kFrameSizes] = {};
};

// Frames of both sizes that were ever made: their memory is never given back.
std::uint64_t frames_made() noexcept;

// Calls `visit(fiber, context)` for every frame that ever existed, free ones included.
void for_each_frame(void (*visit)(Fiber&, void*), void* context);

}  // namespace weft
