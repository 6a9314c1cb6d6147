// Timer: one armed instant. Lives in the operation that waits for it.
#pragma once

#include <weft/core/fiber.hpp>
#include <weft/core/time.hpp>

#include <cstdint>

namespace weft {

namespace engine {
class SharedTimers;
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

  // Called once, by the engine, after the timer was taken out of its queue and before disarm() can
  // return.
  virtual void fire(Fired& fired) noexcept = 0;

  std::uint64_t order_ = 0;   // of arming: equal instants fire in this order
  Timer* child_ = nullptr;    // pairing heap: first child,
  Timer* sibling_ = nullptr;  // next sibling,
  Timer* before_ = nullptr;   // previous sibling, or the parent of a first child
  bool armed_ = false;
  engine::SharedTimers* shared_ = nullptr;  // where it was armed last, if other threads may fire it
};

}  // namespace weft
