// What the programs that explore a list of models have in common.
#pragma once

#include "core_models.hpp"

#include <weft/core/spec.hpp>

#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::model {

inline void PrintTo(const CoreModel& model, std::ostream* out) { *out << model.name; }

// With the checks on, which add steps: the quicker ones.
inline std::vector<CoreModel> chosen(std::span<const CoreModel> models) {
  std::vector<CoreModel> those;
  for (const CoreModel& model : models)
    if (model.quick || !spec::kSpecAssert || testing::long_budget()) those.push_back(model);
  return those;
}

// And with one pre-emption less.
inline unsigned bound_here(const CoreModel& model) {
  return model.bound + (testing::long_budget() ? 1U : 0U) - (spec::kSpecAssert ? 1U : 0U);
}

inline void expect_holds(const CoreModel& model, unsigned bound) {
  // Counted, not timed: a slow machine must come to the same.
  const Result result =
      explore({.name = model.name,
               .mode = model.mode,
               .bound = bound,
               .max_executions = testing::long_budget() ? 100'000'000U : 3'000'000U,
               .max_seconds = 600},
              model.setup);
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete) << "only " << result.executions << " executions";
}

inline std::string name_of(const ::testing::TestParamInfo<CoreModel>& test) {
  std::string name;
  for (const char* c = test.param.name; *c; ++c)
    if (std::isalnum(static_cast<unsigned char>(*c))) name += *c;
  return name;
}

}  // namespace weft::model
