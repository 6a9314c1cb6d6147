// The models of core, scope and engine protocols, by name. The same list serves the test that
// nothing is wrong and the test that each mutant is noticed.
#pragma once

#include "explorer/explore.hpp"

#include <span>

namespace weft::model {

struct CoreModel {
  const char* name;
  void (*setup)(Program&);
  bool quick = true;       // also with the checks of core/spec.hpp on, which add steps
  Mode mode = Mode::dpor;  // what can be searched completely is
  unsigned bound = 2;
};

std::span<const CoreModel> core_models();

}  // namespace weft::model
