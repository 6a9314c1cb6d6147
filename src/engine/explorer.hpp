// Explorer: one run after another under schedules of its choosing, and what came of each.
#pragma once

#include "choices.hpp"

#include <weft/arch/overflow.hpp>
#include <weft/arch/stack.hpp>
#include <weft/explore.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace weft::engine {

class Explorer {
 public:
  Explorer(const ExploreOptions& options, const std::function<void()>& f);

  Report all();
  // The schedule alone, with all its events.
  Report only(const std::string& schedule);

 private:
  // One run. `wrong` empty: nothing.
  struct Outcome {
    std::optional<Failure::Kind> wrong;
    std::string what;
    Choices::Plan plan;  // as made
    std::vector<Choice> made;
    std::uint64_t hash = 0;
    std::uint64_t steps = 0;
    std::string log;

    [[nodiscard]] bool same_failure_as(const Outcome& other) const;
    [[nodiscard]] std::size_t switches() const;
    [[nodiscard]] std::size_t preemptions() const;
  };

  Outcome run(const SimOptions& options);
  Outcome run(Choices::Plan plan, std::size_t log_events = 0);
  [[nodiscard]] SimOptions options_of(std::uint64_t seed) const;
  void check_twice(const SimOptions& options, Outcome& outcome);
  void count(const Outcome& outcome);
  Failure describe(Outcome found, std::uint64_t seed);
  Outcome smaller(Outcome found, std::uint64_t& runs);
  Outcome with_fewer_preemptions(Outcome found, std::uint64_t& runs);
  [[nodiscard]] std::string command_for(const std::string& schedule) const;
  void show_progress(bool last);

  const arch::OverflowHandler overflow_;  // those of the engines need not come and go,
  const arch::SignalStack signal_stack_;  // nor the stack it runs on
  const ExploreOptions& options_;
  const std::function<void()>& f_;
  const std::shared_ptr<arch::StackPool> stacks_;
  Report report_;
  Choices::Plan plan_;              // exhaustive: the next
  std::uint64_t length_ = 0;        // pct: steps of the longest run so far
  std::unordered_set<std::uint64_t> hashes_;
  Instant began_;
  Instant shown_;
  const bool shows_progress_;
};

}  // namespace weft::engine
