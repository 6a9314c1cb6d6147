// How a channel ends. What flows through it is in <weft/sync/channel_core.hpp>.
#include <weft/channel.hpp>

#include <stdexcept>
#include <string>

namespace weft {
namespace detail {

void ChannelOp::unpublish() noexcept {
  if (!core_) return;
  const Locked locked{core_->lock_};
  (core_->*list_).unlink(*this);
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
  FiberList woken;
  {
    const Locked locked{lock_};
    if (closed_.read()) return false;
    closed_.write(true);
    error_ = std::move(error);
    end_all(receivers_, woken);
    end_all(watch_senders_, woken);
  }
  resume_all(std::move(woken));
  return true;
}

void ChannelCore::close_behind() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    end_all(receivers_, woken);
    end_all(senders_, woken);  // who came too late for the one place
    end_all(watch_senders_, woken);
  }
  resume_all(std::move(woken));
}

bool ChannelCore::abort(std::exception_ptr error) noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    if (ended_.read()) return false;
    closed_.write(true);
    ended_.write(true);
    if (!error_) error_ = std::move(error);
    end_all(receivers_, woken);
    end_all(senders_, woken);
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

bool ChannelCore::receivers_gone() const noexcept {
  return receivers_alive_.load(std::memory_order_acquire) == 0;
}

void ChannelCore::last_sender_gone() noexcept {
  close(nullptr);
  release();
}

// Who waits to send is told, and keeps the value. What was admitted has nobody to go to.
void ChannelCore::last_receiver_gone() noexcept {
  FiberList woken;
  bool discards = false;
  {
    const Locked locked{lock_};
    discards = !ended_.read();
    closed_.write(true);
    ended_.write(true);
    end_all(senders_, woken);
    end_all(watch_receivers_, woken);
  }
  resume_all(std::move(woken));
  if (discards) kind_.discard(*this);
  release();
}

void ChannelCore::release() noexcept {
  // acq_rel: who destroys sees what the other side did.
  if (keepers_.fetch_sub(1, std::memory_order_acq_rel) == 1) kind_.destroy(*this);
}

// ── the other side's end ────────────────────────────────────────────────────────────────────────

// The counts fall to zero outside the lock, but whoever lets them does takes it afterwards, and
// wakes whom it finds.
bool PeerGone::gone_locked() const noexcept {
  return side_ == Side::senders ? core_->closed_.read() : core_->receivers_gone();
}

bool PeerGone::try_complete() {
  if (!core_) return false;
  const Locked locked{core_->lock_};
  return gone_locked();
}

bool PeerGone::publish() noexcept {
  if (!core_) return true;
  const Locked locked{core_->lock_};
  if (gone_locked()) return false;
  (side_ == Side::senders ? core_->watch_senders_ : core_->watch_receivers_).link(*this);
  return true;
}

WaitReason PeerGone::reason() const noexcept {
  return {.verb = side_ == Side::senders ? "channel senders gone" : "channel receivers gone",
          .name = core_ ? core_->name() : std::string_view{},
          .object = core_};
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
