#include "epoll_reactor.hpp"

#include "reactor_hook.hpp"

#include <weft/arch/sanitizer.hpp>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <new>

namespace weft::engine {
namespace {

constexpr Watched::Key kBell = 0;  // no record is at that address

int in_milliseconds(const std::timespec* timeout) noexcept {
  if (!timeout) return -1;
  const std::int64_t rounded_up = timeout->tv_sec * std::int64_t{1000} +
                                  (timeout->tv_nsec + 999'999) / 1'000'000;
  return rounded_up > INT_MAX ? INT_MAX : static_cast<int>(rounded_up);
}

}  // namespace

std::shared_ptr<EpollReactor> EpollReactor::make() noexcept {
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  const int bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kBell;
  if (set >= 0 && bell >= 0 && ::epoll_ctl(set, EPOLL_CTL_ADD, bell, &event) == 0) {
    try {
      return std::shared_ptr<EpollReactor>{new EpollReactor{set, bell}};
    } catch (const std::bad_alloc&) {
    }
  }
  if (set >= 0) ::close(set);
  if (bell >= 0) ::close(bell);
  return nullptr;
}

EpollReactor::EpollReactor(int set, int bell) noexcept
    : kernel_(kernel_for_reactors()), set_(set), bell_(bell) {}

EpollReactor::~EpollReactor() {
  ::close(set_);
  ::close(bell_);
}

Kernel::Answer EpollReactor::watch(Watched& record) noexcept {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;
  event.data.u64 = record.key();
  arch::hand_to_kernel(this);
  return ::epoll_ctl(set_, EPOLL_CTL_ADD, record.fd, &event) == 0 ? 0 : -errno;
}

// Closing would do, were there not other processes that may have it, too.
void EpollReactor::forget(Watched& record) noexcept {
  ::epoll_ctl(set_, EPOLL_CTL_DEL, record.fd, nullptr);
}

bool EpollReactor::gather(const std::timespec* timeout, FiberList& woken) noexcept {
  std::array<epoll_event, kEventsAtOnce> events;
  int count = -1;
  if (!no_fine_sleep_.load(std::memory_order_relaxed)) {
    count = static_cast<int>(::syscall(SYS_epoll_pwait2, set_, events.data(), kEventsAtOnce,
                                       timeout, nullptr, 0));
    if (count < 0 && (errno == ENOSYS || errno == EPERM))  // old, or a sandbox that is
      no_fine_sleep_.store(true, std::memory_order_relaxed);
  }
  if (no_fine_sleep_.load(std::memory_order_relaxed))
    count = ::epoll_wait(set_, events.data(), kEventsAtOnce, in_milliseconds(timeout));
  arch::take_from_kernel(this);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    // The bell is left for whom it is rung: who sleeps here.
    if (event.data.u64 != kBell) Watched::tell(event.data.u64, event.events, woken);
  }
  return !woken.empty();
}

bool EpollReactor::hear(unsigned, FiberList& woken) noexcept { return hear_all(woken); }

// Whoever sleeps there hears it anyway.
bool EpollReactor::hear_all(FiberList& woken) noexcept {
  if (in_bed_.load(std::memory_order_relaxed)) return false;
  constexpr std::timespec kNow{};
  return gather(&kNow, woken);
}

bool EpollReactor::take_bed(unsigned, bool watching) noexcept {
  return watching && !in_bed_.exchange(true, std::memory_order_acquire);
}
bool EpollReactor::sleep(unsigned, const std::timespec* timeout, FiberList& woken) noexcept {
  gather(timeout, woken);
  std::uint64_t rung = 0;
  if (rung_.exchange(false, std::memory_order_acquire))
    static_cast<void>(!::read(bell_, &rung, sizeof rung));
  return !woken.empty();
}
void EpollReactor::leave_bed(unsigned) noexcept { in_bed_.store(false, std::memory_order_release); }

void EpollReactor::rouse(unsigned) noexcept {
  constexpr std::uint64_t kOnce = 1;
  static_cast<void>(!::write(bell_, &kOnce, sizeof kOnce));
  rung_.store(true, std::memory_order_release);  // so that it is read
}

}  // namespace weft::engine
