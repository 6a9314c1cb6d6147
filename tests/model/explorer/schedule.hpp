// Schedule: the decisions of one execution, as data and as a replay string.
//
// The string has a letter per step (a: thread 1, b: thread 2, ...) with a count if the thread steps
// several times in a row, and =N where a value other than the tame choice 0 was picked. "a3=1b" is
// three steps of thread 1, in the third of which choice 1 was taken, and one step of thread 2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explorer/search.hpp"

namespace weft::model {

struct Decision {
  bool is_thread;
  std::uint32_t chosen;

  friend bool operator==(const Decision&, const Decision&) = default;
};

using Schedule = std::vector<Decision>;

[[nodiscard]] std::string to_string(const Schedule& schedule);
[[nodiscard]] std::optional<Schedule> parse_schedule(std::string_view text);

// Follows a schedule, once. A schedule that does not fit ends in Failure::replay.
[[nodiscard]] std::unique_ptr<Search> replay_search(Schedule schedule);

}  // namespace weft::model
