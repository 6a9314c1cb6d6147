// Timer: one armed instant. Lives in the operation that waits for it.
#pragma once

#include <weft/core/time.hpp>

#include <cstdint>

namespace weft {

// The engine that armed it owns every field until it fires or is disarmed.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  Instant when{};

 protected:
  ~Timer() = default;

 private:
  friend class TimerQueue;
  friend class ThreadIo;

  // Called once, by the engine, after the timer was taken out of its queue.
  virtual void fire() noexcept = 0;

  std::uint64_t order_ = 0;   // of arming: equal instants fire in this order
  Timer* child_ = nullptr;    // pairing heap: first child,
  Timer* sibling_ = nullptr;  // next sibling,
  Timer* before_ = nullptr;   // previous sibling, or the parent of a first child
  bool armed_ = false;
};

}  // namespace weft
