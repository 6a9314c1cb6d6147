// The models of calls that the kernel makes, by name. As in core_models.hpp, one list serves the
// models and the mutants.
#pragma once

#include "core_models.hpp"

#include <span>

namespace weft::model {

std::span<const CoreModel> io_models();

}  // namespace weft::model
