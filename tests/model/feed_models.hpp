// The models of broadcast and watch, by name. As in core_models.hpp, one list serves the models and
// the mutants.
#pragma once

#include "core_models.hpp"

#include <span>

namespace weft::model {

std::span<const CoreModel> feed_models();

}  // namespace weft::model
