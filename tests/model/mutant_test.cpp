// The checker is checked: here every fault of base/mutant.hpp can be put into the shipped code, one
// at a time. A test passes only if the model that guards against its fault fails.
#include "brief_lock_models.hpp"
#include "core_models.hpp"
#include "feed_models.hpp"
#include "flow_models.hpp"
#include "io_models.hpp"
#include "lock_models.hpp"
#include "pool_models.hpp"
#include "scheduler_models.hpp"
#include "structure_models.hpp"

#include <weft/base/mutant.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>

namespace weft::model {

struct Guard {
  mutant::Switch mutant;
  const char* model;
};

const mutant::Mutant& mutant_of(const Guard& guard);
const mutant::Mutant& mutant_of(const Guard& guard) {
  const auto at = std::ranges::find(mutant::kMutants, guard.mutant.id, &mutant::Mutant::id);
  if (at == mutant::kMutants.end()) throw std::out_of_range{"a mutant that is in no table"};
  return *at;
}
void PrintTo(const Guard& guard, std::ostream* out);  // for GoogleTest, found by its name
void PrintTo(const Guard& guard, std::ostream* out) { *out << mutant_of(guard).change; }

namespace {

constexpr std::array kGuards{
    Guard{mutant::kCommitOnOwnStack, "two workers"},
    Guard{mutant::kLatchByPlainStore, "event wakes one"},
    Guard{mutant::kTicketNotBumped, "stale ticket is refused"},
    Guard{mutant::kTicketCheckedApart, "stale ticket is refused"},
    Guard{mutant::kNudgeSkipsRmw, "two nudges"},
    Guard{mutant::kParkIgnoresNudge, "cancel reaches a wait"},
    Guard{mutant::kLastArmStaysPublished, "one of two arms"},
    Guard{mutant::kLatchedWinnerSkipsLock, "event wakes one"},
    Guard{mutant::kNobodyHeldBack, "the last one woken destroys"},
    Guard{mutant::kKeptSleeperUnfenced, "two threads lock, kept"},
    Guard{mutant::kKeptUnlockForgetsSleeper, "two threads lock, kept"},
    Guard{mutant::kEventWakesFirstOnly, "one set wakes all"},
    Guard{mutant::kEventEnqueuesParking, "event wakes one"},
    Guard{mutant::kClaimIgnoresVerdict, "one winner"},
    Guard{mutant::kDataAfterWake, "event wakes one"},
    Guard{mutant::kJoinTouchedAfterRelease, "join one child"},
    Guard{mutant::kJoinStateApartFromCount, "join one child"},
    Guard{mutant::kThreadWokenWithoutWord, "thread waits for thread"},
    Guard{mutant::kThreadSleepsWithoutCompare, "thread waits for thread"},
    Guard{mutant::kRecycledTicketRestarts, "stale ticket is refused"},
    Guard{mutant::kUnlockForgetsSleeper, "two threads lock"},
    Guard{mutant::kUnlockRelaxed, "two threads lock"},
    Guard{mutant::kNudgeClearedTooLate, "two nudges"},
    Guard{mutant::kGateEntersUnfenced, "gate, insistent visitor"},
    Guard{mutant::kGateForcedUnfenced, "gate, insistent visitor"},
    Guard{mutant::kInjectorTurnRelaxed, "injector, one each"},
    Guard{mutant::kSleepAnnouncedUnfenced, "injection is not slept through"},
    Guard{mutant::kInjectionUnfenced, "injection is not slept through"},
    Guard{mutant::kWatchSleepsRegardless, "watch is roused"},
    Guard{mutant::kCancellingByPlainStore, "last child cancels"},
    Guard{mutant::kClosingCannotBeCancelled, "cancel against close"},
    Guard{mutant::kRefusedStaysCounted, "cancel against sibling's spawn"},
    Guard{mutant::kRefusedChildStays, "cancel against sibling's spawn"},
    Guard{mutant::kCancelledJoinReturns, "race against a waiter"},
    Guard{mutant::kPlaceGivenTwice, "place is handed over"},
    Guard{mutant::kPlaceGivenToNobody, "place against cancel"},
    Guard{mutant::kGraceStaysArmed, "grace against the end"},
    Guard{mutant::kDeadlineStaysArmed, "deadline against disarm"},
    Guard{mutant::kAlarmStaysArmed, "alarm against cancel"},
    Guard{mutant::kSettledBeforeResult, "get against completion"},
    Guard{mutant::kFutureKeepsDeadScope, "future outlives its nursery"},
    Guard{mutant::kInPlaceUnderForeignScope, "future in a scope within"},
    Guard{mutant::kAbandonedUntold, "future is dropped with its result"},
    Guard{mutant::kRaceDecidedApart, "race of two"},
    Guard{mutant::kRaceLoserRuns, "race against a waiter"},
    Guard{mutant::kGraceOutlivesTheEnd, "grace against the end state"},
    Guard{mutant::kTokenUnattached, "stop token is told"},
    Guard{mutant::kStopHookUnkept, "stop token against cancel"},
    Guard{mutant::kTokenLeftUntold, "stop token against cancel"},
    Guard{mutant::kEmptyIgnoresOverflow, "injector's overflow is seen"},
    Guard{mutant::kToldOnceIsEnough, "both reasons are seen"},
    Guard{mutant::kRollsMadeApart, "rolls race a cancel"},
    Guard{mutant::kValueMovedUnlocked, "rendezvous"},
    Guard{mutant::kPublishIgnoresClosed, "close against a select"},
    Guard{mutant::kPublishIgnoresPeer, "two selects meet"},
    Guard{mutant::kSelectMeetsItself, "select and a stranger"},
    Guard{mutant::kCloseWakesNobody, "close against a parking receiver"},
    Guard{mutant::kCloseEndsSenders, "close keeps the parked"},
    Guard{mutant::kHangUpLeavesSenders, "last receiver against a send"},
    Guard{mutant::kHangUpDiscardsFirst, "last receiver against the buffer"},
    Guard{mutant::kAbortLeavesSenders, "abort against a send"},
    Guard{mutant::kOneshotLeavesReceivers, "oneshot, two receivers"},
    Guard{mutant::kBufferBeforeReceiver, "thread sends to the buffer"},
    Guard{mutant::kTakeForgetsSender, "buffered hand-over"},
    Guard{mutant::kRefillLeftBehind, "buffered hand-over"},
    Guard{mutant::kFusedLinkApart, "rendezvous"},
    Guard{mutant::kFusedWinnerSkipsLock, "rendezvous"},
    Guard{mutant::kFusedLoserStaysLinked, "cancel against a recv"},
    Guard{mutant::kReleaseRelaxed, "both ends go"},
    Guard{mutant::kGoneBeforeHangUp, "receivers' end is seen"},
    Guard{mutant::kMutexReleasesRelaxed, "mutex guards data"},
    Guard{mutant::kWaiterUnannounced, "mutex guards data"},
    Guard{mutant::kMutexFreedUnderLock, "mutex dies after its waiter gave up"},
    Guard{mutant::kMutexGivenToNobody, "cancel against unlock"},
    Guard{mutant::kMutexDropsTheRest, "three want a mutex"},
    Guard{mutant::kWokenLockGivesUp, "woken lock is cancelled"},
    Guard{mutant::kPermitToNobody, "permit against cancel"},
    Guard{mutant::kPermitTwice, "permit is handed over"},
    Guard{mutant::kPermitOverlooked, "permit is handed over"},
    Guard{mutant::kCondVarUnlocksFirst, "notification against wait"},
    Guard{mutant::kQueueHeadUnserved, "writer gives up"},
    Guard{mutant::kTurnToNobody, "turn against cancel"},
    Guard{mutant::kArrivalStays, "arrival against cancel"},
    Guard{mutant::kNewsUntold, "send against a parking subscriber"},
    Guard{mutant::kNewsOverlooked, "send against a subscriber's select"},
    Guard{mutant::kFeedEndUntold, "close against a parking subscriber"},
    Guard{mutant::kFeedEndOverlooked, "close against a subscriber's select"},
    Guard{mutant::kSubscriberCountedLate, "subscribe against a send"},
    Guard{mutant::kNoteHeldLate, "lag against a recv"},
    Guard{mutant::kNoteDroppedRelaxed, "lag against a recv"},
    Guard{mutant::kLagUnnoticed, "lag against a recv"},
    Guard{mutant::kRingEmptiedLate, "last subscriber against a send"},
    Guard{mutant::kUpdatesMeet, "two updates"},
    Guard{mutant::kTwoAdvance, "results in order"},
    Guard{mutant::kAdvanceLooksOnce, "results in order"},
    Guard{mutant::kEndBeforeLastResult, "close against the last result"},
    Guard{mutant::kCloseLeavesSubmitters, "close against a submitter"},
    Guard{mutant::kPlaceBeforeResource, "lease is discarded"},
    Guard{mutant::kIdleAfterClose, "lease against close"},
    Guard{mutant::kCallCountedLate, "call against a thread that lies down"},
    Guard{mutant::kWithdrawnStaysQueued, "call is withdrawn"},
    Guard{mutant::kStopUncounted, "stop against the end"},
    Guard{mutant::kStoppingAdmits, "stop against a post"},
    Guard{mutant::kOpenBeforeStart, "post against a start that fails"},
    Guard{mutant::kPushToTheGone, "senders race the close"},
    Guard{mutant::kGoneWithoutALook, "senders race the close"},
    Guard{mutant::kRetiresWithTheWatch, "retires with the watch"},
    Guard{mutant::kRetiresUncounted, "retires when called"},
    Guard{mutant::kBellUnfenced, "watcher is roused"},
    Guard{mutant::kNewcomerUnlisted, "newcomer is told of the end"},
    Guard{mutant::kEndUnfenced, "newcomer is told of the end"},
    Guard{mutant::kFiringUnannounced, "last timer is fired"},
    Guard{mutant::kReadyUnseenAtPublish, "ready while it drains"},
    Guard{mutant::kLastUserTellsNobody, "closed while in use"},
    Guard{mutant::kRousesTheWrongBed, "roused in bed"},
    Guard{mutant::kCountedThoughClosed, "closed while in use"},
    Guard{mutant::kCallLeftToTheKernel, "call is asked back"},
    Guard{mutant::kLateAnswerDropped, "call is asked back"},
    Guard{mutant::kCallTakenAfterClose, "call is closed as it is handed over"},
    Guard{mutant::kLastWordOverlooked, "call is asked back"},
    Guard{mutant::kCancelHintsLate, "call is answered, its wait cancelled, and the next one"},
    Guard{mutant::kCancelLooksRelaxed, "cancel reaches a wait"},
    Guard{mutant::kOwnerUntold, "owner goes on with a child"},
    Guard{mutant::kCrowdWokenInPart, "rolls race a cancel"},
    Guard{mutant::kFavouredEntersUnfenced, "a favour ends"},
    Guard{mutant::kFavourEndsUnfenced, "a favour ends"},
    Guard{mutant::kFavourUnchecked, "a favour ends"},
    Guard{mutant::kFavouredNotAwaited, "a favour ends"},
    Guard{mutant::kFavouredLeavesRelaxed, "a favour ends"},
    Guard{mutant::kSeatTakenRelaxed, "from lock to lock"},
};
static_assert(kGuards.size() == mutant::kMutants.size(), "each mutant has its guard");

constexpr SchedulerModel kLockModels[] = {
    {{"two threads lock", adders<ModelSync, 2, 1>}, 0, kBackOffRounds},
    {{"two threads lock, kept", adders<ModelSync, 2, 1, KeptLock>}, 0, kBackOffRounds},
    {{"a favour ends", favoured_adders<ModelSync, 2, 4>}},
    {{"from lock to lock", from_lock_to_lock<ModelSync>}}};

template <class Model>
std::optional<SchedulerModel> find(std::span<const Model> models, const char* name) {
  for (const Model& model : models)
    if (std::strcmp(model.name, name) == 0) return SchedulerModel{model};
  return std::nullopt;
}

std::optional<SchedulerModel> find(const char* name) {
  if (const auto found = find(core_models(), name)) return found;
  if (const auto found = find(scheduler_models(), name)) return found;
  if (const auto found = find(elastic_models(), name)) return found;
  if (const auto found = find(structure_models(), name)) return found;
  if (const auto found = find(lock_models(), name)) return found;
  if (const auto found = find(flow_models(), name)) return found;
  if (const auto found = find(feed_models(), name)) return found;
  if (const auto found = find(pool_models(), name)) return found;
  if (const auto found = find(io_models(), name)) return found;
  return find(std::span<const SchedulerModel>{kLockModels}, name);
}

class Mutants : public ::testing::TestWithParam<Guard> {
 protected:
  ~Mutants() override { mutant::active = 0; }
};

TEST_P(Mutants, IsNoticed) {
  const Guard& guard = GetParam();
  const auto model = find(guard.model);
  ASSERT_TRUE(model) << "no model is called \"" << guard.model << '"';
  mutant::active = guard.mutant.id;
  const Result result = explore({.name = model->name,
                                 .mode = model->mode,
                                 .bound = model->bound,
                                 .max_seconds = 600,
                                 .eager_spins = model->eager_spins,
                                 .minimise = false},
                                model->setup);
  EXPECT_TRUE(result.failed) << '"' << model->name << "\" does not notice: "
                             << mutant_of(guard).change;
  EXPECT_NE(result.kind, Failure::limit) << result.report;
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, ::testing::ValuesIn(kGuards), [](const auto& test) {
  return std::string{mutant_of(test.param).name};
});

}  // namespace
}  // namespace weft::model
