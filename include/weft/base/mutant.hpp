// Mutants: each is one wrong line that the checker must notice, or the checker is worth nothing.
//
// Protocol code says `if (mutant::kLatchByPlainStore)` at the place of the fault. Every switch is a
// constant false, and the branch is never compiled in, but for one program: the test of the checker
// (WEFT_MUTANTS) throws one switch after the other.
#pragma once

#include <array>
#include <string_view>

#if defined(WEFT_MUTANTS) && !defined(WEFT_MODEL)
#error "WEFT_MUTANTS breaks the protocol on purpose: it is for model builds (WEFT_MODEL) only"
#endif

namespace weft::mutant {

#if defined(WEFT_MUTANTS)
inline int active = 0;  // the protocol as it should be
struct Switch {
  int id;
  operator bool() const noexcept { return active == id; }
};
#else
struct Switch {
  int id;
  constexpr operator bool() const noexcept { return false; }
};
#endif

inline constexpr Switch kCommitOnOwnStack{1};
inline constexpr Switch kLatchByPlainStore{2};
inline constexpr Switch kTicketNotBumped{3};
inline constexpr Switch kTicketCheckedApart{4};
inline constexpr Switch kNudgeSkipsRmw{5};
inline constexpr Switch kParkIgnoresNudge{6};
inline constexpr Switch kLastArmStaysPublished{7};
inline constexpr Switch kEventWakesFirstOnly{8};
inline constexpr Switch kEventEnqueuesParking{9};
inline constexpr Switch kClaimIgnoresVerdict{10};
inline constexpr Switch kDataAfterWake{11};
inline constexpr Switch kJoinTouchedAfterRelease{12};
inline constexpr Switch kJoinStateApartFromCount{13};
inline constexpr Switch kThreadWokenWithoutWord{14};
inline constexpr Switch kThreadSleepsWithoutCompare{15};
inline constexpr Switch kRecycledTicketRestarts{16};
inline constexpr Switch kUnlockForgetsSleeper{17};
inline constexpr Switch kUnlockRelaxed{18};
inline constexpr Switch kNudgeClearedTooLate{19};
inline constexpr Switch kGateEntersUnfenced{20};
inline constexpr Switch kGateForcedUnfenced{21};
inline constexpr Switch kInjectorTurnRelaxed{22};
inline constexpr Switch kSleepAnnouncedUnfenced{23};
inline constexpr Switch kInjectionUnfenced{24};
inline constexpr Switch kWatchSleepsRegardless{25};
inline constexpr Switch kCancellingByPlainStore{26};
inline constexpr Switch kClosingCannotBeCancelled{27};
inline constexpr Switch kRefusedStaysCounted{28};
inline constexpr Switch kRefusedChildStays{29};
inline constexpr Switch kCancelledJoinReturns{30};
inline constexpr Switch kPlaceGivenTwice{31};
inline constexpr Switch kPlaceGivenToNobody{32};
inline constexpr Switch kGraceStaysArmed{33};
inline constexpr Switch kDeadlineStaysArmed{34};
inline constexpr Switch kAlarmStaysArmed{35};
inline constexpr Switch kSettledBeforeResult{36};
inline constexpr Switch kFutureKeepsDeadScope{37};
inline constexpr Switch kInPlaceUnderForeignScope{38};
inline constexpr Switch kRaceDecidedApart{39};
inline constexpr Switch kRaceLoserRuns{40};
inline constexpr Switch kGraceOutlivesTheEnd{41};
inline constexpr Switch kTokenUnattached{42};
inline constexpr Switch kStopHookUnkept{43};
inline constexpr Switch kTokenLeftUntold{44};
inline constexpr Switch kEmptyIgnoresOverflow{45};
inline constexpr Switch kToldOnceIsEnough{46};
inline constexpr Switch kRollsMadeApart{47};
inline constexpr Switch kLatchedWinnerSkipsLock{48};
inline constexpr Switch kNobodyHeldBack{49};
inline constexpr Switch kValueMovedUnlocked{50};
inline constexpr Switch kPublishIgnoresClosed{51};
inline constexpr Switch kPublishIgnoresPeer{52};
inline constexpr Switch kSelectMeetsItself{53};
inline constexpr Switch kCloseWakesNobody{54};
inline constexpr Switch kCloseEndsSenders{55};
inline constexpr Switch kHangUpLeavesSenders{56};
inline constexpr Switch kHangUpDiscardsFirst{57};
inline constexpr Switch kAbortLeavesSenders{58};
inline constexpr Switch kOneshotLeavesReceivers{59};
inline constexpr Switch kBufferBeforeReceiver{60};
inline constexpr Switch kTakeForgetsSender{61};
inline constexpr Switch kRefillLeftBehind{62};
inline constexpr Switch kFusedLinkApart{63};
inline constexpr Switch kFusedWinnerSkipsLock{64};
inline constexpr Switch kFusedLoserStaysLinked{65};
inline constexpr Switch kReleaseRelaxed{66};
inline constexpr Switch kGoneBeforeHangUp{67};
inline constexpr Switch kMutexReleasesRelaxed{70};
inline constexpr Switch kWaiterUnannounced{71};
inline constexpr Switch kMutexFreedUnderLock{72};
inline constexpr Switch kMutexGivenToNobody{73};
inline constexpr Switch kMutexDropsTheRest{74};
inline constexpr Switch kWokenLockGivesUp{75};
inline constexpr Switch kPermitToNobody{76};
inline constexpr Switch kPermitTwice{77};
inline constexpr Switch kPermitOverlooked{78};
inline constexpr Switch kCondVarUnlocksFirst{79};
inline constexpr Switch kQueueHeadUnserved{80};
inline constexpr Switch kTurnToNobody{81};
inline constexpr Switch kArrivalStays{82};
inline constexpr Switch kKeptSleeperUnfenced{90};
inline constexpr Switch kKeptUnlockForgetsSleeper{91};
inline constexpr Switch kNewsUntold{100};
inline constexpr Switch kNewsOverlooked{101};
inline constexpr Switch kFeedEndUntold{102};
inline constexpr Switch kFeedEndOverlooked{103};
inline constexpr Switch kSubscriberCountedLate{104};
inline constexpr Switch kNoteHeldLate{105};
inline constexpr Switch kNoteDroppedRelaxed{106};
inline constexpr Switch kLagUnnoticed{107};
inline constexpr Switch kRingEmptiedLate{108};
inline constexpr Switch kUpdatesMeet{109};
inline constexpr Switch kTwoAdvance{110};
inline constexpr Switch kAdvanceLooksOnce{111};
inline constexpr Switch kEndBeforeLastResult{112};
inline constexpr Switch kCloseLeavesSubmitters{113};
inline constexpr Switch kPlaceBeforeResource{114};
inline constexpr Switch kIdleAfterClose{115};
inline constexpr Switch kCallCountedLate{120};
inline constexpr Switch kWithdrawnStaysQueued{121};
inline constexpr Switch kStopUncounted{130};
inline constexpr Switch kStoppingAdmits{131};
inline constexpr Switch kOpenBeforeStart{132};
inline constexpr Switch kPushToTheGone{140};
inline constexpr Switch kGoneWithoutALook{141};
inline constexpr Switch kRetiresWithTheWatch{142};
inline constexpr Switch kRetiresUncounted{143};
inline constexpr Switch kBellUnfenced{144};
inline constexpr Switch kNewcomerUnlisted{145};
inline constexpr Switch kEndUnfenced{146};
inline constexpr Switch kFiringUnannounced{147};
inline constexpr Switch kReadyUnseenAtPublish{150};
inline constexpr Switch kLastUserTellsNobody{151};
inline constexpr Switch kRousesTheWrongBed{152};
inline constexpr Switch kCountedThoughClosed{153};
inline constexpr Switch kCallLeftToTheKernel{160};
inline constexpr Switch kLateAnswerDropped{161};
inline constexpr Switch kCallTakenAfterClose{162};
inline constexpr Switch kLastWordOverlooked{163};
inline constexpr Switch kCancelHintsLate{164};
inline constexpr Switch kCancelLooksRelaxed{165};
inline constexpr Switch kOwnerUntold{166};
inline constexpr Switch kAbandonedUntold{167};
inline constexpr Switch kCrowdWokenInPart{168};
inline constexpr Switch kFavouredEntersUnfenced{170};
inline constexpr Switch kFavourEndsUnfenced{171};
inline constexpr Switch kFavourUnchecked{172};
inline constexpr Switch kFavouredNotAwaited{173};
inline constexpr Switch kFavouredLeavesRelaxed{174};
inline constexpr Switch kSeatTakenRelaxed{175};

struct Mutant {
  int id;
  std::string_view name, change, noticed_by;
};

// M and S numbers are those of the catalogue of known faults.
inline constexpr std::array kMutants{
    Mutant{1, "kCommitOnOwnStack", "M1: PARKED is committed before the fiber leaves its stack",
           "explorer: race on the stack"},
    Mutant{2, "kLatchByPlainStore", "M3: a verdict is latched by load and store, not by one RMW",
           "explorer: two winners"},
    Mutant{3, "kTicketNotBumped", "M8a: begin_park keeps the ticket of the wait before",
           "explorer: a stale waker ends the next wait"},
    Mutant{4, "kTicketCheckedApart", "M8b: claim compares the ticket first, then swaps the state",
           "explorer: a stale waker ends the next wait"},
    Mutant{5, "kNudgeSkipsRmw", "S13: a canceller that sees the nudge set returns without RMW",
           "explorer: the fiber parks with its scope cancelled"},
    Mutant{6, "kParkIgnoresNudge", "commit_park leaves the fiber parked although it was nudged",
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
    Mutant{26, "kCancellingByPlainStore", "cancel() stores the state with an older count",
           "explorer: the join does not end, or too early"},
    Mutant{27, "kClosingCannotBeCancelled", "cancel() does nothing to a nursery that is closing",
           "explorer: deadlock"},
    Mutant{28, "kRefusedStaysCounted", "a spawn that is refused leaves its count in the word",
           "explorer: deadlock"},
    Mutant{29, "kRefusedChildStays", "a child that is refused is not taken apart",
           "explorer: leak"},
    Mutant{30, "kCancelledJoinReturns", "the join of a cancelled nursery does not wait",
           "explorer: use after free"},
    Mutant{31, "kPlaceGivenTwice", "a place of max_live is handed over and stays free",
           "explorer: two at a time"},
    Mutant{32, "kPlaceGivenToNobody", "a place is handed over to a waiter that was cancelled",
           "explorer: deadlock"},
    Mutant{33, "kGraceStaysArmed", "a nursery ends with its grace timer armed",
           "explorer: use after free"},
    Mutant{34, "kDeadlineStaysArmed", "a scope ends with its deadline armed",
           "explorer: use after free"},
    Mutant{35, "kAlarmStaysArmed", "an alarm is not disarmed when its wait ends",
           "explorer: use after free"},
    Mutant{36, "kSettledBeforeResult", "a future is settled before its value is there",
           "explorer: race on the value"},
    Mutant{37, "kFutureKeepsDeadScope", "a future still knows the scope of a child that has ended",
           "explorer: use after free"},
    Mutant{38, "kInPlaceUnderForeignScope",
           "get() runs its child in place where a cancel would end only get()",
           "explorer: deadlock"},
    Mutant{39, "kRaceDecidedApart", "race() looks who won, then says so",
           "explorer: race on the result"},
    Mutant{40, "kRaceLoserRuns", "race() does not cancel the loser", "explorer: deadlock"},
    Mutant{41, "kGraceOutlivesTheEnd", "a nursery takes its last state with its grace timer armed",
           "explorer: the state after the end"},
    Mutant{42, "kTokenUnattached", "a scope with a stop token is not known to its parent",
           "explorer: the token is not stopped"},
    Mutant{43, "kStopHookUnkept", "cancel() tells a stop hook that its scope may take along",
           "explorer: use after free"},
    Mutant{44, "kTokenLeftUntold", "a scope that ends before the sweep leaves its token untold",
           "explorer: the token is not stopped"},
    Mutant{45, "kEmptyIgnoresOverflow", "an injector with an empty ring calls itself empty",
           "explorer: empty although nobody has taken it"},
    Mutant{46, "kToldOnceIsEnough", "who finds an inbox nudged already returns without RMW",
           "explorer: deadlock"},
    Mutant{47, "kRollsMadeApart", "a scope's rolls are made without its lock",
           "explorer: neither found nor found the flag"},
    Mutant{48, "kLatchedWinnerSkipsLock", "a wait that was ended while parking returns at once",
           "explorer: use after free"},
    Mutant{49, "kNobodyHeldBack", "an event that wakes many, a few at a time, holds nobody back",
           "explorer: use after free"},
    Mutant{50, "kValueMovedUnlocked", "a value is handed to a receiver without the lock",
           "explorer: race on the value"},
    Mutant{51, "kPublishIgnoresClosed", "an arm is published on a channel closed meanwhile",
           "explorer: deadlock"},
    Mutant{52, "kPublishIgnoresPeer", "an arm is published although a partner came meanwhile",
           "explorer: deadlock"},
    Mutant{53, "kSelectMeetsItself", "a send arm gives its value to the same select",
           "explorer: the select has met itself"},
    Mutant{54, "kCloseWakesNobody", "close() does not wake those who wait to receive",
           "explorer: deadlock"},
    Mutant{55, "kCloseEndsSenders", "close() refuses what was admitted by parking",
           "explorer: an admitted value comes back"},
    Mutant{56, "kHangUpLeavesSenders", "the last receiver does not wake those who wait to send",
           "explorer: deadlock"},
    Mutant{57, "kHangUpDiscardsFirst", "the last receiver discards the buffer, then closes",
           "explorer: race on the buffer"},
    Mutant{58, "kAbortLeavesSenders", "abort() does not wake those who wait to send",
           "explorer: deadlock"},
    Mutant{59, "kOneshotLeavesReceivers", "a oneshot leaves those waiting who came too late",
           "explorer: deadlock"},
    Mutant{60, "kBufferBeforeReceiver", "a send fills the buffer while a receiver waits",
           "explorer: deadlock"},
    Mutant{61, "kTakeForgetsSender", "a receive from a full buffer lets no waiting sender in",
           "explorer: deadlock"},
    Mutant{62, "kRefillLeftBehind", "a waiting sender is let in without its value",
           "explorer: neither sent nor kept"},
    Mutant{63, "kFusedLinkApart", "a fused wait tries and links under two holds of the lock",
           "explorer: deadlock"},
    Mutant{64, "kFusedWinnerSkipsLock", "a fused wait that was ended while parking returns at once",
           "explorer: race on the value"},
    Mutant{65, "kFusedLoserStaysLinked", "a fused wait that was cancelled stays linked",
           "explorer: use after free"},
    Mutant{66, "kReleaseRelaxed", "the two sides of a channel part by a relaxed count",
           "explorer: use after free"},
    Mutant{67, "kGoneBeforeHangUp", "receivers count as gone before the channel is closed",
           "explorer: admitted although nobody is left"},
    Mutant{70, "kMutexReleasesRelaxed", "Mutex::unlock lets go with a relaxed compare-exchange",
           "explorer: race on what the mutex guards"},
    Mutant{71, "kWaiterUnannounced", "a waiter lists itself without a mark in the mutex's word",
           "explorer: deadlock"},
    Mutant{72, "kMutexFreedUnderLock",
           "unlock frees the word of a mutex that nobody waits for, then its lock",
           "explorer: use after free"},
    Mutant{73, "kMutexGivenToNobody", "a mutex is kept for a waiter that was cancelled",
           "explorer: deadlock"},
    Mutant{74, "kMutexDropsTheRest", "unlock wakes one waiter and forgets the others",
           "explorer: deadlock"},
    Mutant{75, "kWokenLockGivesUp", "a timed lock that was woken throws without trying",
           "explorer: deadlock"},
    Mutant{76, "kPermitToNobody", "a permit is handed over to a waiter that was cancelled",
           "explorer: deadlock"},
    Mutant{77, "kPermitTwice", "a permit is handed over and stays free",
           "explorer: two at a time"},
    Mutant{78, "kPermitOverlooked", "a waiter lists itself although a permit is free",
           "explorer: deadlock"},
    Mutant{79, "kCondVarUnlocksFirst", "a waiter lets go of its mutex before it is listed",
           "explorer: deadlock"},
    Mutant{80, "kQueueHeadUnserved", "a writer that gives up leaves the readers behind it waiting",
           "explorer: deadlock"},
    Mutant{81, "kTurnToNobody", "a turn is handed over to a call that was cancelled",
           "explorer: the cancelled one is told that it runs it"},
    Mutant{82, "kArrivalStays", "a barrier counts a waiter that was cancelled",
           "explorer: deadlock"},
    Mutant{90, "kKeptSleeperUnfenced", "who sleeps on a kept lock does not fence its holder",
           "explorer: deadlock"},
    Mutant{91, "kKeptUnlockForgetsSleeper", "the release of a kept lock wakes nobody",
           "explorer: deadlock"},
    Mutant{100, "kNewsUntold", "a value is sent, and nobody who waits for it is woken",
           "explorer: deadlock"},
    Mutant{101, "kNewsOverlooked", "a subscriber lists itself although there is something new",
           "explorer: deadlock"},
    Mutant{102, "kFeedEndUntold", "a broadcast is closed, and nobody who waits is woken",
           "explorer: deadlock"},
    Mutant{103, "kFeedEndOverlooked", "a subscriber lists itself although the broadcast was closed",
           "explorer: deadlock"},
    Mutant{104, "kSubscriberCountedLate",
           "a subscriber takes its place first, and is counted later",
           "explorer: a value is not kept for it"},
    Mutant{105, "kNoteHeldLate", "a value is held by its reader after the lock is released",
           "explorer: use after free"},
    Mutant{106, "kNoteDroppedRelaxed", "the holders of a value part by a relaxed count",
           "explorer: use after free"},
    Mutant{107, "kLagUnnoticed", "a subscriber that was overtaken reads on where it was",
           "explorer: values out of order"},
    Mutant{108, "kRingEmptiedLate",
           "the last subscriber empties the ring after the lock is released",
           "explorer: race on the ring"},
    Mutant{109, "kUpdatesMeet", "two updates of a watch run at the same time",
           "explorer: an update is lost"},
    Mutant{110, "kTwoAdvance", "two tasks send the results of ordered tasks at a time",
           "explorer: results out of order"},
    Mutant{111, "kAdvanceLooksOnce", "who sends a result does not look for the one behind it",
           "explorer: deadlock"},
    Mutant{112, "kEndBeforeLastResult", "close() ends the results while the last one is being sent",
           "explorer: a result is lost"},
    Mutant{113, "kCloseLeavesSubmitters", "close() does not tell those who wait to submit",
           "explorer: deadlock"},
    Mutant{114, "kPlaceBeforeResource", "a lease frees its place before its resource is gone",
           "explorer: more alive than places"},
    Mutant{115, "kIdleAfterClose", "a resource is kept by a pool that is closed",
           "explorer: leak"},
    Mutant{120, "kCallCountedLate", "a thread looks how many calls came after it let others call",
           "explorer: deadlock"},
    Mutant{121, "kWithdrawnStaysQueued", "a call that was withdrawn stays in the queue",
           "explorer: made all the same"},
    Mutant{130, "kStopUncounted", "stop() marks the root without a place among its children",
           "explorer: livelock"},
    Mutant{131, "kStoppingAdmits", "a post gets in after stop() has returned",
           "explorer: accepted after the stop"},
    Mutant{132, "kOpenBeforeStart", "a post gets in while the threads are being started",
           "explorer: accepted by a run that never was"},
    Mutant{140, "kPushToTheGone", "a fiber is left in an inbox that is closed",
           "explorer: neither received nor refused"},
    Mutant{141, "kGoneWithoutALook", "an inbox is closed without a look whether it is empty",
           "explorer: neither received nor refused"},
    Mutant{142, "kRetiresWithTheWatch", "a temporary worker goes, and takes the watch along",
           "explorer: livelock"},
    Mutant{143, "kRetiresUncounted", "a temporary worker goes although it is called to search",
           "explorer: a searcher too many"},
    Mutant{144, "kBellUnfenced", "the watcher lies down without a look whether somebody runs",
           "explorer: livelock"},
    Mutant{145, "kNewcomerUnlisted", "a worker is hired before others know of its place",
           "explorer: livelock"},
    Mutant{146, "kEndUnfenced", "the last child looks for newcomers without a fence",
           "explorer: livelock"},
    Mutant{147, "kFiringUnannounced", "the watcher fires timers and tells nobody",
           "explorer: a deadlock that is none"},
    Mutant{150, "kReadyUnseenAtPublish", "a waiter does not look whether an edge has come",
           "explorer: deadlock"},
    Mutant{151, "kLastUserTellsNobody", "the last call on a closed descriptor tells nobody",
           "explorer: deadlock"},
    Mutant{152, "kRousesTheWrongBed", "who sleeps elsewhere is woken as if it slept on its inbox",
           "explorer: deadlock"},
    Mutant{153, "kCountedThoughClosed", "a call counts itself before it looks for the closed mark",
           "explorer: deadlock"},
    Mutant{160, "kCallLeftToTheKernel", "a cancelled call returns while the kernel still has it",
           "explorer: an answer to a call that has returned"},
    Mutant{161, "kLateAnswerDropped", "bytes that came before the kernel let go are dropped",
           "explorer: bytes were lost"},
    Mutant{162, "kCallTakenAfterClose", "the kernel is handed a call on a closed descriptor",
           "explorer: deadlock"},
    Mutant{163, "kLastWordOverlooked", "who waits for the last word does not look if it has come",
           "explorer: deadlock"},
    Mutant{164, "kCancelHintsLate", "a canceller looks at the word first, and nudges afterwards",
           "explorer: deadlock"},
    Mutant{165, "kCancelLooksRelaxed", "a canceller looks at the word, after its nudge, relaxed",
           "explorer: the fiber parks with its scope cancelled"},
    Mutant{166, "kOwnerUntold", "the owner goes on with a child's end, and it is not counted",
           "explorer: deadlock"},
    Mutant{167, "kAbandonedUntold", "a child is not told that nobody wants its result",
           "explorer: a result dies in a fiber that has ended"},
    Mutant{168, "kCrowdWokenInPart", "a canceller that has let go of the lock does not go on",
           "explorer: neither found nor found the flag"},
    Mutant{170, "kFavouredEntersUnfenced", "who is favoured by a lock enters it without a fence",
           "explorer: race"},
    Mutant{171, "kFavourEndsUnfenced", "a favour is ended without the fence for both",
           "explorer: race"},
    Mutant{172, "kFavourUnchecked", "who has entered does not look whether it is favoured still",
           "explorer: race"},
    Mutant{173, "kFavouredNotAwaited", "who ends a favour does not wait until the favoured is out",
           "explorer: race"},
    Mutant{174, "kFavouredLeavesRelaxed", "the favoured leaves a lock by a relaxed store",
           "explorer: race"},
    Mutant{175, "kSeatTakenRelaxed", "the favoured enters the next lock by a relaxed store",
           "explorer: race"},
};

}  // namespace weft::mutant
