// Signals that stop an engine.
//
// A handler may interrupt anything, so it only counts, and wakes who sleeps on the count. It is the
// same for all, and so is what it writes to, for the life of the process: a handler that is late
// meets nothing that could be gone.
#include <weft/stop_on_signal.hpp>

#include <weft/arch/fault.hpp>

#include <pthread.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>
#include <system_error>
#include <vector>

namespace weft {
namespace {

constexpr std::size_t kStopSignals = NSIG;

constinit std::array<Atomic<std::uint32_t>, kStopSignals> arrived{};
constinit Atomic<std::uint32_t> bell{0};  // rung after each change

void ring() noexcept {
  // release: pairs with Watch::work(); who sees the new count sees why.
  bell.fetch_add(1, std::memory_order_release);
  Sync::wake(bell, INT_MAX);
}

// In a signal handler.
void note(int signal) noexcept {
  const int error = errno;
  arrived[static_cast<std::size_t>(signal)].fetch_add(1, std::memory_order_relaxed);
  ring();
  errno = error;
}

// What was there before us, for each signal that somebody wants.
struct Taken {
  unsigned users = 0;
  struct sigaction before {};
};
constinit Lock taken_lock;
constinit std::array<Taken, kStopSignals> taken{};

// False: it cannot be caught.
bool take(int signal) noexcept {
  struct sigaction ours {};
  ours.sa_handler = &note;
  sigemptyset(&ours.sa_mask);
  // Once, and then the default. On the alternate stack: a fiber's may be small.
  ours.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART | SA_ONSTACK;
  const Locked locked{taken_lock};
  struct sigaction before {};
  if (::sigaction(signal, &ours, &before) != 0) return false;
  Taken& entry = taken[static_cast<std::size_t>(signal)];
  if (entry.users++ == 0) entry.before = before;
  return true;
}

void give_back(int signal) noexcept {
  const Locked locked{taken_lock};
  Taken& entry = taken[static_cast<std::size_t>(signal)];
  if (--entry.users == 0) ::sigaction(signal, &entry.before, nullptr);
}

}  // namespace

class StopOnSignal::Watch {
 public:
  Watch(FiberIo& io, std::initializer_list<int> signals) : io_(io) {
    wanted_.reserve(signals.size());
    for (const int signal : signals) {
      const bool known = signal > 0 && static_cast<std::size_t>(signal) < kStopSignals;
      const std::uint32_t before =
          known ? arrived[static_cast<std::size_t>(signal)].load(std::memory_order_relaxed) : 0;
      if (!known || !take(signal)) {
        give_all_back();
        throw std::system_error{EINVAL, std::generic_category(),
                                "weft::StopOnSignal: signal " + std::to_string(signal)};
      }
      wanted_.push_back({signal, before});
    }
    if (const int error = start(); error != 0) {
      give_all_back();
      throw std::system_error{error, std::generic_category(),
                              "weft::StopOnSignal: no thread for it"};
    }
  }
  ~Watch() {
    leaving_.store(true, std::memory_order_relaxed);
    ring();
    ::pthread_join(thread_, nullptr);
    give_all_back();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] int caught() const noexcept { return caught_.load(std::memory_order_acquire); }

 private:
  struct Wanted {
    int signal;
    std::uint32_t before;
  };

  // Signals are for the program's own threads.
  int start() noexcept {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const auto body = [](void* at) -> void* {
      ::pthread_setname_np(::pthread_self(), "weft-signals");
      static_cast<Watch*>(at)->work();
      return nullptr;
    };
    const int error = arch::sys_pthread_create(&thread_, nullptr, body, this);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
  }

  void work() noexcept {
    for (;;) {
      // acquire: pairs with ring(). Whatever changes after this look changes the count.
      const std::uint32_t seen = bell.load(std::memory_order_acquire);
      if (leaving_.load(std::memory_order_relaxed)) return;
      if (const int signal = first_arrived()) {
        caught_.store(signal, std::memory_order_release);
        if (io_.stop()) return;
        const std::timespec till_it_runs{0, 2'000'000};
        Sync::sleep(bell, seen, &till_it_runs);
      } else {
        Sync::sleep(bell, seen);
      }
    }
  }
  [[nodiscard]] int first_arrived() const noexcept {
    if (const int known = caught()) return known;
    for (const Wanted& wanted : wanted_)
      if (arrived[static_cast<std::size_t>(wanted.signal)].load(std::memory_order_relaxed) !=
          wanted.before)
        return wanted.signal;
    return 0;
  }
  void give_all_back() noexcept {
    for (const Wanted& wanted : wanted_) give_back(wanted.signal);
  }

  FiberIo& io_;
  std::vector<Wanted> wanted_;
  Atomic<bool> leaving_{false};
  Atomic<int> caught_{0};
  pthread_t thread_{};
};

StopOnSignal::StopOnSignal(FiberIo& io, std::initializer_list<int> signals)
    : watch_(std::make_unique<Watch>(io, signals)) {}
StopOnSignal::~StopOnSignal() = default;

int StopOnSignal::caught() const noexcept { return watch_->caught(); }

}  // namespace weft
