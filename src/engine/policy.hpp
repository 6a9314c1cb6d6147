// Policy: the constants by which workers choose and share. Measured: see docs/scheduler.md.
#pragma once

#include <weft/core/time.hpp>

#include <cstddef>
#include <cstdint>

namespace weft::engine::policy {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// ── picking ─────────────────────────────────────────────────────────────────────────────────────
inline constexpr std::uint32_t kFairnessInterval = 61;  // a prime: no rhythm to fall in with
inline constexpr std::uint32_t kRoundsAClock = 4;       // such intervals between looks at the clock
inline constexpr std::uint32_t kRoundsAnUnborn = 16;    // such intervals a turn of the unborn, or
inline constexpr Duration kUnbornAge = milliseconds{1};  // so long, seen at a look at the clock
inline constexpr std::uint32_t kRoundsAPoll = 8;        // such intervals between looks outside
inline constexpr Duration kClockGrain = milliseconds{1};  // what ages are rounded to
inline constexpr std::uint32_t kAdoptionsAside = 64;    // such intervals of joins in place
static_assert(kAdoptionsAside % kRoundsAnUnborn == 0 && kRoundsAnUnborn % kRoundsAClock == 0);
inline constexpr std::uint32_t kTurnsMax = 64;          // in a row through the `next` slot
inline constexpr std::size_t kInboxLong = 256;          // longer: wakes from outside go elsewhere
inline constexpr std::size_t kInjectedAtOnce = 64;      // most that one worker takes

// ── stealing ────────────────────────────────────────────────────────────────────────────────────
// Only what has waited this long is taken: a queue that turns over faster is left alone, however
// long it is. Doubled by every steal that did not pay.
inline constexpr Duration kAge = microseconds{3};
inline constexpr Duration kAgeMax = milliseconds{2};
inline constexpr Duration kPays = microseconds{30};     // a loot that lasted this long, and
inline constexpr Duration kPaysEach = nanoseconds{100};  // this long for each: a frame's journey;
inline constexpr Duration kPaysAlone = microseconds{4};  // or this long for each, however few
inline constexpr Duration kSilence = microseconds{8};   // a worker that came to its gate no more
inline constexpr Duration kGiveUp = microseconds{20};   // on one that was stopped inside its gate
inline constexpr std::size_t kLootMax = 512;           // fibers in one steal
static_assert(2 * kInboxLong <= kLootMax, "a stalled worker's inbox is taken over whole");

// ── idling ──────────────────────────────────────────────────────────────────────────────────────
inline constexpr Duration kSearch = microseconds{50};   // before sleeping; a wake costs 20
inline constexpr unsigned kSpinsPerLook = 32;
inline constexpr Duration kWatch = milliseconds{1};     // between two looks of the watch
inline constexpr unsigned kQuietRounds = 8;             // of them, before it sleeps for good
// A sleeper is called when a queue turns from empty to not empty, or reaches a multiple of this,
// which counts as many such edges.
inline constexpr std::size_t kSurplus = 256;
inline constexpr std::uint32_t kSurplusEdges = 16;
// Called in vain, it is called at every second edge, every fourth, …
inline constexpr std::uint32_t kPatienceMax = 16'384;

// ── the watcher ─────────────────────────────────────────────────────────────────────────────────
inline constexpr Duration kRound = milliseconds{5};
inline constexpr unsigned kStillRounds = 2;             // without a pick: it makes no progress
inline constexpr Duration kTimeSlice = milliseconds{10};  // on a core, while others wait
inline constexpr Duration kTimersLate = milliseconds{2};  // then the watcher fires them
inline constexpr unsigned kRoundsAsleep = 2;            // of everybody, before it sleeps for good

// ── calls that block ────────────────────────────────────────────────────────────────────────────
inline constexpr Duration kOffloadIdle = std::chrono::seconds{10};  // then a thread goes home

}  // namespace weft::engine::policy
