// Carrier: an OS thread as fibers see it. Workers are carriers; so is any thread that waits.
#pragma once

#include <weft/arch/exceptions.hpp>
#include <weft/arch/thread_slot.hpp>
#include <weft/base/biased_lock.hpp>
#include <weft/core/fiber.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/core/io.hpp>

namespace weft {

struct Carrier {
  Inspected<Fiber*> current = nullptr;         // who runs on this thread now
  arch::ExceptionState* exceptions = nullptr;  // this thread's; the address never changes
  const Io* engine = nullptr;                  // whose fibers it carries
  std::uint16_t number = 0;                    // among the engine's carriers
  bool has_pinned = false;                     // a fiber was pinned to it: it must stay
  // About what time it is, never ahead: what waits are stamped with, which must not cost a look at
  // the clock. Any thread that has just looked may write it.
  Inspected<Instant> coarse_now{};
  LockTaker<Sync> taker;  // of ObjectLocks
  FrameCache frames;

  // The calling thread's, if it has one.
  [[gnu::always_inline]] static Carrier* if_any() noexcept {
    return static_cast<Carrier*>(arch::thread_slot());
  }
  // The calling thread's. A thread that never met weft becomes a carrier here.
  [[gnu::always_inline]] static Carrier& here() noexcept {
    void* const slot = arch::thread_slot();
    if (slot == nullptr) [[unlikely]] return enlist_thread();
    return *static_cast<Carrier*>(slot);
  }

  // The same, where a fiber of an engine runs.
  [[gnu::always_inline]] static Carrier& of_engine() noexcept { return *if_any(); }

 private:
  [[gnu::cold, gnu::noinline]] static Carrier& enlist_thread() noexcept;
};

inline Fiber& Fiber::current() noexcept { return *Carrier::here().current; }

}  // namespace weft
