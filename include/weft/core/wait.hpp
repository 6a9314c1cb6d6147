// wait: the one door. No other function in weft can park a fiber.
#pragma once

#include <weft/core/carrier.hpp>
#include <weft/core/switch.hpp>
#include <weft/core/waitable.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace weft {

// Waits until one of `arms` has completed, and returns its index. The others are as if they had
// never been tried: an arm that loses loses nothing.
//
// Parks while none can complete. Cancel point: throws Cancelled in a cancelled scope, even if an
// arm is ready. If an arm's try_complete() throws, nothing is published and the exception passes.
// Arms are tried in order, beginning with `first`. One to Verdict::kArmsMax of them; else throws
// std::invalid_argument.
std::size_t wait(std::span<Waitable* const> arms, std::size_t first = 0);

// The same, but no cancel point: for joins, and for cleanup that must finish.
std::size_t wait_shielded(std::span<Waitable* const> arms);

// Asks for the form of an operation that reports cancellation instead of throwing Cancelled.
struct no_throw_t {
  explicit no_throw_t() = default;
};
inline constexpr no_throw_t no_throw{};

// wait(), but in a cancelled scope it returns nothing.
std::optional<std::size_t> wait(std::span<Waitable* const> arms, no_throw_t,
                                std::size_t first = 0);

inline void wait(Waitable& only) {
  Waitable* const arms[] = {&only};
  wait(std::span<Waitable* const>{arms});
}
// False: cancelled.
[[nodiscard]] inline bool wait(Waitable& only, no_throw_t) {
  Waitable* const arms[] = {&only};
  return wait(std::span<Waitable* const>{arms}, no_throw).has_value();
}
inline void wait_shielded(Waitable& only) {
  Waitable* const arms[] = {&only};
  wait_shielded(std::span<Waitable* const>{arms});
}

// Looks at our scope: throws Cancelled if it is cancelled, unless an exception is unwinding.
void attend(Fiber& self);

// The cancel point of operations that do not wait. One load when nothing is the matter.
[[gnu::always_inline]] inline void checkpoint(Fiber& self) {
  if (self.attention.load(std::memory_order_relaxed) != 0) [[unlikely]] attend(self);
}

// Lets the others run. Not a cancel point.
[[gnu::always_inline]] inline void give_way(Fiber& self) noexcept {
  Fiber& next = self.io->successor(self, Departure::yield);
  if (&next != &self) switch_fibers(self, next, Departure::yield);
}

}  // namespace weft
