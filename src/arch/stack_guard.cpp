#include "arch/stack_guard.hpp"

#include <weft/arch/fault.hpp>
#include <weft/base/sync.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace weft::arch {
namespace {

constexpr int kGuardInstall = 102;   // MADV_GUARD_INSTALL, not yet in the C library's headers
constexpr int kOwnProcess = -10001;  // PIDFD_SELF_THREAD_GROUP, likewise

enum class Support : unsigned { unknown, no, yes };
Atomic<Support> kernel_guards{Support::unknown};
// Whether process_madvise works on ourselves; Linux 6.13 and 6.14 have guards, but not that.
Atomic<bool> vector_advice{true};

// Whether the kernel can read one byte at `from`. The kernel's own access is the test, because it
// answers with an error where ours would be a signal.
enum class Readable { no, yes, unknown };
Readable readable(const std::byte* from) noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Readable::unknown;
  const ssize_t written = ::write(ends[1], from, 1);
  const int error = errno;
  ::close(ends[0]);
  ::close(ends[1]);
  if (written == 1) return Readable::yes;
  return error == EFAULT ? Readable::no : Readable::unknown;
}

// A return code proves nothing: user-mode emulators accept any advice and do not act on it.
Support probe_kernel_guards() noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return Support::unknown;
  auto* const guard = static_cast<std::byte*>(memory);
  auto* const open = guard + page;
  *guard = *open = std::byte{1};

  Support answer = Support::no;
  if (::madvise(guard, page, kGuardInstall) == 0) {
    const Readable below = readable(guard);
    const Readable above = readable(open);
    if (below == Readable::unknown || above == Readable::unknown) answer = Support::unknown;
    if (below == Readable::no && above == Readable::yes) answer = Support::yes;
  }
  ::munmap(memory, 2 * page);
  return answer;
}

// How many guards of the row may be made before the fault plan wants one to fail.
GuardsMade spared(fault::Site site, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    if (const int error = fault::hit(site)) return {i, error};
  return {count, 0};
}

std::size_t read_max_map_count() noexcept {
  constexpr std::size_t kKernelDefault = 65530;
  const int fd = ::open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kKernelDefault;
  std::array<char, 32> text;
  const ssize_t got = ::read(fd, text.data(), text.size());
  ::close(fd);
  std::size_t count = 0;
  if (got <= 0 || std::from_chars(text.data(), text.data() + got, count).ec != std::errc{})
    return kKernelDefault;
  return count;
}

Atomic<std::size_t> mappings_taken{0};

}  // namespace

bool kernel_guards_work() noexcept {
  // relaxed: the answer is the whole message. Two threads may both probe; they agree.
  Support answer = kernel_guards.load(std::memory_order_relaxed);
  if (answer == Support::unknown) {
    answer = probe_kernel_guards();
    kernel_guards.store(answer, std::memory_order_relaxed);
  }
  return answer == Support::yes;  // unknown (no descriptor for a pipe): asked again next time
}

std::size_t advise_ranges(std::span<iovec> ranges, int advice) noexcept {
  std::size_t done = 0;
  if (ranges.size() > 1 && vector_advice.load(std::memory_order_relaxed)) {  // relaxed: a hint
    long advised =
        ::syscall(SYS_process_madvise, kOwnProcess, ranges.data(), ranges.size(), advice, 0);
    if (advised < 0) vector_advice.store(false, std::memory_order_relaxed);
    for (; done < ranges.size() && advised >= static_cast<long>(ranges[done].iov_len); ++done)
      advised -= static_cast<long>(ranges[done].iov_len);
  }
  for (; done < ranges.size(); ++done)
    if (::madvise(ranges[done].iov_base, ranges[done].iov_len, advice) != 0) break;
  return done;
}

GuardsMade make_kernel_guards(const GuardRow& row) noexcept {
  const GuardsMade planned = spared(fault::Site::madvise_guard, row.count);
  std::array<iovec, 64> ranges;
  for (std::size_t made = 0; made < planned.count;) {
    const std::size_t batch = std::min(ranges.size(), planned.count - made);
    for (std::size_t i = 0; i < batch; ++i)
      ranges[i] = {row.first + (made + i) * row.cell_bytes, row.guard_bytes};
    const std::size_t advised = advise_ranges(std::span(ranges).first(batch), kGuardInstall);
    made += advised;
    if (advised < batch) return {made, errno};
  }
  return planned;
}

GuardsMade make_mprotect_guards(const GuardRow& row) noexcept {
  for (std::size_t made = 0; made < row.count; ++made)
    if (sys_mprotect(row.first + made * row.cell_bytes, row.guard_bytes, PROT_NONE) != 0)
      return {made, errno};
  return {row.count, 0};
}

std::size_t mappings_limit() noexcept {
  static const std::size_t limit = read_max_map_count();
  return limit;
}

std::size_t take_mappings(std::size_t wanted) noexcept {
  // relaxed: a count, nothing is published with it.
  const std::size_t ours = mappings_limit() / 2;
  std::size_t taken = mappings_taken.load(std::memory_order_relaxed);
  std::size_t granted;
  do {
    granted = std::min(wanted, ours - std::min(taken, ours));
    granted -= granted % kMappingsPerGuard;
  } while (
      !mappings_taken.compare_exchange_weak(taken, taken + granted, std::memory_order_relaxed));
  return granted;
}

void give_mappings(std::size_t count) noexcept {
  mappings_taken.fetch_sub(count, std::memory_order_relaxed);
}

}  // namespace weft::arch
