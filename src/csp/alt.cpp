#include <weft/csp/chanop.hpp>

#include <array>

namespace weft::csp::detail {
namespace {

constexpr std::size_t kFew = 16;

// `arms` and `places` have room for all of them.
int choose_with(std::span<Operation* const> operations, Choice choice, std::span<Waitable*> arms,
                std::span<std::size_t> places) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Waitable* const arm = operations[i] ? operations[i]->arm() : nullptr;
    if (!arm) continue;
    arms[count] = arm;
    places[count++] = i;
  }
  if (count == 0) return 0;
  const std::size_t place =
      places[weft::detail::select_among(arms.first(count), choice, nullptr)];
  return operations[place]->won() * static_cast<int>(place + 1);
}

}  // namespace

int choose(std::span<Operation* const> operations, Choice choice) {
  if (operations.size() <= kFew) {
    std::array<Waitable*, kFew> arms;
    std::array<std::size_t, kFew> places;
    return choose_with(operations, choice, arms, places);
  }
  std::vector<Waitable*> arms(operations.size());
  std::vector<std::size_t> places(operations.size());
  return choose_with(operations, choice, arms, places);
}

int choose(std::span<const action> list, Choice choice) {
  std::vector<Operation*> operations;
  operations.reserve(list.size());
  for (const action& kept : list) operations.push_back(Access::get(kept));
  return choose(operations, choice);
}

}  // namespace weft::csp::detail
