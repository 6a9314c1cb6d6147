// Who holds a lock, in words, for the WaitReason of those who wait for it.
#pragma once

#include <weft/core/fiber.hpp>

#include <span>
#include <string_view>

namespace weft::sync {

// `verb (held by #3 "worker")`, written into `text`, shortened if need be. The waiter's engine
// stands still; of a holder elsewhere nothing is said but where it is.
std::string_view held_by(std::string_view verb, const Fiber& holder, const Fiber& waiter,
                         std::span<char> text) noexcept;

}  // namespace weft::sync
