// A handler may do next to nothing: it counts and wakes. One thread for all engines waits for that,
// and writes the dump.
#include "dump_signal.hpp"

#include <weft/arch/fault.hpp>
#include <weft/base/sync.hpp>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string_view>
#include <system_error>

namespace weft::engine {
namespace {

struct Use {
  unsigned count = 0;
  struct sigaction before {};
};

struct Listener {
  Lock lock;  // protects what is no atomic
  std::map<int, Use> uses;
  pthread_t thread{};
  Atomic<unsigned> threads{0};
  Atomic<bool> stopping{false};
};

Listener& listener() {
  static Listener* const kept = new Listener;  // never destroyed: engines may be static
  return *kept;
}

// Signals that ever came, and requests to stop: what the thread sleeps on. Outlives every handler.
constinit Atomic<std::uint32_t> asked{0};

void wake_listener() noexcept {
  asked.fetch_add(1, std::memory_order_release);
  Sync::wake(asked, 1);
}

// On whatever thread the signal came to, in the midst of anything.
void on_signal(int) noexcept {
  const int kept = errno;
  wake_listener();
  errno = kept;
}

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void* listen(void*) {
  ::pthread_setname_np(::pthread_self(), "weft-dump");
  Listener& own = listener();
  std::uint32_t seen = asked.load(std::memory_order_acquire);
  for (;;) {
    if (own.stopping.load(std::memory_order_acquire)) return nullptr;
    const std::uint32_t now = asked.load(std::memory_order_acquire);
    if (now == seen) {
      Sync::sleep(asked, seen);
      continue;
    }
    seen = now;  // several signals meanwhile: one dump
    if (own.stopping.load(std::memory_order_acquire)) return nullptr;
    try {
      write_all(dump_of_all());
    } catch (...) {
      write_all("weft: no memory for the dump that was asked for\n");
    }
  }
}

// Under the lock, as is stop(). No signal is ever handled on this thread.
void start(Listener& own) {
  own.stopping.store(false, std::memory_order_relaxed);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = arch::sys_pthread_create(&own.thread, nullptr, &listen, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0)
    throw std::system_error{error, std::generic_category(), "weft: no thread for dump_signal"};
  own.threads.store(1, std::memory_order_relaxed);
}

void stop(Listener& own) noexcept {
  own.stopping.store(true, std::memory_order_release);
  wake_listener();
  ::pthread_join(own.thread, nullptr);
  own.threads.store(0, std::memory_order_relaxed);
}

void restore(int signal, const struct sigaction& before) noexcept {
  struct sigaction now {};
  // Who has put another handler in our place since then keeps it.
  if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == &on_signal)
    ::sigaction(signal, &before, nullptr);
}

}  // namespace

DumpSignal::DumpSignal(int signal) : signal_(signal) {
  if (signal_ == 0) return;
  Listener& own = listener();
  const Locked locked{own.lock};
  if (const auto used = own.uses.find(signal_); used != own.uses.end()) {
    ++used->second.count;
    return;
  }
  if (own.uses.empty()) start(own);
  Use use{.count = 1};
  struct sigaction ours {};
  ours.sa_handler = &on_signal;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigfillset(&ours.sa_mask);
  if (::sigaction(signal_, &ours, &use.before) != 0) {
    const int error = errno;
    if (own.uses.empty()) stop(own);
    throw std::system_error{error, std::generic_category(), "weft::Options::dump_signal"};
  }
  own.uses.emplace(signal_, use);
}

DumpSignal::~DumpSignal() {
  if (signal_ == 0) return;
  Listener& own = listener();
  const Locked locked{own.lock};
  const auto used = own.uses.find(signal_);
  if (--used->second.count != 0) return;
  restore(signal_, used->second.before);
  own.uses.erase(used);
  if (own.uses.empty()) stop(own);
}

unsigned DumpSignal::threads() noexcept {
  return listener().threads.load(std::memory_order_relaxed);
}

}  // namespace weft::engine
