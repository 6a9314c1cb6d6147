// Explores every model of channels, select, broadcast, watch, ordered tasks and pools. Each prints
// executions and how far it got.
#include "feed_models.hpp"
#include "flow_models.hpp"
#include "model_suite.hpp"
#include "pool_models.hpp"

#include <gtest/gtest.h>

namespace weft::model {
namespace {

class FlowModels : public ::testing::TestWithParam<CoreModel> {};

TEST_P(FlowModels, HoldInEveryExecution) { expect_holds(GetParam(), bound_here(GetParam())); }

INSTANTIATE_TEST_SUITE_P(All, FlowModels, ::testing::ValuesIn(chosen(flow_models())), name_of);
INSTANTIATE_TEST_SUITE_P(Feeds, FlowModels, ::testing::ValuesIn(chosen(feed_models())), name_of);
INSTANTIATE_TEST_SUITE_P(Pools, FlowModels, ::testing::ValuesIn(chosen(pool_models())), name_of);

}  // namespace
}  // namespace weft::model
