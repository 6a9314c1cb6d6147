#include "timer_wheel.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace weft::engine {

// ── places ──────────────────────────────────────────────────────────────────────────────────────

// The first tick of a slot: of the next revolution, if the present one is past it.
TimerWheel::Tick TimerWheel::start_of(Place place) const noexcept {
  const Tick present = digits_of(now_, place.wheel);
  return (present + (place.slot - present) % kSlots) << (place.wheel * kDigitBits);
}

// Of a wheel that is not empty: from the present slot on. Coming round, the word that holds the
// present slot is looked at again, for the slots before it.
TimerWheel::Place TimerWheel::first_on(unsigned wheel) const noexcept {
  const Bits& occupied = occupied_[wheel];
  const unsigned present = static_cast<unsigned>(digits_of(now_, wheel) % kSlots);
  std::size_t word = present / kWordBits;
  std::uint64_t bits = occupied[word] & (~std::uint64_t{0} << (present % kWordBits));
  while (bits == 0) {
    word = (word + 1) % occupied.size();
    bits = occupied[word];
  }
  return {wheel,
          static_cast<unsigned>(word * kWordBits) + static_cast<unsigned>(std::countr_zero(bits))};
}

// The slot that starts first. If several start together, wheel 0 comes last, for the others hold
// timers of its tick; and these from below, so that what was armed earlier is put in front later.
bool TimerWheel::find_first(Place& first) const noexcept {
  Tick earliest = ~Tick{0};
  for (unsigned left = wheels_; left != 0; left &= left - 1) {
    const Place place = first_on(static_cast<unsigned>(std::countr_zero(left)));
    const Tick start = start_of(place);
    if (start > earliest || (start == earliest && first.wheel != 0)) continue;
    earliest = start;
    first = place;
  }
  return wheels_ != 0;
}

void TimerWheel::put_first(Timer& timer, Place place) noexcept {
  Slot& slot = slots_[place.wheel][place.slot];
  timer.before_ = nullptr;
  timer.after_ = slot.first;
  (slot.first ? slot.first->before_ : slot.last) = &timer;
  slot.first = &timer;
  timer.place_ = static_cast<std::uint16_t>(place.wheel * kSlots + place.slot);
  mark(place);
}

// ── the operations ──────────────────────────────────────────────────────────────────────────────

std::size_t TimerWheel::fire_due(Instant now, Fired& fired, std::size_t most) noexcept {
  const Duration::rep since = now.time_since_epoch().count();
  const Tick present = since <= 0 ? 0 : static_cast<Tick>(since) >> kTickBits;
  std::size_t count = 0;
  for (Place place; find_first(place);) {
    const Tick start = start_of(place);
    if (start > present) break;
    now_ = start;
    if (place.wheel == 0) count += fire_slot(place, fired, most - count);
    else spread(place);
    if (count == most) return count;  // and this slot may have more
  }
  // No slot that is occupied starts between, so none is passed.
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

// Timers lie on stacks, far apart, and a list is followed one miss after the other. So it is walked
// from both ends at first, two misses at a time, which halves the time; but only as far as the
// cache keeps what it fetched. Not in a function of its own: g++ drops one that only prefetches.
//
// Then from the last to the first, each in front of what lies there already: that was armed later.
void TimerWheel::spread(Place place) noexcept {
  constexpr int kFetchFromEachEnd = 1024;
  const Slot slot = std::exchange(slots_[place.wheel][place.slot], Slot{});
  unmark(place);
  const Timer* front = slot.first;
  const Timer* back = slot.last;
  for (int i = 0; i < kFetchFromEachEnd && front != back; ++i) {
    front = front->after_;
    __builtin_prefetch(front, 1);
    if (front == back) break;
    back = back->before_;
    __builtin_prefetch(back, 1);
  }
  for (Timer* timer = slot.last; timer; ++moves_) {
    Timer* const next = timer->before_;
    put_first(*timer, place_of(tick_of(*timer)));
    timer = next;
  }
}

Instant TimerWheel::soonest() const noexcept {
  Tick earliest = ~Tick{0};
  for (unsigned left = wheels_; left != 0; left &= left - 1) {
    const Place place = first_on(static_cast<unsigned>(std::countr_zero(left)));
    const Tick start = start_of(place);
    if (start < earliest) earliest = std::min(earliest, soonest_in(place));
  }
  return instant_of(earliest);
}

Instant TimerWheel::soonest_rally() const noexcept {
  const Instant first = soonest();
  if (!(wheels_ & 1)) return first;
  const Place place = first_on(0);
  if (instant_of(start_of(place)) != first) return first;
  // The slots behind it, round to those before it, which are empty.
  const Bits& occupied = occupied_[0];
  const unsigned word = place.slot / kWordBits;
  const unsigned bit = place.slot % kWordBits;
  std::uint64_t ticks = occupied[word] >> bit;
  if (bit != 0) ticks |= occupied[(word + 1) % occupied.size()] << (kWordBits - bit);
  ticks &= (std::uint64_t{1} << kRallyTicks) - 1;
  const bool dense = static_cast<unsigned>(std::popcount(ticks)) >= kDenseTicks;
  return dense ? first + (kRallyTicks - 1) * kTick : first;
}

// The first tick of a slot at which one of its timers is due; its start, if they are too many to
// look at all.
TimerWheel::Tick TimerWheel::soonest_in(Place place) const noexcept {
  constexpr int kFewEnoughToLook = 8;
  if (place.wheel == 0) return start_of(place);
  Tick earliest = ~Tick{0};
  int looked_at = 0;
  for (const Timer* timer = slots_[place.wheel][place.slot].first; timer; timer = timer->after_) {
    if (++looked_at > kFewEnoughToLook) return start_of(place);
    earliest = std::min(earliest, tick_of(*timer));
  }
  return earliest;
}

}  // namespace weft::engine
