// Explores every model of channels and select. Each prints executions and how far it got.
#include "flow_models.hpp"

#include <weft/base/sync.hpp>
#include <weft/core/spec.hpp>

#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <string>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::model {

void PrintTo(const CoreModel& model, std::ostream* out);  // for GoogleTest, by its name
void PrintTo(const CoreModel& model, std::ostream* out) { *out << model.name; }

namespace {

class FlowModels : public ::testing::TestWithParam<CoreModel> {};

// With the checks on, which add steps: the quicker ones, with one pre-emption less.
TEST_P(FlowModels, HoldInEveryExecution) {
  const CoreModel& model = GetParam();
  const unsigned more = testing::long_budget() ? 1 : 0;
  const unsigned less = spec::kSpecAssert ? 1 : 0;
  const Result result = explore({.name = model.name,
                                 .mode = model.mode,
                                 .bound = model.bound + more - less,
                                 .max_seconds = testing::long_budget() ? 600.0 : 40.0},
                                model.setup);
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete) << "only " << result.executions << " executions";
}

std::vector<CoreModel> chosen_models() {
  std::vector<CoreModel> chosen;
  for (const CoreModel& model : flow_models())
    if (model.quick || !spec::kSpecAssert || testing::long_budget()) chosen.push_back(model);
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(All, FlowModels, ::testing::ValuesIn(chosen_models()),
                         [](const auto& test) {
                           std::string name;
                           for (const char* c = test.param.name; *c; ++c)
                             if (std::isalnum(static_cast<unsigned char>(*c))) name += *c;
                           return name;
                         });

}  // namespace
}  // namespace weft::model
