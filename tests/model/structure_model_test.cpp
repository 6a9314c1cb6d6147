// Explores every model of nurseries, scopes and futures. Each prints executions and how far it got.
#include "structure_models.hpp"

#include "explorer/expect.hpp"

#include <weft/base/sync.hpp>
#include <weft/core/spec.hpp>

#include <gtest/gtest.h>

#include <cctype>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::model {

void PrintTo(const CoreModel& model, std::ostream* out);  // for GoogleTest, by its name
void PrintTo(const CoreModel& model, std::ostream* out) { *out << model.name; }

namespace {

class StructureModels : public ::testing::TestWithParam<CoreModel> {};

// With the checks on, which add steps: the quicker ones, with one pre-emption less.
TEST_P(StructureModels, HoldInEveryExecution) {
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
  for (const CoreModel& model : structure_models())
    if (model.quick || !spec::kSpecAssert || testing::long_budget()) chosen.push_back(model);
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(All, StructureModels, ::testing::ValuesIn(chosen_models()),
                         [](const auto& test) {
                           std::string name;
                           for (const char* c = test.param.name; *c; ++c)
                             if (std::isalnum(static_cast<unsigned char>(*c))) name += *c;
                           return name;
                         });

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
