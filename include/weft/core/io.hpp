// Io: what a fiber may ask of the world. The only seam between programs and engines.
//
// Everything above (nurseries, channels, sockets) speaks to this class, everything below (FiberIo,
// SimIo, BlockingIo) implements it. The seam chooses, the caller switches: a virtual call that
// contains the switch would make every return after it mispredicted.
#pragma once

#include <weft/core/fiber.hpp>
#include <weft/core/time.hpp>

#include <cstdint>
#include <memory>

namespace weft {

class Offload;
class Reactor;
class Timer;

// Why a fiber leaves its stack, and so what is done for it on the far side of the switch.
enum class Departure : std::uintptr_t {
  none,    // the worker's own stack: nothing
  park,    // commit_park; a verdict already latched: resume()
  yield,   // departed(): back to a run queue, now that its stack is quiet
  finish,  // departed(): stack and frame go back to their pools
};

class Io {
 public:
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;

  // A new RUNNABLE fiber, its closure already in its frame. Takes its id from the engine. Throws,
  // leaving the frame to the caller, when the engine is out of room for it.
  virtual void start(Fiber& fiber) = 0;

  // Who runs next while `self` is away. Never null: the engine's own loop is a fiber too. Returns
  // `self` when there is no need to leave: nobody else to yield to, a verdict latched already, or
  // the engine has slept here until the wait was over.
  virtual Fiber& successor(Fiber& self, Departure how) noexcept = 0;

  // Called on the far side for a fiber that yielded or finished.
  virtual void departed(Fiber& fiber, Departure how) noexcept = 0;

  // RUNNABLE fibers, whose claims we own, enter exactly one run queue each. From any thread.
  virtual void resume(FiberList fibers) noexcept = 0;
  // The same for one, as most are.
  virtual void resume_one(Fiber& fiber) noexcept;

  // The newest fiber of the calling worker, if it is unborn and was spawned in `home`, for the
  // caller to run on its own stack: a fiber that waits for home's fibers to end (`park`), or one of
  // them that has just ended itself (`finish`). To the latter it may also hand home's owner, if
  // that one was woken and is the next to run. Null: wait like everybody else, or ask for a
  // successor.
  virtual Fiber* adopt(CancelScope& home, Departure how) noexcept;

  [[nodiscard]] virtual Instant now() const noexcept = 0;  // never a cancel point
  // now(), or a moment later, for less than a look at the clock: what time limits are counted from.
  [[nodiscard]] virtual Instant now_or_later() noexcept { return now(); }

  // Arming is for fibers of the engine and, if it has any, other threads. When disarm() has
  // returned, nobody touches the timer; idempotent.
  virtual void arm(Timer& timer) noexcept = 0;
  virtual void disarm(Timer& timer) noexcept = 0;

  // 64 random bits, for back-off, sampling and load balancing; not for secrets. In simulation the
  // seed decides them. By fibers of the engine and, if it has any, other threads. Never parks.
  [[nodiscard]] virtual std::uint64_t random() noexcept = 0;

  // Threads for calls that block. Null: make them where you are.
  [[nodiscard]] virtual Offload* offload() noexcept { return nullptr; }
  // The calling fiber is about to block its thread, or to compute for long, or is done with that:
  // meanwhile others may take over what waits for its worker. Its next wait ends it, too.
  virtual void expect_blocking(bool about_to) noexcept { static_cast<void>(about_to); }

  // What watches descriptors for the fibers of this engine. It may outlive the engine, as long as a
  // descriptor does. Null: there is no I/O to be had.
  [[nodiscard]] virtual std::shared_ptr<Reactor> reactor() noexcept { return nullptr; }

  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;  // "FiberIo", for messages

  // A wait ended with the verdict `deadlock`: throws what the engine has to say about it.
  [[noreturn]] virtual void raise_deadlock() const;

 protected:
  Io() = default;
  ~Io() = default;
};

// The running fiber's engine. Throws std::logic_error on a thread that is not inside one.
Io& io();

}  // namespace weft
