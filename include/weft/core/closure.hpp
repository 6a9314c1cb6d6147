// From a callable to a fiber: the closure goes into the frame, or into a box if it is large.
#pragma once

#include <weft/core/cancel_scope.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/locals.hpp>

#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace weft {

template <class F>
inline constexpr bool kFits = sizeof(F) <= kRoomBytes[1] - sizeof(Locals*) && alignof(F) <= 32;

// A large frame ends with room for what its fiber inherits. Only there while it has kInherits.
inline Locals*& inheritance(Fiber& fiber) noexcept {
  auto* const end = static_cast<std::byte*>(fiber.room_at()) + kRoomBytes[1];
  return *std::launder(reinterpret_cast<Locals**>(end - sizeof(Locals*)));
}
// Of a fiber that will not run.
inline void disinherit(Fiber& fiber) noexcept {
  if (!(fiber.traits & kInherits)) [[likely]] return;
  fiber.traits = static_cast<std::uint8_t>(fiber.traits & ~kInherits);
  inheritance(fiber)->release();
}

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

  static constinit inline Closure closure{&run, &drop, {}};
};

// A frame with room for `locals`, and in it them, in exchange for `frame`.
[[gnu::cold, gnu::noinline]] inline Fiber& make_heir(Carrier& here, Fiber& frame, Locals& locals) {
  here.frames.give(frame);
  Fiber& heir = here.frames.take(FrameSize::large);
  locals.keep();
  auto* const end = static_cast<std::byte*>(heir.room_at()) + kRoomBytes[1];
  ::new (end - sizeof(Locals*)) Locals*(&locals);
  heir.traits = kInherits;
  return heir;
}

// The first thing a fiber of some traits does.
[[gnu::cold, gnu::noinline]] inline void begin(Fiber& fiber) noexcept {
  const std::uint8_t traits = fiber.traits;
  if (traits & kInherits) fiber.strand->locals = inheritance(fiber);
  if (traits & kSettles) {
    Carrier& here = Carrier::here();
    fiber.last_worker = here.number;
    here.has_pinned = true;
  }
  const int settled = traits & kSettles ? kPinned : 0;
  fiber.traits = static_cast<std::uint8_t>((traits & ~(kInherits | kSettles)) | settled);
}

// A new fiber of `io` in `home`, RUNNABLE but not yet started. Allocates nothing in the steady
// state, unless F is larger than a large frame. If F's move throws, the frame is given back. `site`
// is remembered if it is the first for this F. By who runs `here`.
template <class F>
Fiber& make_fiber(Carrier& here, Io& io, Home& home, F&& callable, Site site) {
  using Stored = std::decay_t<F>;
  constexpr FrameSize kSize = kFits<Stored> && sizeof(Stored) > kRoomBytes[0] ? FrameSize::large
                                                                              : FrameSize::small;
  Fiber* frame = &here.frames.take(kSize);
  if (Locals* const locals = here.current->strand->locals) [[unlikely]]
    frame = &make_heir(here, *frame, *locals);
  Fiber& fiber = *frame;
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
      disinherit(fiber);
      Carrier::here().frames.give(fiber);  // where the callable's copy has left us
      throw;
    }
  }
  ClosureOf<Stored>::closure.spawned_at.note_first(site);
  fiber.closure = &ClosureOf<Stored>::closure;
  fiber.scope = &home;
  fiber.io = &io;
  fiber.word.mark_reborn();
  fiber.word.mark_runnable(Actor::spawner);
  return fiber;
}
template <class F>
Fiber& make_fiber(Io& io, Home& home, F&& callable, Site site) {
  return make_fiber(Carrier::here(), io, home, std::forward<F>(callable), site);
}

// What the closure owns may wait when it is destroyed, for a lock for example: a fiber like others.
[[gnu::cold, gnu::noinline]] inline void drop_unrun(Fiber& fiber) noexcept {
  fiber.closure->drop(fiber);
  disinherit(fiber);
  CancelScope::withdraw(*fiber.strand);
  static_cast<Home*>(fiber.scope)->child_cancelled();
  fiber.word.mark_ended(FiberState::cancelled, Actor::fiber);
}

// Runs the closure of a fiber on its first stack, or drops it if its scope is cancelled already;
// afterwards no canceller can find the fiber. Its home is still to be told.
[[gnu::always_inline]] inline void run_closure(Fiber& fiber) noexcept {
  fiber.word.mark_running();
  // Not for a cancel of its own: that is for the fiber to heed, or to finish in spite of.
  if (fiber.scope->cancelled_by_now() &&
      static_cast<Home*>(fiber.scope)->family().cancelled()) [[unlikely]]
    return drop_unrun(fiber);
  if (fiber.traits & (kInherits | kSettles)) [[unlikely]] begin(fiber);
  const FiberState end = fiber.closure->run(fiber);
  if (fiber.strand->locals) [[unlikely]] fiber.strand->locals->release();
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
  if (fiber.traits != 0) [[unlikely]] {
    // An inspector may be copying the name of one that ran on.
    if (fiber.traits & kNameOwned) fiber.rename({});
    else fiber.set_name({});
    fiber.traits = 0;
  }
  here.frames.give(fiber);
}

// Undoes make_fiber() for a fiber that no engine took.
inline void discard_fiber(Fiber& fiber) noexcept {
  fiber.closure->drop(fiber);
  disinherit(fiber);
  recycle_frame(fiber, Carrier::here());
}

// Runs `child`, just adopted, on the stack of `self`. It is a fiber like any other, and may park.
[[gnu::always_inline]] inline void run_in_place(Fiber& self, Fiber& child) noexcept {
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
