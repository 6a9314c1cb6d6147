#include "reactor_choice.hpp"

#include "epoll_reactor.hpp"
#if defined(WEFT_HAS_URING)
#include "uring_reactor.hpp"
#endif

#include <weft/core/thread.hpp>

#include <cerrno>
#include <climits>
#include <exception>
#include <stdexcept>
#include <system_error>

namespace weft::engine {
namespace {

#if defined(WEFT_HAS_URING)
std::string why_no_uring() { return UringReactor::probe(); }
std::shared_ptr<Poller> make_uring(const Options& options, const Io& engine, std::string& reason) {
  return UringReactor::make(engine, options.workers, options.ring_entries, reason);
}
#else
std::string why_no_uring() { return "weft was built without liburing"; }
std::shared_ptr<Poller> make_uring(const Options&, const Io&, std::string& reason) {
  reason = why_no_uring();
  return nullptr;
}
#endif

ReactorChoice choose(const Options& options, const Io& engine) {
  std::string reason = "asked for";
  if (options.reactor != ReactorKind::epoll) {
    if (std::shared_ptr<Poller> made = make_uring(options, engine, reason))
      return {std::move(made),
              options.reactor == ReactorKind::uring ? "io_uring: asked for" : "io_uring: it works"};
    if (options.reactor == ReactorKind::uring) return {nullptr, "none: " + reason};
  }
  errno = 0;
  std::shared_ptr<Poller> made = EpollReactor::make();
  if (made) return {std::move(made), "epoll: " + reason};
  const int error = errno;  // 0: no memory
  return {nullptr, "none: epoll cannot be set up (" +
                       std::generic_category().message(error ? error : ENOMEM) + ")"};
}

}  // namespace

ReactorChoice choose_reactor(const Options& resolved, const Io& engine) noexcept {
  try {
    return choose(resolved, engine);
  } catch (const std::exception&) {
    return {nullptr, "none: no memory"};  // which a string has room for in itself
  }
}

// ── on demand ───────────────────────────────────────────────────────────────────────────────────

ReactorOnDemand::Found ReactorOnDemand::choose() noexcept {
  ReactorChoice choice = choose_reactor(options_, engine_);
  {
    const Locked locked{report_lock_};
    report_.swap(choice.report);
  }
  poller_ = std::move(choice.poller);
  const Found found{.poller = poller_, .is_new = poller_ != nullptr};
  const Instant again = saturating_add(monotonic_now(), kFailureHolds);
  try_again_at_.store(again.time_since_epoch().count(), std::memory_order_relaxed);
  // release: pairs with made(), from where workers sleep in it.
  made_.store(found.poller.get(), std::memory_order_release);
  // release: pairs with get(). Who sees the outcome sees all of the above. After a failure, the
  // next one may try from here on.
  state_.store(found.is_new ? kMade : kFailed, std::memory_order_release);
  Sync::wake(state_, INT_MAX);
  return found;
}

ReactorOnDemand::Found ReactorOnDemand::get() noexcept {
  for (;;) {
    std::uint32_t seen = state_.load(std::memory_order_acquire);
    if (seen == kMade) return {.poller = poller_};
    if (seen == kTrying) {
      Sync::sleep(state_, kTrying);
      continue;
    }
    if (seen == kFailed && monotonic_now().time_since_epoch().count() <
                               try_again_at_.load(std::memory_order_relaxed))
      return {};
    // acquire: who tried before us is done with all that we are about to write.
    if (!state_.compare_exchange_strong(seen, kTrying, std::memory_order_acquire,
                                        std::memory_order_relaxed))
      continue;
    return choose();
  }
}

std::string ReactorOnDemand::report() {
  const Locked locked{report_lock_};
  return report_;
}

void check_reactor(const Options& resolved) {
  if (resolved.reactor != ReactorKind::uring) return;
  const std::string reason = why_no_uring();
  if (!reason.empty())
    throw std::runtime_error{"weft::FiberIo: io_uring was asked for (Options::reactor, WEFT_IO), "
                             "but does not work: " + reason};
}

}  // namespace weft::engine
