// As in held_locks.cpp: where nobody watches, the functions here do nothing but call the real ones.
#include "arch/tripwire.hpp"

#include "arch/c_library.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/select.h>
#include <sys/single_threaded.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <iterator>

namespace weft::arch {
namespace {

// In the thread's first block: touching it allocates nothing.
[[gnu::tls_model("initial-exec")]] thread_local constinit Tripwire* wire_here = nullptr;

}  // namespace

// A fiber may ask on one thread and again on another, so the compiler must not see into this.
[[gnu::noinline]] Tripwire* Tripwire::here() noexcept {
  asm volatile("");
  return wire_here;
}

namespace {

const void* module_of(const void* address) noexcept {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// Where the program gets its memory, looked up once.
struct Allocator {
  const void* functions[4] = {::dlsym(RTLD_DEFAULT, "malloc"), ::dlsym(RTLD_DEFAULT, "calloc"),
                              ::dlsym(RTLD_DEFAULT, "realloc"), ::dlsym(RTLD_DEFAULT, "free")};
  const void* module = module_of(functions[0]);
  bool in_program = module == module_of(reinterpret_cast<const void*>(::getauxval(AT_ENTRY)));

  static const Allocator& get() noexcept {
    static const Allocator found;
    return found;
  }

  [[nodiscard]] bool has(const void* frame) const noexcept {
    Dl_info info{};
    return ::dladdr(frame, &info) != 0 && info.dli_saddr &&
           std::find(std::begin(functions), std::end(functions), info.dli_saddr) !=
               std::end(functions);
  }
};

// Allocators look at clocks and take locks of their own, for reasons of their own. And a report
// allocates, which must not be done from inside of one. One in a library is known by that library,
// one that is part of the program by its functions.
bool is_allocators(const void* caller) noexcept {
  const Allocator& allocator = Allocator::get();
  if (!allocator.in_program) return module_of(caller) == allocator.module;
  Backtrace trace;
  trace.take(caller);
  for (std::size_t i = 0; i < trace.count; ++i)
    if (allocator.has(trace.frames[i])) return true;
  return false;
}

}  // namespace

void Tripwire::begin() noexcept {
  prepare_backtraces();
  Allocator::get();  // not from inside of it
  outer_ = wire_here;
  wire_here = this;
}

void Tripwire::end() noexcept { wire_here = outer_; }

void Tripwire::touch(const Tripped& tripped) noexcept {
  Tripwire* const wire = here();
  if (!wire || wire->inside_) return;
  const int error = errno;
  wire->inside_ = true;
  if (!is_allocators(tripped.caller)) wire->tell(tripped);
  wire->inside_ = false;
  errno = error;
}

}  // namespace weft::arch

// ── in the place of the C library's ─────────────────────────────────────────────────────────────

#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT && !defined(WEFT_ASAN) && !defined(WEFT_TSAN)

namespace {

using weft::arch::Real;
using weft::arch::Trip;
using weft::arch::Tripwire;

constinit Real<> real_clock_gettime{"clock_gettime", -1};

void touch(Trip what, const char* function, const void* caller) noexcept {
  if (Tripwire::here()) [[unlikely]]
    Tripwire::touch({.what = what, .function = function, .caller = caller});
}

bool takes_time(const timespec* span) noexcept {
  return !span || span->tv_sec != 0 || span->tv_nsec != 0;
}

}  // namespace

int weft::arch::read_clock(clockid_t clock, std::timespec& into) noexcept {
  return real_clock_gettime(clock, &into);
}

extern "C" {

[[gnu::weak]] int clock_gettime(clockid_t clock, timespec* into) noexcept {
  touch(Trip::clock, "clock_gettime", __builtin_return_address(0));
  return real_clock_gettime(clock, into);
}
[[gnu::weak]] int gettimeofday(timeval* into, void* zone) noexcept {
  static constinit Real<> real{"gettimeofday", -1};
  touch(Trip::clock, "gettimeofday", __builtin_return_address(0));
  return real(into, zone);
}
[[gnu::weak]] std::time_t time(std::time_t* into) noexcept {
  static constinit Real<std::time_t> real{"time", -1};
  touch(Trip::clock, "time", __builtin_return_address(0));
  return real(into);
}
[[gnu::weak]] int timespec_get(timespec* into, int base) noexcept {
  static constinit Real<> real{"timespec_get", 0};
  touch(Trip::clock, "timespec_get", __builtin_return_address(0));
  return real(into, base);
}

[[gnu::weak]] int nanosleep(const timespec* span, timespec* left) {
  static constinit Real<> real{"nanosleep", -1};
  touch(Trip::sleep, "nanosleep", __builtin_return_address(0));
  return real(span, left);
}
[[gnu::weak]] int clock_nanosleep(clockid_t clock, int flags, const timespec* span,
                                  timespec* left) {
  static constinit Real<> real{"clock_nanosleep"};
  touch(Trip::sleep, "clock_nanosleep", __builtin_return_address(0));
  return real(clock, flags, span, left);
}
[[gnu::weak]] int usleep(useconds_t span) {
  static constinit Real<> real{"usleep", -1};
  touch(Trip::sleep, "usleep", __builtin_return_address(0));
  return real(span);
}
[[gnu::weak]] unsigned sleep(unsigned span) {
  static constinit Real<unsigned> real{"sleep"};
  touch(Trip::sleep, "sleep", __builtin_return_address(0));
  return real(span);
}

// Without descriptors these are sleeps; with some, they are input and output, no matter of ours.
[[gnu::weak]] int poll(pollfd* fds, nfds_t count, int milliseconds) {
  static constinit Real<> real{"poll", -1};
  if (count == 0 && milliseconds != 0) touch(Trip::sleep, "poll", __builtin_return_address(0));
  return real(fds, count, milliseconds);
}
[[gnu::weak]] int ppoll(pollfd* fds, nfds_t count, const timespec* span, const sigset_t* mask) {
  static constinit Real<> real{"ppoll", -1};
  if (count == 0 && takes_time(span)) touch(Trip::sleep, "ppoll", __builtin_return_address(0));
  return real(fds, count, span, mask);
}
[[gnu::weak]] int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* span) {
  static constinit Real<> real{"select", -1};
  if (count == 0 && (!span || span->tv_sec != 0 || span->tv_usec != 0))
    touch(Trip::sleep, "select", __builtin_return_address(0));
  return real(count, in, out, other, span);
}
[[gnu::weak]] int pselect(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* span,
                          const sigset_t* mask) {
  static constinit Real<> real{"pselect", -1};
  if (count == 0 && takes_time(span)) touch(Trip::sleep, "pselect", __builtin_return_address(0));
  return real(count, in, out, other, span, mask);
}

[[gnu::weak]] int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* lock) {
  static constinit Real<> real{"pthread_cond_wait"};
  if (Tripwire::here()) [[unlikely]]
    Tripwire::touch({.what = Trip::condition,
                     .function = "pthread_cond_wait",
                     .caller = __builtin_return_address(0),
                     .for_ever = __libc_single_threaded != 0});
  return real(condition, lock);
}
[[gnu::weak]] int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* lock,
                                         const timespec* until) {
  static constinit Real<> real{"pthread_cond_timedwait"};
  touch(Trip::condition, "pthread_cond_timedwait", __builtin_return_address(0));
  return real(condition, lock, until);
}
[[gnu::weak]] int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* lock,
                                         clockid_t clock, const timespec* until) {
  static constinit Real<> real{"pthread_cond_clockwait"};
  touch(Trip::condition, "pthread_cond_clockwait", __builtin_return_address(0));
  return real(condition, lock, clock, until);
}

}  // extern "C"

#endif
