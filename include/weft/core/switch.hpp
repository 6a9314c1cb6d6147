// Leaving one fiber for another, and what is done on arrival.
//
// The park is committed on the far side, by the fiber (or worker) that was switched to: only then
// is the stack that was left quiet, and may be run by another worker.
#pragma once

#include <weft/core/carrier.hpp>

namespace weft {

// F1, one owner at a time: model builds race-check every stack as one plain variable, and refuse to
// enter one that its owner has not left.
inline void enter_stack([[maybe_unused]] Fiber& fiber) noexcept {
#if defined(WEFT_MODEL)
  model::check(fiber.on_stack.read() == 0, "F1: the stack is still in use");
  fiber.on_stack.write(1);
#endif
}
inline void stack_is_quiet([[maybe_unused]] Fiber& fiber) noexcept {
#if defined(WEFT_MODEL)
  fiber.on_stack.write(0);
#endif
}

// The exception state stays with the fiber. It is empty on almost every switch, and then nothing
// is copied.
[[gnu::always_inline]] inline void carry_exceptions(Carrier& here, Fiber& from,
                                                    Fiber& to) noexcept {
  if (!here.exceptions->empty()) [[unlikely]] {
    from.strand->exceptions = std::exchange(*here.exceptions, arch::ExceptionState{});
    from.exceptions_saved = true;
  }
  if (to.exceptions_saved) [[unlikely]] {
    *here.exceptions = to.strand->exceptions;
    to.exceptions_saved = false;
  }
}

// Its wait was ended while it was still parking, or as soon as it was parked.
[[gnu::cold]] inline void resume_latched(Fiber& parker) noexcept {
  parker.traits |= kLatched;
  parker.io->resume_one(parker);
}

// First thing after a switch, on the stack that was switched to.
[[gnu::always_inline]] inline void arrive(Fiber& self, arch::Arrival arrival) noexcept {
  Fiber& left = *static_cast<Fiber*>(arrival.who);
  const auto how = static_cast<Departure>(arrival.how);
  self.strand->ground.shadow.arrive(left.strand->ground.shadow);
  stack_is_quiet(left);
  if (how == Departure::park) [[likely]] {
    if (!left.word.commit_park(left.attention)) [[unlikely]] resume_latched(left);
  } else if (how != Departure::none) {
    left.io->departed(left, how);
  }
}

// Leaves `from`, which runs on `here`, for `to`. Returns when somebody switches back, perhaps on
// another thread.
[[gnu::always_inline]] inline void switch_fibers(Carrier& here, Fiber& from, Fiber& to,
                                                 Departure how) noexcept {
  here.current = &to;
  carry_exceptions(here, from, to);
  enter_stack(to);
  Departure travels = how;
  if (mutant::kCommitOnOwnStack && how == Departure::park) {
    if (!from.word.commit_park(from.attention)) resume_latched(from);
    travels = Departure::none;
  }
  from.strand->ground.shadow.leave(to.strand->ground.shadow, false);
  const arch::Arrival arrival = arch::switch_context(from.context, to.context, &from,
                                                     static_cast<std::uintptr_t>(travels));
  if (how != Departure::none) from.word.mark_running();
  arrive(from, arrival);
}

// Leaves `from`, which has finished, for ever.
[[noreturn, gnu::always_inline]] inline void leave_for_ever(Fiber& from, Fiber& to) noexcept {
  Carrier& here = Carrier::of_engine();
  here.current = &to;
  carry_exceptions(here, from, to);
  enter_stack(to);
  from.strand->ground.shadow.leave(to.strand->ground.shadow, true);
  arch::jump_context(to.context, &from, static_cast<std::uintptr_t>(Departure::finish));
}

}  // namespace weft
