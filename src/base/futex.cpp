// Kernel sleep and wake: the two system calls behind StdSync.
//
// Both leave errno as they found it. A wait may lie between a user's failing call and the line that
// reads its error, and nothing weft does in that gap may show.
#include <weft/base/sync.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>

namespace weft {

// The address of a 64-bit word is also the address of its low half, the half the kernel compares.
static_assert(std::endian::native == std::endian::little);

namespace {

// Private: the words live in this process's memory, which spares the kernel the page lookup.
void futex(const void* word, int operation, std::uint32_t value,
           const std::timespec* timeout) noexcept {
  const int saved_errno = errno;
  // The result says nothing the callers may rely on: a wake, a signal, a timeout and a word that
  // has changed all mean "look again", and a wake may find nobody.
  ::syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
  errno = saved_errno;
}

}  // namespace

void StdSync::futex_sleep(const void* low_half, std::uint32_t seen,
                          const std::timespec* timeout) noexcept {
  futex(low_half, FUTEX_WAIT, seen, timeout);  // FUTEX_WAIT takes a relative timeout
}

void StdSync::futex_wake(const void* low_half, unsigned sleepers) noexcept {
  // The kernel reads the count as an int; "all" may be spelt UINT_MAX.
  futex(low_half, FUTEX_WAKE, std::min<unsigned>(sleepers, INT_MAX), nullptr);
}

}  // namespace weft
