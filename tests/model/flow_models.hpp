// The models of channels and select, by name. As in core_models.hpp, one list serves the models and
// the mutants.
#pragma once

#include "core_models.hpp"

#include <span>

namespace weft::model {

std::span<const CoreModel> flow_models();

}  // namespace weft::model
