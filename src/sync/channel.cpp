// How a channel ends. What flows through it is in <weft/sync/channel_core.hpp>.
#include <weft/channel.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

namespace weft {
namespace detail {

void ChannelOp::unpublish() noexcept {
  if (!core_) return;
  const Locked locked{core_->lock_};
  (core_->*list_).unlink(*this);
}

// Memory on a line of its own, out of what malloc keeps at hand: of aligned memory it keeps none.
// In front of it stands where it really begins.
void* ChannelCore::operator new(std::size_t bytes, std::align_val_t) {
  constexpr std::size_t kLine = alignof(ChannelCore);
  static_assert(kLine >= 2 * sizeof(void*) && __STDCPP_DEFAULT_NEW_ALIGNMENT__ >= sizeof(void*));
  auto* const begin = static_cast<std::byte*>(::operator new(bytes + kLine));
  std::byte* const at = begin + kLine - reinterpret_cast<std::uintptr_t>(begin) % kLine;
  ::new (at - sizeof(void*)) void*(begin);
  return at;
}
void ChannelCore::operator delete(void* at, std::align_val_t) noexcept {
  ::operator delete(*std::launder(reinterpret_cast<void**>(static_cast<std::byte*>(at) -
                                                           sizeof(void*))));
}

void ChannelCore::end_all(WaitList& waiting, FiberList& woken) noexcept {
  for (;;) {
    Fiber* fiber = nullptr;
    Waitable* const waiter = waiting.claim_first(fiber);
    if (!waiter) return;
    static_cast<ChannelOp*>(waiter)->fate_.write(Fate::closed);
    if (fiber) woken.push_back(*fiber);
  }
}

// S0 §5.3: linearized by the write of closed_. What was admitted, buffered or parked, is still
// delivered; who waits for more learns that there will be none.
bool ChannelCore::close(std::exception_ptr error) noexcept {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    if (closed_.read()) return false;
    closed_.write(true);
    error_ = std::move(error);
    if (!mutant::kCloseWakesNobody) end_all(receivers_, woken);
    if (mutant::kCloseEndsSenders) end_all(senders_, woken);
    end_all(watch_senders_, woken);
  }
  resume_all(std::move(woken));
  return true;
}

void ChannelCore::close_behind() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    if (!mutant::kOneshotLeavesReceivers) end_all(receivers_, woken);
    end_all(senders_, woken);  // who came too late for the one place
    end_all(watch_senders_, woken);
  }
  resume_all(std::move(woken));
}

bool ChannelCore::abort(std::exception_ptr error) noexcept {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    if (ended_.read()) return false;
    closed_.write(true);
    ended_.write(true);
    if (!error_) error_ = std::move(error);
    end_all(receivers_, woken);
    if (!mutant::kAbortLeavesSenders) end_all(senders_, woken);
    end_all(watch_senders_, woken);
  }
  resume_all(std::move(woken));
  kind_.discard(*this);  // nobody receives, nobody sends: the buffer is ours
  return true;
}

std::exception_ptr ChannelCore::error() const noexcept {
  const Locked locked{lock_};
  return error_;
}

void ChannelCore::throw_error() const {
  if (const std::exception_ptr why = error()) std::rethrow_exception(why);
}

std::size_t ChannelCore::size() const noexcept {
  const Locked locked{lock_};
  return ended_.read() ? 0 : size_.read();
}

std::size_t ChannelCore::capacity() const noexcept {
  return capacity_ == kUnbounded ? SIZE_MAX : capacity_;
}

bool ChannelCore::closed() const noexcept {
  const Locked locked{lock_};
  return closed_.read();
}

void ChannelCore::last_sender_gone() noexcept {
  close(nullptr);
  release();
}

// Who waits to send is told, and keeps the value. What was admitted has nobody to go to.
void ChannelCore::last_receiver_gone() noexcept {
  FiberList woken;
  bool discards = false;
  if (mutant::kHangUpDiscardsFirst) kind_.discard(*this);
  {
    const Locked locked{lock_};
    discards = !ended_.read();
    closed_.write(true);
    ended_.write(true);
    hung_up_.write(true);
    if (!mutant::kHangUpLeavesSenders) end_all(senders_, woken);
    end_all(watch_receivers_, woken);
  }
  resume_all(std::move(woken));
  if (discards) kind_.discard(*this);
  release();
}

void ChannelCore::release() noexcept {
  const auto order =
      mutant::kReleaseRelaxed ? std::memory_order_relaxed : std::memory_order_acq_rel;
  if (keepers_.drop(order)) kind_.destroy(*this);
}

// ── the other side's end ────────────────────────────────────────────────────────────────────────

// Not by the counts: they fall to zero outside the lock, and until the one who let them has taken
// it, sends are still admitted. Whoever learns that nobody receives must not see one succeed.
bool PeerGone::gone_locked() const noexcept {
  if (side_ == Side::senders) return core_->closed_.read();
  if (mutant::kGoneBeforeHangUp)
    return core_->receivers_alive_.count() == 0;
  return core_->hung_up_.read();
}

bool PeerGone::try_complete() {
  if (!core_) return false;
  const Locked locked{core_->lock_};
  return gone_locked();
}

WaitReason ChannelOp::reason_of(std::string_view verb, Peers peers) const noexcept {
  if (!core_) return {.verb = verb};
  const auto& alive = peers == Peers::senders ? core_->senders_alive_ : core_->receivers_alive_;
  return {.verb = verb,
          .name = core_->name(),
          .object = core_,
          .peer = peers == Peers::senders ? "sender" : "receiver",
          .peers_alive = alive.count()};
}

bool PeerGone::publish() noexcept {
  if (!core_) return true;
  const Locked locked{core_->lock_};
  if (gone_locked()) return false;
  (side_ == Side::senders ? core_->watch_senders_ : core_->watch_receivers_).link(*this);
  return true;
}

WaitReason PeerGone::reason() const noexcept {
  return side_ == Side::senders ? reason_of("channel senders gone", Peers::senders)
                                : reason_of("channel receivers gone", Peers::receivers);
}

void throw_no_channel() {
  throw std::logic_error{"weft: this end of a channel was dropped, moved away or never had one"};
}

void throw_bad_options(const char* why) {
  throw std::invalid_argument{std::string{"weft::Channel: "} + why};
}

}  // namespace detail

std::string_view to_string(SendStatus status) noexcept {
  constexpr std::string_view kNames[] = {"ok", "full", "timed out", "closed", "cancelled"};
  return kNames[static_cast<std::size_t>(status)];
}

std::string_view to_string(RecvStatus status) noexcept {
  constexpr std::string_view kNames[] = {"value", "empty", "timed out", "closed", "cancelled"};
  return kNames[static_cast<std::size_t>(status)];
}

}  // namespace weft
