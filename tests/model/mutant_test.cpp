// The checker is checked: this program is built once per mutant, with that one fault in the shipped
// code, and passes only if the model that guards against it fails.
#include "core_models.hpp"
#include "scheduler_models.hpp"

#include <weft/base/mutant.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace weft::model {
namespace {

struct Guard {
  int mutant;
  const char* model;
};

constexpr Guard kGuards[] = {
    {1, "two workers"},             // commit on its own stack
    {2, "event wakes one"},         // latch by plain store
    {3, "stale ticket is refused"},  // ticket not counted
    {4, "stale ticket is refused"},  // ticket checked apart
    {5, "two nudges"},              // nudge skipped if set
    {6, "cancel reaches a wait"},   // park ignores the nudge
    {7, "one of two arms"},         // last arm stays published
    {8, "one set wakes all"},       // only the first is woken
    {9, "event wakes one"},         // a parking fiber is enqueued
    {10, "one winner"},             // an earlier verdict is overwritten
    {11, "event wakes one"},        // data after the wake
    {12, "join one child"},         // nursery touched after its release
    {13, "join one child"},         // waiter bit and count read apart
    {14, "thread waits for thread"},  // woken before the word changed
    {15, "thread waits for thread"},  // sleeps without comparing
    {16, "stale ticket is refused"},  // recycled frame resets its ticket
    {19, "two nudges"},             // nudge cleared after the scopes were read
    {20, "gate, insistent visitor"},         // owner enters without its half of the fence
    {21, "gate, insistent visitor"},         // visitor insists without the other half
    {22, "injector, one each"},              // slot handed over by a relaxed store
    {23, "injection is not slept through"},  // sleeper announces itself and looks, no fence
    {24, "injection is not slept through"},  // injecting thread looks for sleepers, no fence
    {25, "watch is roused"},                 // watch sleeps for good although somebody runs
    {40, "injector's overflow is seen"},     // an empty ring is taken for an empty injector
    {41, "both reasons are seen"},           // a second nudge releases nothing
};

// A program has the models of core in it, or those of the scheduler.
auto models() {
  if constexpr (mutant::kActive >= 20) return scheduler_models();
  else return core_models();
}

TEST(Mutant, IsNoticed) {
  for (const Guard& guard : kGuards) {
    if (guard.mutant != mutant::kActive) continue;
    for (const CoreModel& model : models()) {
      if (std::strcmp(model.name, guard.model) != 0) continue;
      const Result result = explore({.name = model.name,
                                     .mode = model.mode,
                                     .bound = model.bound,
                                     .max_seconds = 60,
                                     .minimise = false},
                                    model.setup);
      EXPECT_TRUE(result.failed) << '"' << model.name << "\" does not notice mutant "
                                 << mutant::kActive;
      return;
    }
  }
  FAIL() << "no model is named for mutant " << mutant::kActive;
}

}  // namespace
}  // namespace weft::model
