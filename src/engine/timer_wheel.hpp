// TimerWheel: armed timers by the tick they are due at. Arming and disarming take constant time.
//
// Seven wheels of 256 slots; a slot of a wheel is as long as the wheel below it. A timer lies on
// the lowest wheel that reaches as far as its tick: the one on which fewer than 256 slots lie
// between now and then. So a slot belongs to this revolution or to the next, and a wheel is read
// from the present slot on, round to the slot before it. When time reaches a slot of a higher
// wheel, its timers are spread over the wheels below. Wheel 0 reaches 4.2 ms, wheel 1 1.07 s: a
// sleeper of a second moves once in its life, together with those due within the same 4.2 ms; most
// timeouts are disarmed before they move at all.
//
// Invariant: a timer fires at the first tick that is not before its instant: never early, and less
//            than a tick late. Those of one tick fire in the order of arming: the wheel that a tick
//            is put on only sinks while time passes, so what comes from a higher wheel was armed
//            earlier, and goes in front.
//            A slot is never passed: now_ stops at the start of each that is occupied.
// Race:      none, it is used under a lock (SharedTimers), which is held while a slot is spread.
// Rejected:  a heap: arming and disarming a million timeouts that never fire is the common case.
//            Wheels by digits, a timer on that of the highest digit in which its tick differs from
//            the present one: what lies beyond the next boundary of a coarse digit, however near,
//            is all in one slot. 100,000 sleepers were spread at once, for 10 to 18 ms.
//            Fewer slots: half a second took three moves with 64, each a cache miss or two, for
//            timers lie on stacks. 256 cost 28 KiB for each worker, of which the first two wheels,
//            8 KiB, are in use as a rule.
#pragma once

#include <weft/core/timer.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::engine {

class TimerWheel {
 public:
  static constexpr Duration kTick{16384};
  // Dense: of so many ticks, 246 us from the first to the last, so many have a timer.
  static constexpr unsigned kRallyTicks = 16;
  static constexpr unsigned kDenseTicks = 4;

  void arm(Timer& timer) noexcept;
  void disarm(Timer& timer) noexcept;  // idempotent
  // Fires the timers that are due at `now`, by tick, but `most` at a time; the number fired. `now`
  // never goes back.
  std::size_t fire_due(Instant now, Fired& fired, std::size_t most = SIZE_MAX) noexcept;

  // When fire_due() has something to do next, if nothing changes. Not later than the soonest timer
  // fires; earlier only if many timers lie far away in one slot, which has to be spread first.
  [[nodiscard]] Instant soonest() const noexcept;
  // The same, for who would have to be woken for it: where timers lie dense, a few ticks later, so
  // that those of several ticks fire together. A lone timer is not kept waiting.
  [[nodiscard]] Instant soonest_rally() const noexcept;
  // When `timer` fires: its instant, rounded up to a tick.
  [[nodiscard]] static Instant fires_at(const Timer& timer) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // How often a timer was moved to a lower wheel so far: what spreading costs.
  [[nodiscard]] std::uint64_t moves() const noexcept { return moves_; }

 private:
  using Tick = std::uint64_t;
  static constexpr unsigned kTickBits = 14;
  static_assert(kTick.count() == 1 << kTickBits);
  static constexpr unsigned kDigitBits = 8;
  static constexpr unsigned kSlots = 1U << kDigitBits;
  static constexpr unsigned kWheels = 7;  // 56 bits: all instants there are
  static constexpr unsigned kWordBits = 64;

  struct Slot {
    Timer* first = nullptr;
    Timer* last = nullptr;
  };
  struct Place {
    unsigned wheel;
    unsigned slot;
  };
  using Bits = std::array<std::uint64_t, kSlots / kWordBits>;  // one for each slot

