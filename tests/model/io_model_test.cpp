// Explores every model of calls that the kernel makes.
#include "io_models.hpp"
#include "model_suite.hpp"

#include <gtest/gtest.h>

namespace weft::model {
namespace {

class IoModels : public ::testing::TestWithParam<CoreModel> {};

TEST_P(IoModels, HoldInEveryExecution) { expect_holds(GetParam(), bound_here(GetParam())); }

INSTANTIATE_TEST_SUITE_P(All, IoModels, ::testing::ValuesIn(chosen(io_models())), name_of);

}  // namespace
}  // namespace weft::model
