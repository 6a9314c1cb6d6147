// What code in a shared library of its own sees of the variables that weft's headers define.
#pragma once

#include <weft/core/cancel_scope.hpp>

namespace weft::testing::other_module {

[[gnu::visibility("default")]] const void* lock_seats_there() noexcept;
[[gnu::visibility("default")]] bool cancelled_there(CancelScope& scope) noexcept;

}  // namespace weft::testing::other_module
