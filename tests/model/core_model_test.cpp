// Explores every model of the shipped protocols. Each prints executions and how far it got.
#include "core_models.hpp"
#include "model_suite.hpp"

#include <gtest/gtest.h>

namespace weft::model {
namespace {

class CoreModels : public ::testing::TestWithParam<CoreModel> {};

TEST_P(CoreModels, HoldInEveryExecution) { expect_holds(GetParam(), GetParam().bound); }

INSTANTIATE_TEST_SUITE_P(All, CoreModels, ::testing::ValuesIn(chosen(core_models())), name_of);

}  // namespace
}  // namespace weft::model
