// Mutants: each is one wrong line that the checker must notice, or the checker is worth nothing.
//
// Protocol code says `if constexpr (mutant::kLatchByPlainStore)` at the place of the fault. Outside
// model builds every constant is false and the branch is never compiled in. One mutant is active at
// a time: the test of the checker builds the models once per row of kMutants.
#pragma once

#include <array>
#include <string_view>

#if defined(WEFT_MUTANT) && !defined(WEFT_MODEL)
#error "WEFT_MUTANT breaks the protocol on purpose: it is for model builds (WEFT_MODEL) only"
#endif

namespace weft::mutant {

#if defined(WEFT_MUTANT)
inline constexpr int kActive = WEFT_MUTANT;
#else
inline constexpr int kActive = 0;  // the protocol as it should be
#endif

inline constexpr bool kCommitOnOwnStack = kActive == 1;
inline constexpr bool kLatchByPlainStore = kActive == 2;
inline constexpr bool kTicketNotBumped = kActive == 3;
inline constexpr bool kTicketCheckedApart = kActive == 4;
inline constexpr bool kNudgeSkipsRmw = kActive == 5;
inline constexpr bool kParkIgnoresNudge = kActive == 6;
inline constexpr bool kLastArmStaysPublished = kActive == 7;
inline constexpr bool kEventWakesFirstOnly = kActive == 8;
inline constexpr bool kEventEnqueuesParking = kActive == 9;
inline constexpr bool kClaimIgnoresVerdict = kActive == 10;
inline constexpr bool kDataAfterWake = kActive == 11;
inline constexpr bool kJoinTouchedAfterRelease = kActive == 12;
inline constexpr bool kJoinStateApartFromCount = kActive == 13;
inline constexpr bool kThreadWokenWithoutWord = kActive == 14;
inline constexpr bool kThreadSleepsWithoutCompare = kActive == 15;
inline constexpr bool kRecycledTicketRestarts = kActive == 16;
inline constexpr bool kUnlockForgetsSleeper = kActive == 17;
inline constexpr bool kUnlockRelaxed = kActive == 18;
inline constexpr bool kNudgeClearedTooLate = kActive == 19;
inline constexpr bool kGateEntersUnfenced = kActive == 20;
inline constexpr bool kGateForcedUnfenced = kActive == 21;
inline constexpr bool kInjectorTurnRelaxed = kActive == 22;
inline constexpr bool kSleepAnnouncedUnfenced = kActive == 23;
inline constexpr bool kInjectionUnfenced = kActive == 24;
inline constexpr bool kWatchSleepsRegardless = kActive == 25;
inline constexpr bool kEmptyIgnoresOverflow = kActive == 40;
inline constexpr bool kToldOnceIsEnough = kActive == 41;

struct Mutant {
  int id;
  std::string_view name, change, noticed_by;
};

// The id is the value of WEFT_MUTANT; M and S numbers are those of the catalogue of known faults.
inline constexpr std::array kMutants{
    Mutant{1, "kCommitOnOwnStack", "M1: PARKED is committed before the fiber leaves its stack",
           "explorer: race on the stack"},
    Mutant{2, "kLatchByPlainStore", "M3: a verdict is latched by load and store, not by one RMW",
           "explorer: two winners, or a lost nudge"},
    Mutant{3, "kTicketNotBumped", "M8a: begin_park keeps the ticket of the wait before",
           "explorer: a stale waker ends the next wait"},
    Mutant{4, "kTicketCheckedApart", "M8b: claim compares the ticket first, then swaps the state",
           "explorer: a stale waker ends the next wait"},
    Mutant{5, "kNudgeSkipsRmw", "S13: a canceller that sees the nudge set returns without RMW",
           "explorer: the fiber parks with its scope cancelled"},
    Mutant{6, "kParkIgnoresNudge", "begin_park parks although the nudge is set",
           "explorer: the fiber parks with its scope cancelled"},
    Mutant{7, "kLastArmStaysPublished", "M9: the last arm of a wait is not unpublished",
           "explorer: a node is used after its wait returned"},
    Mutant{8, "kEventWakesFirstOnly", "M11: Event::set wakes the first waiter only",
           "explorer: deadlock; unit test"},
    Mutant{9, "kEventEnqueuesParking", "F4: Event::set enqueues a fiber whose verdict was latched",
           "explorer: rule F2, or race on the stack"},
    Mutant{10, "kClaimIgnoresVerdict", "claim overwrites the verdict of an earlier winner",
           "explorer: two winners of one wait"},
    Mutant{11, "kDataAfterWake", "M21: the data is written after the claim that announces it",
           "explorer: race on the data"},
    Mutant{12, "kJoinTouchedAfterRelease", "the last child touches the nursery after its wake",
           "explorer: use after free"},
    Mutant{13, "kJoinStateApartFromCount", "S9: waiter bit and live count are read separately",
           "explorer: deadlock"},
    Mutant{14, "kThreadWokenWithoutWord", "a thread is woken before its word is changed",
           "explorer: deadlock"},
    Mutant{15, "kThreadSleepsWithoutCompare", "a thread sleeps without comparing its word",
           "explorer: deadlock"},
    Mutant{16, "kRecycledTicketRestarts", "a recycled frame starts again at ticket zero",
           "explorer: a stale node wakes the new fiber"},
    Mutant{17, "kUnlockForgetsSleeper", "BriefLock::unlock wakes nobody when contended",
           "explorer: deadlock"},
    Mutant{18, "kUnlockRelaxed", "BriefLock::unlock releases with a relaxed exchange",
           "explorer: race on the data the lock guards"},
    Mutant{19, "kNudgeClearedTooLate", "checkpoint reads the scopes, then clears the nudge",
           "explorer: the fiber parks with its scope cancelled"},
    Mutant{20, "kGateEntersUnfenced", "a worker enters its gate without the light fence",
           "explorer: race on the queue"},
    Mutant{21, "kGateForcedUnfenced", "a thief insists without the barrier on every core",
           "explorer: race on the queue"},
    Mutant{22, "kInjectorTurnRelaxed", "a slot of the injector is handed over by a relaxed store",
           "explorer: race on the slot"},
    Mutant{23, "kSleepAnnouncedUnfenced", "S11: a sleeper announces itself and looks, no fence",
           "explorer: deadlock"},
    Mutant{24, "kInjectionUnfenced", "S11: an injecting thread looks for sleepers without a fence",
           "explorer: deadlock"},
    Mutant{25, "kWatchSleepsRegardless", "the watch sleeps for good although somebody runs",
           "explorer: deadlock"},
    Mutant{40, "kEmptyIgnoresOverflow", "an injector with an empty ring calls itself empty",
           "explorer: empty although nobody has taken it"},
    Mutant{41, "kToldOnceIsEnough", "who finds an inbox nudged already returns without RMW",
           "explorer: deadlock"},
};

constexpr bool exists(int id) {
  for (const Mutant& mutant : kMutants)
    if (mutant.id == id) return true;
  return false;
}
static_assert(kActive == 0 || exists(kActive), "no such mutant");

}  // namespace weft::mutant
