// Explores every model of the scheduler. Each prints executions and how far it got.
#include "scheduler_models.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::model {

void PrintTo(const SchedulerModel& model, std::ostream* out);  // for GoogleTest, by its name
void PrintTo(const SchedulerModel& model, std::ostream* out) { *out << model.name; }

namespace {

class SchedulerModels : public ::testing::TestWithParam<SchedulerModel> {};

TEST_P(SchedulerModels, HoldInEveryExecution) {
  const SchedulerModel& model = GetParam();
  const Result result = explore({.name = model.name,
                                 .mode = model.mode,
                                 .bound = model.bound,
                                 .max_seconds = 600,
                                 .eager_spins = model.eager_spins},
                                model.setup);
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete) << "only " << result.executions << " executions";
  EXPECT_TRUE(result.sleeps > 0 || model.eager_spins == 0) << "the back-off never ended";
}

class SampledModels : public ::testing::TestWithParam<SchedulerModel> {};

TEST_P(SampledModels, HoldInManyExecutions) {
  const SchedulerModel& model = GetParam();
  const unsigned factor = testing::long_budget() ? 50 : 1;
  const Result result = explore({.name = model.name,
                                 .mode = Mode::pct,
                                 .depth = 4,
                                 .max_executions = factor * model.samples,
                                 .max_seconds = 600},
                                model.setup);
  EXPECT_FALSE(result.failed) << result.report;
}

// Those that some bound makes small enough, and those that are (also) sampled.
std::vector<SchedulerModel> chosen_models(bool sampled) {
  std::vector<SchedulerModel> chosen;
  for (const auto models : {scheduler_models(), elastic_models()})
    for (const SchedulerModel& model : models)
      if (sampled ? model.samples != 0 : model.mode != Mode::pct) chosen.push_back(model);
  return chosen;
}

std::string test_name(const ::testing::TestParamInfo<SchedulerModel>& test) {
  std::string name;
  for (const char* c = test.param.name; *c; ++c)
    if (std::isalnum(static_cast<unsigned char>(*c))) name += *c;
  return name;
}

using ::testing::ValuesIn;
INSTANTIATE_TEST_SUITE_P(All, SchedulerModels, ValuesIn(chosen_models(false)), test_name);
INSTANTIATE_TEST_SUITE_P(All, SampledModels, ValuesIn(chosen_models(true)), test_name);

}  // namespace
}  // namespace weft::model
