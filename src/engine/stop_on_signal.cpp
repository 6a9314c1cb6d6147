// Signals that stop an engine: a thread sleeps until one comes.
#include <weft/stop_on_signal.hpp>

#include "core/signal_tap.hpp"

#include <weft/arch/fault.hpp>

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

namespace weft {

using signals_of_process::arrived;
using signals_of_process::bell;
using signals_of_process::Taker;

class StopOnSignal::Watch {
 public:
  Watch(FiberIo& io, std::initializer_list<int> signals) : io_(io) {
    wanted_.reserve(signals.size());
    for (const int signal : signals) {
      const std::uint32_t before = signals_of_process::is_signal(signal) ? arrived(signal) : 0;
      if (!signals_of_process::take(signal, Taker::stopper)) {
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
    signals_of_process::ring();
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
      if (arrived(wanted.signal) != wanted.before) return wanted.signal;
    return 0;
  }
  void give_all_back() noexcept {
    for (const Wanted& wanted : wanted_)
      signals_of_process::give_back(wanted.signal, Taker::stopper);
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
