// Explores every model of locks and friends. Each prints executions and how far it got.
#include "lock_models.hpp"
#include "model_suite.hpp"

#include <gtest/gtest.h>

namespace weft::model {
namespace {

class LockModels : public ::testing::TestWithParam<CoreModel> {};

TEST_P(LockModels, HoldInEveryExecution) { expect_holds(GetParam(), bound_here(GetParam())); }

INSTANTIATE_TEST_SUITE_P(All, LockModels, ::testing::ValuesIn(chosen(lock_models())), name_of);

}  // namespace
}  // namespace weft::model
