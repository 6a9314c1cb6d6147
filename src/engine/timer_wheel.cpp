#include "timer_wheel.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace weft::engine {

// ── ticks ───────────────────────────────────────────────────────────────────────────────────────

namespace {
constexpr unsigned kTickBits = 12;
static_assert(TimerWheel::kTick.count() == 1 << kTickBits);
}  // namespace

// Rounded up: a timer never fires early. What lies before the beginning of time is due at once.
TimerWheel::Tick TimerWheel::tick_of(const Timer& timer) noexcept {
  const Duration::rep when = timer.when.time_since_epoch().count();
  return when <= 0 ? 0 : ((static_cast<Tick>(when) - 1) >> kTickBits) + 1;
}

Instant TimerWheel::instant_of(Tick tick) noexcept {
  constexpr Tick kLast = static_cast<Tick>(Duration::max().count()) >> kTickBits;
  if (tick > kLast) return Instant::max();
  return Instant{Duration{static_cast<Duration::rep>(tick << kTickBits)}};
}

Instant TimerWheel::fires_at(const Timer& timer) noexcept { return instant_of(tick_of(timer)); }

// ── places ──────────────────────────────────────────────────────────────────────────────────────

TimerWheel::Place TimerWheel::place_of(Tick due) const noexcept {
  const Tick differs = due ^ now_;
  const unsigned wheel =
      differs == 0 ? 0 : static_cast<unsigned>(std::bit_width(differs) - 1) / kDigitBits;
  return {wheel, static_cast<unsigned>(due >> (wheel * kDigitBits)) % kSlots};
}

bool TimerWheel::find_first(Place& place) const noexcept {
  for (unsigned wheel = 0; wheel < kWheels; ++wheel) {
    if (occupied_[wheel] == 0) continue;
    place = {wheel, static_cast<unsigned>(std::countr_zero(occupied_[wheel]))};
    return true;
  }
  return false;
}

// The first tick of a slot: the digits above are those of the present.
TimerWheel::Tick TimerWheel::start_of(Place place) const noexcept {
  const unsigned shift = place.wheel * kDigitBits;
  const Tick above = now_ >> shift >> kDigitBits << kDigitBits;
  return (above | place.slot) << shift;
}

void TimerWheel::put(Timer& timer, Place place) noexcept {
  Slot& slot = slots_[place.wheel][place.slot];
  timer.before_ = slot.first ? slot.last : nullptr;
  timer.after_ = nullptr;
  (slot.first ? slot.last->after_ : slot.first) = &timer;
  slot.last = &timer;
  timer.place_ = static_cast<std::uint16_t>(place.wheel * kSlots + place.slot);
  occupied_[place.wheel] |= std::uint64_t{1} << place.slot;
}

void TimerWheel::take_out(Timer& timer) noexcept {
  const Place place{timer.place_ / kSlots, timer.place_ % kSlots};
  Slot& slot = slots_[place.wheel][place.slot];
  (timer.before_ ? timer.before_->after_ : slot.first) = timer.after_;
  (timer.after_ ? timer.after_->before_ : slot.last) = timer.before_;
  if (!slot.first) occupied_[place.wheel] &= ~(std::uint64_t{1} << place.slot);
}

// ── the operations ──────────────────────────────────────────────────────────────────────────────

void TimerWheel::arm(Timer& timer) noexcept {
  put(timer, place_of(std::max(tick_of(timer), now_)));
  timer.armed_ = true;
  ++size_;
}

void TimerWheel::disarm(Timer& timer) noexcept {
  if (!timer.armed_) return;
  take_out(timer);
  timer.armed_ = false;
  --size_;
}

std::size_t TimerWheel::fire_due(Instant now, Fired& fired, std::size_t most) noexcept {
  const Duration::rep since = now.time_since_epoch().count();
  const Tick present = since <= 0 ? 0 : static_cast<Tick>(since) >> kTickBits;
  std::size_t count = 0;
  for (Place place; find_first(place);) {
    const Tick start = start_of(place);
    if (start > present) break;
    now_ = std::max(now_, start);
    if (place.wheel == 0) count += fire_slot(place, fired, most - count);
    else spread(place);
    if (count == most) return count;  // and this slot may have more
  }
  // No slot begins between: everything still lies where it belongs.
  now_ = std::max(now_, present);
  return count;
}

std::size_t TimerWheel::fire_slot(Place place, Fired& fired, std::size_t most) noexcept {
  std::size_t count = 0;
  for (; count < most; ++count) {
    Timer* const timer = slots_[0][place.slot].first;
    if (!timer) break;
    disarm(*timer);
    timer->fire(fired);
  }
  return count;
}

void TimerWheel::spread(Place place) noexcept {
  Timer* timer = std::exchange(slots_[place.wheel][place.slot], Slot{}).first;
  occupied_[place.wheel] &= ~(std::uint64_t{1} << place.slot);
  while (timer) {
    Timer* const next = timer->after_;
    put(*timer, place_of(tick_of(*timer)));
    timer = next;
  }
}

Instant TimerWheel::soonest() const noexcept {
  constexpr int kFewEnoughToLook = 8;
  Place place;
  if (!find_first(place)) return Instant::max();
  const Tick start = start_of(place);
  if (place.wheel == 0) return instant_of(start);
  Tick earliest = ~Tick{0};
  int looked_at = 0;
  for (const Timer* timer = slots_[place.wheel][place.slot].first; timer; timer = timer->after_) {
    if (++looked_at > kFewEnoughToLook) return instant_of(start);
    earliest = std::min(earliest, tick_of(*timer));
  }
  return instant_of(earliest);
}

}  // namespace weft::engine
