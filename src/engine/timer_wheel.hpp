// TimerWheel: armed timers by the tick they are due at. Arming and disarming take constant time.
//
// Nine wheels of 64 slots. A timer lies on the wheel of the highest digit, to base 64, in which its
// tick differs from the present one, in the slot of that digit. So whatever lies on a lower wheel
// is due before everything on a higher one, and the first slot is two bit scans away. When time
// reaches a slot of a higher wheel, its timers are spread over the wheels below: each timer moves a
// few times in its life, and most are disarmed before they move at all.
//
// Invariant: a timer fires at the first tick that is not before its instant: never early, and less
//            than a tick late. Those of one tick fire in the order of arming.
// Rejected:  a heap: arming and disarming a million timeouts that never fire is the common case.
#pragma once

#include <weft/core/timer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::engine {

class TimerWheel {
 public:
  static constexpr Duration kTick{4096};

  void arm(Timer& timer) noexcept;
  void disarm(Timer& timer) noexcept;  // idempotent
  // Fires the timers that are due at `now`, by tick, but `most` at a time; the number fired. `now`
  // never goes back.
  std::size_t fire_due(Instant now, Fired& fired, std::size_t most = SIZE_MAX) noexcept;

  // When fire_due() has something to do next, if nothing changes. Not later than the soonest timer
  // fires; earlier only if many timers lie far away in one slot, which has to be spread first.
  [[nodiscard]] Instant soonest() const noexcept;
  // When `timer` fires: its instant, rounded up to a tick.
  [[nodiscard]] static Instant fires_at(const Timer& timer) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  using Tick = std::uint64_t;
  static constexpr unsigned kDigitBits = 6;
  static constexpr unsigned kSlots = 1U << kDigitBits;
  static constexpr unsigned kWheels = 9;  // 54 bits: all instants there are

  struct Slot {
    Timer* first = nullptr;
    Timer* last = nullptr;
  };
  struct Place {
    unsigned wheel;
    unsigned slot;
  };

  static Tick tick_of(const Timer& timer) noexcept;
  static Instant instant_of(Tick tick) noexcept;
  [[nodiscard]] Place place_of(Tick due) const noexcept;
  [[nodiscard]] bool find_first(Place& place) const noexcept;
  [[nodiscard]] Tick start_of(Place place) const noexcept;
  void put(Timer& timer, Place place) noexcept;
  void take_out(Timer& timer) noexcept;
  std::size_t fire_slot(Place place, Fired& fired, std::size_t most) noexcept;
  void spread(Place place) noexcept;

  Tick now_ = 0;
  std::size_t size_ = 0;
  std::array<std::uint64_t, kWheels> occupied_{};  // a bit for each slot
  std::array<std::array<Slot, kSlots>, kWheels> slots_{};
};

}  // namespace weft::engine
