// Steps, each through the suite, and what is their own.
#include "stream/stage_suite.hpp"

namespace weft::testing {
namespace {

using Items = std::vector<Item>;

bool even(const Item& v) { return v.n % 2 == 0; }
Item plus_one(const Item& v) { return Item{v.n + 1}; }
Items only_even(Items in) {
  std::erase_if(in, [](const Item& v) { return !even(v); });
  return in;
}
Items all_plus(Items in, int add) {
  for (Item& v : in) v.n += add;
  return in;
}
const auto boom = [](const Item&) -> Item { throw Boom{}; };
const auto boom_if = [](const Item&) -> bool { throw Boom{}; };

INSTANTIATE_TEST_SUITE_P(
    Steps, StageTest,
    ::testing::Values(
        stage_case("map", [] { return map(plus_one); }, [](Items in) { return all_plus(in, 1); })
            .throwing([] { return map(boom); }),
        stage_case("where", [] { return where(even); }, only_even)
            .throwing([] { return where(boom_if); }),
        stage_case("take", [] { return take(2); },
                   [](Items in) {
                     in.resize(std::min<std::size_t>(in.size(), 2));
                     return in;
                   })
            .ends_early(),
        stage_case("where+map+map", [] { return where(even) | map(plus_one) | map(plus_one); },
                   [](Items in) { return all_plus(only_even(std::move(in)), 2); })
            .throwing([] { return where(even) | map(plus_one) | map(boom); }),
        stage_case("buffer", [] { return map(plus_one) | buffer(3) | map(plus_one); },
                   [](Items in) { return all_plus(in, 2); })),
    case_name);

}  // namespace
}  // namespace weft::testing
