#include "module_victim.hpp"

#include <weft/base/biased_lock.hpp>
#include <weft/base/sync.hpp>

namespace weft::testing::other_module {

const void* lock_seats_there() noexcept { return lock_seats<Sync>.data(); }

bool cancelled_there(CancelScope& scope) noexcept { return scope.cancelled_by_now(); }

}  // namespace weft::testing::other_module
