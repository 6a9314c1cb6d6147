#include <weft/signals.hpp>

#include "core/signal_tap.hpp"

#include <weft/select.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace weft {

namespace signal_tap = signals_of_process;

// A tap, the signals that flow into it, and a descriptor for its pipe in one engine.
class Signals::Subscription {
 public:
  static Result<std::unique_ptr<Subscription>> make(std::initializer_list<int> wanted) {
    std::unique_ptr<Subscription> made{new Subscription};  // first: a tap has no owner yet
    made->tap_ = signal_tap::open_tap();
    if (!made->tap_) return Unexpected::of(errno);
    const int fd = ::fcntl(made->tap_->reader, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return Unexpected::of(errno);
    Result<Descriptor> descriptor = Descriptor::adopt(fd, Carries::stream, "signal", "signal");
    if (!descriptor) return descriptor.failure();
    made->descriptor_ = *std::move(descriptor);
    for (const int signal : wanted)
      if (!made->add(signal)) return Unexpected{std::errc::invalid_argument};
    return made;
  }
  ~Subscription() {
    if (!tap_) return;
    close();
    signal_tap::close_tap(*tap_);
  }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  void close() noexcept {
    const std::uint64_t wanted = tap_->wanted.exchange(0, std::memory_order_relaxed);
    for (int signal = 1; signal <= signal_tap::kSignals; ++signal)
      if (wanted & bit(signal)) signal_tap::give_back(signal, signal_tap::Taker::listener);
    static_cast<void>(descriptor_.close());
  }

  [[nodiscard]] const Descriptor& descriptor() const noexcept { return descriptor_; }
  // Else it was for the last one who had this tap.
  [[nodiscard]] bool wants(int signal) const noexcept {
    return signal_tap::is_signal(signal) &&
           (tap_->wanted.load(std::memory_order_relaxed) & bit(signal)) != 0;
  }

 private:
  Subscription() noexcept = default;

  static std::uint64_t bit(int signal) noexcept { return std::uint64_t{1} << (signal - 1); }
  bool add(int signal) noexcept {
    if (wants(signal)) return true;
    if (!signal_tap::is_signal(signal)) return false;
    tap_->wanted.fetch_or(bit(signal), std::memory_order_relaxed);  // first: the handler finds it
    if (signal_tap::take(signal, signal_tap::Taker::listener)) return true;
    tap_->wanted.fetch_and(~bit(signal), std::memory_order_relaxed);
    return false;
  }

  signal_tap::Tap* tap_ = nullptr;  // null: none could be had
  Descriptor descriptor_;
};

Signals::Signals() noexcept = default;
Signals::Signals(std::unique_ptr<Subscription> subscription) noexcept
    : subscription_(std::move(subscription)) {}
Signals::Signals(Signals&&) noexcept = default;
Signals& Signals::operator=(Signals&&) noexcept = default;
Signals::~Signals() = default;

std::optional<int> Signals::recv() const {
  if (!subscription_) return {};
  for (;;) {
    unsigned char number = 0;
    const std::array part{iovec{&number, 1}};
    const Result<std::size_t> count = subscription_->descriptor().read(part);
    if (!count || *count == 0) return {};
    if (subscription_->wants(number)) return number;
  }
}

std::optional<int> Signals::try_recv() const {
  if (!subscription_) return {};
  for (;;) {
    unsigned char number = 0;
    const iovec part{&number, 1};
    const Result<std::size_t> count = subscription_->descriptor().ask(
        [&](Kernel& kernel, int fd) { return kernel.read(fd, &part, 1); });
    if (!count || *count == 0) return {};
    if (subscription_->wants(number)) return number;
  }
}

Descriptor::Ready Signals::on_signal() const noexcept {
  static const Descriptor none;
  return (subscription_ ? subscription_->descriptor() : none).on_ready(Way::in);
}

bool Signals::is_open() const noexcept {
  return subscription_ && subscription_->descriptor().is_open();
}

void Signals::close() noexcept {
  if (subscription_) subscription_->close();
}

Result<Signals> signals(std::initializer_list<int> wanted) {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  if (!kernel) return kernel.failure();
  if (*kernel != &system_kernel()) return Unexpected{std::errc::operation_not_supported};
  auto subscription = Signals::Subscription::make(wanted);
  if (!subscription) return subscription.failure();
  return Signals{*std::move(subscription)};
}

Result<Receiver<int>> signals(Nursery& n, std::initializer_list<int> wanted) {
  Result<Signals> source = signals(wanted);
  if (!source) return source.failure();
  Channel<int> channel = unbounded<int>("signals");
  n.spawn("signals", [from = *std::move(source), tx = std::move(channel.tx)] {
    for (;;) {
      auto nobody_left = tx.on_peer_gone();
      auto came = from.on_signal();
      if (select_first(nobody_left, came) == 0) return;
      while (const std::optional<int> signal = from.try_recv())
        if (!tx.send(*signal)) return;
    }
  });
  return std::move(channel.rx);
}

namespace detail {

UntilSignal::UntilSignal(std::initializer_list<int> wanted) {
  Result<Signals> taken = signals(wanted);
  if (taken.error() == std::errc::operation_not_supported) return;
  signals_ = std::move(taken).value();
}

void UntilSignal::watch() {
  if (!signals_.is_open()) return ended.wait();
  for (;;) {
    auto end = ended.on_set();
    auto came = signals_.on_signal();
    if (select_first(end, came) == 0) return;
    if (!signals_.try_recv()) continue;
    signals_.close();
    stop.request_stop();
    return ended.wait();
  }
}

}  // namespace detail

}  // namespace weft
