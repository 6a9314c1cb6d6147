// The expensive half of the asymmetric fence: a barrier on every core that runs a thread of ours.
#include <weft/base/sync.hpp>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace weft {
namespace {

bool membarrier(int command) noexcept {
  const int saved_errno = errno;
  const bool done = ::syscall(SYS_membarrier, command, 0, 0) == 0;
  errno = saved_errno;
  return done;
}

}  // namespace

bool StdSync::has_fence_everywhere() noexcept {
  // The process must announce itself before it may use the fast kind.
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                                 membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  return registered;
}

void StdSync::fence_everywhere() noexcept { membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }

}  // namespace weft
