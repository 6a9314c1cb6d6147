#include <weft/core/fiber.hpp>

#include <weft/core/carrier.hpp>
#include <weft/core/error.hpp>
#include <weft/core/thread.hpp>

#include <stdexcept>

namespace weft {

#if !defined(WEFT_MODEL)
static_assert(sizeof(Fiber) == kFrameBytes[0], "a small frame is two cache lines");
static_assert(offsetof(Fiber, closure) == 64, "a switch touches the first line only");
static_assert(offsetof(Fiber, room) + kRoomBytes[0] == kFrameBytes[0]);
static_assert(offsetof(Fiber, room) + kRoomBytes[1] == kFrameBytes[1]);
#endif

void Fiber::set_name(Name name) noexcept {
  if (traits & kNameOwned) delete[] name_text;
  bool owned = false;
  name_text = std::move(name).release(owned);
  const int others = traits & ~(kNamed | kNameOwned);
  traits = static_cast<std::uint8_t>(others | (name_text ? kNamed : 0) | (owned ? kNameOwned : 0));
}

namespace {

// Few fibers rename themselves, and fewer are asked for their path meanwhile.
Lock& name_lock(const Fiber& fiber) noexcept {
  constexpr std::size_t kLocks = 64;
  static constinit Lock locks[kLocks];
  return locks[reinterpret_cast<std::uintptr_t>(&fiber) / kFrameBytes[0] % kLocks];
}

}  // namespace

void Fiber::rename(Name name) noexcept {
  const Locked locked{name_lock(*this)};
  set_name(std::move(name));
}

// Whoever wakes it ends that state first, and only then uses the link for something else.
const Waiting* Fiber::waiting() const noexcept {
  const Ticket before = word.ticket();
  if (word.state() != FiberState::parked) return nullptr;
  Sync::fence(std::memory_order_acquire);  // pairs with the commit of its park
  const Waiting* const found = &link.waiting();
  Sync::fence(std::memory_order_acquire);  // pairs with the claim that ended it
  const bool still = word.state() == FiberState::parked && word.ticket() == before;
  return still ? found : nullptr;
}

std::string Fiber::copy_name() const {
  const Locked locked{name_lock(*this)};
  return std::string{name()};
}

Io& io() {
  Io& own = *Fiber::current().io;
  if (&own == &ThreadIo::get())
    throw std::logic_error{"weft::io(): this thread is not inside an engine; call weft::run() or "
                           "FiberIo::run() first"};
  return own;
}

void Io::raise_deadlock() const { throw Deadlock{"deadlock"}; }

Fiber* Io::adopt(CancelScope&, Departure) noexcept { return nullptr; }
void Io::resume_one(Fiber& fiber) noexcept { resume(FiberList{fiber}); }

Clock::time_point Clock::now() noexcept { return Fiber::current().io->now(); }
Clock::time_point Clock::now_or_later() noexcept { return Fiber::current().io->now_or_later(); }
Clock::time_point Clock::in(duration d) noexcept {
  if (d <= duration::zero()) return now();
  return saturating_add(now_or_later(), d);
}

}  // namespace weft
