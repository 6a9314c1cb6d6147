// The sizes of the explorer's tables, and the small types that follow from them. Overflow of any of
// them ends the search with "explorer limit: ..."; nothing is ever dropped in silence.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::model {

// Thread 0 is the program's own thread: it runs the set-up and the checks at the end.
inline constexpr unsigned kMaxThreads = 16;
inline constexpr unsigned kMaxAtomics = 512;   // addresses used as Atomic, in one execution
inline constexpr unsigned kMaxPlaces = 4096;   // addresses used as Atomic, Var or Lock
inline constexpr unsigned kMaxSteps = 30'000;  // in one execution
inline constexpr unsigned kMaxStamp = 0x7fff;  // stores to one Atomic
inline constexpr unsigned kMaxEpoch = 0x7fff;  // releases by one thread
inline constexpr std::size_t kStackBytes = 256 * 1024;

using ThreadId = std::uint8_t;
using ThreadSet = std::uint32_t;  // bit i: thread i
using PlaceId = std::uint16_t;
using Slot = std::uint16_t;  // dense number of an Atomic inside views
// Signed and 16 bits wide: eight of them are compared by one instruction (see raise_each).
using Stamp = std::int16_t;  // position of a store in its location's modification order
using Epoch = std::int16_t;  // a thread's own logical time

inline constexpr ThreadId kMainThread = 0;
inline constexpr ThreadId kNoThread = 0xff;
inline constexpr PlaceId kNoPlace = 0xffff;
inline constexpr Slot kNoSlot = 0xffff;

constexpr ThreadSet bit(unsigned thread) noexcept { return ThreadSet{1} << thread; }
constexpr bool has(ThreadSet set, unsigned thread) noexcept { return (set & bit(thread)) != 0; }
constexpr ThreadId lowest(ThreadSet set) noexcept {
  return static_cast<ThreadId>(__builtin_ctz(set));
}

static_assert(kMaxThreads <= 32, "ThreadSet is 32 bits wide");
static_assert(kMaxPlaces < kNoPlace);
static_assert(kMaxAtomics < kNoSlot);

}  // namespace weft::model
