// EventLog: the last events of a simulated run, as lines for a person to read.
#pragma once

#include <weft/core/describe.hpp>
#include <weft/core/fiber.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weft::engine {

// "#3 \"reader\"", or "#3".
std::string label(const Fiber& fiber);

class EventLog {
 public:
  explicit EventLog(std::size_t lines) noexcept : lines_max_(lines) {}

  explicit operator bool() const noexcept { return lines_max_ != 0; }

  // `who` null: the world.
  void add(std::uint64_t step, Instant now, const Fiber* who, std::string_view what);
  void spawns(std::uint64_t step, Instant now, const Fiber& parent, const Fiber& child);
  void wakes(std::uint64_t step, Instant now, const Fiber& waker, const Fiber& woken);
  // Says in which of the program's functions, as far as its symbols tell.
  void is_preempted(std::uint64_t step, Instant now, const Fiber& running);
  void waits(std::uint64_t step, Instant now, const Fiber& parking);
  void time_passes(std::uint64_t step, Instant now, Duration length);
  // The last word: how everybody unwinds after that is of no interest.
  void end(std::uint64_t step, Instant now, std::string_view why);

  [[nodiscard]] std::string text() const;

 private:
  std::string innermost_user_function();

  const std::size_t lines_max_;
  bool ended_ = false;
  std::uint64_t left_out_ = 0;
  std::deque<std::string> lines_;
  std::unordered_map<const void*, std::string> functions_;  // by return address
  Words words_{Instant{}, Duration::zero()};
};

}  // namespace weft::engine
