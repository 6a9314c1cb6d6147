#include "core/signal_tap.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <new>

namespace weft::signals_of_process {
namespace {

constinit std::array<Atomic<std::uint32_t>, kSignals + 1> arrivals{};
constinit Atomic<Tap*> taps{nullptr};  // all that there are

// In a signal handler.
void note(int signal) noexcept {
  const int error = errno;
  arrivals[static_cast<std::size_t>(signal)].fetch_add(1, std::memory_order_relaxed);
  ring();
  const auto number = static_cast<unsigned char>(signal);
  const pid_t self = ::getpid();
  // acquire: pairs with open_tap(); who finds a tap finds its pipe.
  for (Tap* tap = taps.load(std::memory_order_acquire); tap; tap = tap->next)
    if (tap->owner == self &&
        (tap->wanted.load(std::memory_order_relaxed) & (std::uint64_t{1} << (signal - 1))) != 0)
      static_cast<void>(!::write(tap->writer, &number, 1));  // full: thousands wait there
  errno = error;
}

// What was there before us, for each signal that somebody wants.
struct Taken {
  unsigned stoppers = 0;
  unsigned listeners = 0;
  struct sigaction before {};
};
constinit Lock lock;  // protects the table, and who has which tap
constinit std::array<Taken, kSignals + 1> table{};

int install(int signal, const Taken& entry, struct sigaction* before) noexcept {
  struct sigaction ours {};
  ours.sa_handler = &note;
  ::sigemptyset(&ours.sa_mask);
  ours.sa_flags = SA_RESTART | SA_ONSTACK;  // on the alternate stack: a fiber's may be small
  if (entry.listeners == 0) ours.sa_flags |= static_cast<int>(SA_RESETHAND);
  return ::sigaction(signal, &ours, before);
}

unsigned& count_of(Taken& entry, Taker taker) noexcept {
  return taker == Taker::stopper ? entry.stoppers : entry.listeners;
}

void drain(const Tap& tap) noexcept {
  std::array<char, 256> rest;
  while (::read(tap.reader, rest.data(), rest.size()) > 0) {
  }
}

Tap* make_tap() noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
  Tap* const tap = new (std::nothrow) Tap;
  if (!tap) {
    ::close(ends[0]);
    ::close(ends[1]);
    errno = ENOMEM;
    return nullptr;
  }
  tap->reader = ends[0];
  tap->writer = ends[1];
  tap->owner = ::getpid();
  tap->next = taps.load(std::memory_order_relaxed);
  // release: pairs with note(). Under the lock: nobody else puts one there.
  taps.store(tap, std::memory_order_release);
  return tap;
}

}  // namespace

void ring() noexcept {
  // release: who sees the new count sees why it was rung.
  bell.fetch_add(1, std::memory_order_release);
  Sync::wake(bell, INT_MAX);
}

bool take(int signal, Taker taker) noexcept {
  if (!is_signal(signal)) return false;
  const Locked locked{lock};
  Taken& entry = table[static_cast<std::size_t>(signal)];
  const bool first = entry.stoppers + entry.listeners == 0;
  ++count_of(entry, taker);
  struct sigaction before {};
  if (install(signal, entry, &before) != 0) {
    --count_of(entry, taker);
    return false;
  }
  if (first) entry.before = before;
  return true;
}

void give_back(int signal, Taker taker) noexcept {
  const Locked locked{lock};
  Taken& entry = table[static_cast<std::size_t>(signal)];
  --count_of(entry, taker);
  if (entry.stoppers + entry.listeners == 0) ::sigaction(signal, &entry.before, nullptr);
  else if (taker == Taker::listener) install(signal, entry, nullptr);
}

std::uint32_t arrived(int signal) noexcept {
  return arrivals[static_cast<std::size_t>(signal)].load(std::memory_order_relaxed);
}

Tap* open_tap() noexcept {
  const Locked locked{lock};
  for (Tap* tap = taps.load(std::memory_order_relaxed); tap; tap = tap->next) {
    if (tap->in_use || tap->owner != ::getpid()) continue;
    drain(*tap);
    tap->in_use = true;
    return tap;
  }
  return make_tap();
}

void close_tap(Tap& tap) noexcept {
  tap.wanted.store(0, std::memory_order_relaxed);
  const Locked locked{lock};
  tap.in_use = false;
}

}  // namespace weft::signals_of_process