  static Tick tick_of(const Timer& timer) noexcept;
  static Instant instant_of(Tick tick) noexcept;
  static Tick digits_of(Tick tick, unsigned wheel) noexcept { return tick >> (wheel * kDigitBits); }
  [[nodiscard]] Place place_of(Tick due) const noexcept;
  [[nodiscard]] Place first_on(unsigned wheel) const noexcept;
  [[nodiscard]] bool find_first(Place& first) const noexcept;
  [[nodiscard]] Tick start_of(Place place) const noexcept;
  [[nodiscard]] Tick soonest_in(Place place) const noexcept;
  void mark(Place place) noexcept;
  void unmark(Place place) noexcept;
  void put_first(Timer& timer, Place place) noexcept;
  void put_last(Timer& timer, Place place) noexcept;
  void take_out(Timer& timer) noexcept;
  std::size_t fire_slot(Place place, Fired& fired, std::size_t most) noexcept;
  void spread(Place place) noexcept;

  Tick now_ = 0;
  std::size_t size_ = 0;
  std::uint64_t moves_ = 0;
  unsigned wheels_ = 0;  // a bit for each wheel that is not empty
  std::array<Bits, kWheels> occupied_{};
  std::array<std::array<Slot, kSlots>, kWheels> slots_{};
};

// ── arming and disarming, which every timeout does ──────────────────────────────────────────────

// Rounded up: a timer never fires early. What lies before the beginning of time is due at once.
inline TimerWheel::Tick TimerWheel::tick_of(const Timer& timer) noexcept {
  const Duration::rep when = timer.when.time_since_epoch().count();
  return when <= 0 ? 0 : ((static_cast<Tick>(when) - 1) >> kTickBits) + 1;
}

inline Instant TimerWheel::instant_of(Tick tick) noexcept {
  constexpr Tick kLast = static_cast<Tick>(Duration::max().count()) >> kTickBits;
  if (tick > kLast) return Instant::max();
  return Instant{Duration{static_cast<Duration::rep>(tick << kTickBits)}};
}

inline Instant TimerWheel::fires_at(const Timer& timer) noexcept {
  return instant_of(tick_of(timer));
}

// By distance in slots, not in ticks: two that are less than 256 slots apart never share one. The
// distance in ticks tells the wheel, unless a digit below makes it one slot more.
inline TimerWheel::Place TimerWheel::place_of(Tick due) const noexcept {
  const auto top_bit = static_cast<unsigned>(std::bit_width((due - now_) | 1)) - 1;
  unsigned wheel = top_bit / kDigitBits;
  if (digits_of(due, wheel) - digits_of(now_, wheel) >= kSlots) ++wheel;
  return {wheel, static_cast<unsigned>(digits_of(due, wheel) % kSlots)};
}

inline void TimerWheel::mark(Place place) noexcept {
  occupied_[place.wheel][place.slot / kWordBits] |= std::uint64_t{1} << (place.slot % kWordBits);
  wheels_ |= 1U << place.wheel;
}

inline void TimerWheel::unmark(Place place) noexcept {
  Bits& occupied = occupied_[place.wheel];
  occupied[place.slot / kWordBits] &= ~(std::uint64_t{1} << (place.slot % kWordBits));
  if (occupied == Bits{}) wheels_ &= ~(1U << place.wheel);
}

inline void TimerWheel::put_last(Timer& timer, Place place) noexcept {
  Slot& slot = slots_[place.wheel][place.slot];
  timer.before_ = slot.last;
  timer.after_ = nullptr;
  (slot.last ? slot.last->after_ : slot.first) = &timer;
  slot.last = &timer;
  timer.place_ = static_cast<std::uint16_t>(place.wheel * kSlots + place.slot);
  mark(place);
}

inline void TimerWheel::take_out(Timer& timer) noexcept {
  const Place place{timer.place_ / kSlots, timer.place_ % kSlots};
  Slot& slot = slots_[place.wheel][place.slot];
  (timer.before_ ? timer.before_->after_ : slot.first) = timer.after_;
  (timer.after_ ? timer.after_->before_ : slot.last) = timer.before_;
  if (!slot.first) unmark(place);
}

inline void TimerWheel::arm(Timer& timer) noexcept {
  put_last(timer, place_of(std::max(tick_of(timer), now_)));
  timer.armed_ = true;
  ++size_;
}

inline void TimerWheel::disarm(Timer& timer) noexcept {
  if (!timer.armed_) return;
  take_out(timer);
  timer.armed_ = false;
  --size_;
}

}  // namespace weft::engine
