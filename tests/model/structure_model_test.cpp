// Explores every model of nurseries, scopes and futures. Each prints executions and how far it got.
#include "structure_models.hpp"
#include "model_suite.hpp"

#include "explorer/expect.hpp"

#include <weft/base/sync.hpp>

#include <gtest/gtest.h>

namespace weft::model {
namespace {

class StructureModels : public ::testing::TestWithParam<CoreModel> {};

TEST_P(StructureModels, HoldInEveryExecution) { expect_holds(GetParam(), bound_here(GetParam())); }

INSTANTIATE_TEST_SUITE_P(All, StructureModels, ::testing::ValuesIn(chosen(structure_models())),
                         name_of);

// What the code under test allocates is watched (model_heap.cpp).
struct Parcel {
  Var<int> content{1};
};

void hand_over(Program& p, bool by_last, bool to_nobody) {
  struct State {
    Atomic<int> left{2};
  };
  auto& s = p.make<State>();
  const auto* const parcel = new Parcel;
  for (const char* who : {"one", "two"})
    p.thread(who, [&s, parcel, by_last, to_nobody] {
      static_cast<void>(parcel->content.read());
      const bool last = s.left.fetch_sub(1, std::memory_order_acq_rel) == 1;
      if (last == by_last && !to_nobody) delete parcel;
    });
}

TEST(ModelHeap, LeaksAndLateUsesAreNoticed) {
  const Result good = explore({.name = "deleted by the last"},
                              [](Program& p) { hand_over(p, true, false); });
  EXPECT_FALSE(good.failed) << good.report;
  EXPECT_TRUE(expect_bug({.name = "deleted by the first"},
                         [](Program& p) { hand_over(p, false, false); }, Failure::use_after_free));
  EXPECT_TRUE(expect_bug({.name = "deleted by nobody"},
                         [](Program& p) { hand_over(p, true, true); }, Failure::leak));
}

}  // namespace
}  // namespace weft::model
