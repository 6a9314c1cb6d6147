// Explores every model of the shipped protocols. Each prints executions and how far it got.
#include "core_models.hpp"

#include <weft/core/spec.hpp>

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::model {

void PrintTo(const CoreModel& model, std::ostream* out);  // for GoogleTest, found by its name
void PrintTo(const CoreModel& model, std::ostream* out) { *out << model.name; }

namespace {

class CoreModels : public ::testing::TestWithParam<CoreModel> {};

TEST_P(CoreModels, HoldInEveryExecution) {
  const CoreModel& model = GetParam();
  const Result result = explore({.name = model.name,
                                 .mode = model.mode,
                                 .bound = model.bound,
                                 .max_seconds = testing::long_budget() ? 600.0 : 40.0},
                                model.setup);
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete) << "only " << result.executions << " executions";
}

std::vector<CoreModel> chosen_models() {
  std::vector<CoreModel> chosen;
  for (const CoreModel& model : core_models())
    if (model.quick || !spec::kSpecAssert || testing::long_budget()) chosen.push_back(model);
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(All, CoreModels, ::testing::ValuesIn(chosen_models()),
                         [](const auto& test) {
                           std::string name;
                           for (const char* c = test.param.name; *c; ++c)
                             if (std::isalnum(static_cast<unsigned char>(*c))) name += *c;
                           return name;
                         });

}  // namespace
}  // namespace weft::model
