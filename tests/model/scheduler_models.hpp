// The models of the scheduler's protocols, by name: gate, inbox, injector, idling, timers, and
// fibers that are stolen. As in core_models.hpp, one list serves the models and the mutants.
#pragma once

#include "core_models.hpp"

#include <span>

namespace weft::model {

struct SchedulerModel : CoreModel {
  unsigned samples = 0;      // at random, beyond the bound: for what is too large to search
  unsigned eager_spins = 0;  // rounds of a back-off loop, where the model must get past it
};

std::span<const SchedulerModel> scheduler_models();
std::span<const SchedulerModel> elastic_models();  // workers that come and go

}  // namespace weft::model
