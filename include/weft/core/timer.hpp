// Timer: one armed instant. Lives in the operation that waits for it.
#pragma once

#include <weft/core/fiber.hpp>
#include <weft/core/time.hpp>

#include <cstdint>

namespace weft {

namespace engine {
class SharedTimers;
class TimerWheel;
}

struct StopHook;

// What firing timers brought about, to be dealt with once the engine's locks are released.
struct Fired {
  FiberList woken;            // the engine resumes them
  StopHook* hooks = nullptr;  // then CancelScope::tell()
};

// The engine that armed it owns every field until it fires or is disarmed.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  Instant when{};

 protected:
#if defined(WEFT_MODEL)
  ~Timer() { model::check(!armed_, "a timer was destroyed while armed"); }
#else
  ~Timer() = default;
#endif

 private:
  friend class TimerQueue;
  friend class ThreadIo;
  friend class engine::SharedTimers;
  friend class engine::TimerWheel;

  // Called once, by the engine, after the timer was taken out of its queue and before disarm() can
  // return.
  virtual void fire(Fired& fired) noexcept = 0;

  // In a TimerQueue, whose pairing heap they make up:
  std::uint64_t order_ = 0;  // of arming: equal instants fire in this order
  Timer* child_ = nullptr;   // the first one
  // In either:
  Timer* before_ = nullptr;  // the previous sibling or neighbour; the parent of a first child
  Timer* after_ = nullptr;   // the next one
  // In a TimerWheel:
  engine::SharedTimers* shared_ = nullptr;  // where it was armed last
  std::uint16_t place_ = 0;                 // its slot
  bool armed_ = false;
};

}  // namespace weft
