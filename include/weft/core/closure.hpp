// From a callable to a fiber: the closure goes into the frame, or into a box if it is large.
#pragma once

#include <weft/core/cancel_scope.hpp>
#include <weft/core/carrier.hpp>

#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace weft {

template <class F>
inline constexpr bool kFits = sizeof(F) <= kRoomBytes[1] && alignof(F) <= 32;

// The operations on an F that lives in a frame's room, or in a box the room points to.
template <class F>
struct ClosureOf {
  static F* find(Fiber& fiber) noexcept {
    if constexpr (kFits<F>) return std::launder(static_cast<F*>(fiber.room_at()));
    else return *std::launder(static_cast<F**>(fiber.room_at()));
  }

  static void drop(Fiber& fiber) noexcept {
    if constexpr (kFits<F>) std::destroy_at(find(fiber));
    else delete find(fiber);
  }

  // The closure is called once, as an rvalue, and destroyed before anybody learns of the end.
  static FiberState run(Fiber& fiber) noexcept {
    FiberState end = FiberState::done;
    try {
      std::move(*find(fiber))();
    } catch (const Cancelled&) {
      end = FiberState::cancelled;
    } catch (...) {
      static_cast<Home*>(fiber.scope)->child_failed(fiber, std::current_exception());
    }
    drop(fiber);
    return end;
  }

  static constexpr Closure kClosure{&run, &drop};
};

// A new fiber of `io` in `home`, RUNNABLE but not yet started. Allocates nothing in the steady
// state, unless F is larger than a large frame. If F's move throws, the frame is given back.
template <class F>
Fiber& make_fiber(Io& io, Home& home, F&& callable) {
  using Stored = std::decay_t<F>;
  constexpr FrameSize kSize = kFits<Stored> && sizeof(Stored) > kRoomBytes[0] ? FrameSize::large
                                                                              : FrameSize::small;
  Carrier& here = Carrier::here();
  Fiber& fiber = here.frames.take(kSize);
  const auto construct = [&] {
    if constexpr (kFits<Stored>) ::new (fiber.room_at()) Stored(std::forward<F>(callable));
    else ::new (fiber.room_at()) Stored*(new Stored(std::forward<F>(callable)));
  };
  if constexpr (std::is_nothrow_constructible_v<Stored, F&&> && kFits<Stored>) {
    construct();
  } else {
    try {
      construct();
    } catch (...) {
      here.frames.give(fiber);
      throw;
    }
  }
  fiber.closure = &ClosureOf<Stored>::kClosure;
  fiber.scope = &home;
  fiber.io = &io;
  fiber.word.mark_reborn();
  fiber.word.mark_runnable(Actor::spawner);
  return fiber;
}

// Runs the closure of a fiber on its first stack, or drops it if its scope is cancelled already;
// afterwards no canceller can find the fiber. Its home is still to be told.
inline void run_closure(Fiber& fiber) noexcept {
  if (fiber.scope->cancelled_before_start()) [[unlikely]] {
    fiber.closure->drop(fiber);
    fiber.word.mark_ended(FiberState::cancelled, Actor::worker);
    return static_cast<Home*>(fiber.scope)->child_cancelled();
  }
  fiber.word.mark_running();
  const FiberState end = fiber.closure->run(fiber);
  CancelScope::withdraw(*fiber.strand);
  if (end == FiberState::cancelled) [[unlikely]]
    static_cast<Home*>(fiber.scope)->child_cancelled();
  fiber.word.mark_ended(end, Actor::fiber);
}

// The frame of a fiber that has ended goes back to the calling worker's cache.
inline void recycle_frame(Fiber& fiber, Carrier& here) noexcept {
  fiber.strand = nullptr;
  fiber.io = nullptr;
  fiber.attention.store(kAttendToEnrol, std::memory_order_relaxed);
  if (fiber.name_text) [[unlikely]] fiber.set_name({});
  here.frames.give(fiber);
}

// Undoes make_fiber() for a fiber that no engine took.
inline void discard_fiber(Fiber& fiber) noexcept {
  fiber.closure->drop(fiber);
  recycle_frame(fiber, Carrier::here());
}

// Runs `child`, just adopted, on the stack of `self`. It is a fiber like any other, and may park.
inline void run_in_place(Fiber& self, Fiber& child) noexcept {
  Strand strand{child, self.strand->ground};
  strand.beneath = &self;
  child.strand = &strand;
  Carrier::here().current = &child;
  run_closure(child);
  Carrier& here = Carrier::here();  // not the one of before: the child may have moved us
  here.current = &self;
  recycle_frame(child, here);
}

}  // namespace weft
