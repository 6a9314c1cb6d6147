// The fiber that runs this line.
#pragma once

#include <weft/core/wait.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::this_fiber {

// Unique within the engine's lifetime; 0 on a plain thread.
[[nodiscard]] inline FiberId id() noexcept { return Fiber::current().id; }

// Valid until the name changes or the fiber ends.
[[nodiscard]] inline std::string_view name() noexcept { return Fiber::current().name(); }
inline void set_name(Name name) noexcept { Fiber::current().rename(std::move(name)); }
// The names from the engine's root down to this fiber, such as "main/server/connection 7"; those
// without a name are given by id, as in "main/#12". For messages: it climbs the tree.
[[nodiscard]] std::string path();

// Lets the others run; returns at once if there are none. Cancel point.
[[gnu::always_inline]] inline void yield() {
  Fiber& self = Fiber::current();
  weft::checkpoint(self);
  give_way(self);
}

// Throws Cancelled if our scope is cancelled. A cancel point that never parks.
inline void checkpoint() { weft::checkpoint(Fiber::current()); }

// Whether our scope is cancelled: the form without an exception.
[[nodiscard]] bool cancelled() noexcept;

// Whether our scope is cancelled, or was asked to stop and will be: see Nursery::cancel(grace).
[[nodiscard]] bool stopping() noexcept;

// Bytes left on this fiber's stack below the caller's frame; on a plain thread 0: unknown.
[[nodiscard]] std::size_t stack_remaining() noexcept;

}  // namespace weft::this_fiber
