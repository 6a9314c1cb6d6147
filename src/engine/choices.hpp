// Choices: the stream of decisions of a simulated run. Seeded, recorded, replayed.
//
// Candidates stand in a line, and a choice is a place in it. The first place is the calm choice:
// whoever runs goes on if it can, else who has waited longest does. So a schedule is calm but for
// the choices that are not 0, and the fewer there are, the easier it is to follow.
#pragma once

#include <weft/base/splitmix.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::engine {

// What the running fiber was about when a decision was due.
enum class Point : std::uint8_t {
  wait,     // it is no candidate
  yield,    // it is the last,
  preempt,  // or the first: it need not have come here
};

// One decision with more than one candidate.
struct Choice {
  std::uint32_t made = 0;
  std::uint32_t candidates = 0;
  Point point = Point::wait;

  // Who ran had to give way although it could have gone on.
  [[nodiscard]] bool preempts() const noexcept { return point == Point::preempt && made != 0; }
  // The fiber that gave way to the others goes on all the same.
  [[nodiscard]] bool insists() const noexcept {
    return point == Point::yield && made + 1 == candidates;
  }
};

// A schedule to follow: its text, taken apart.
struct Plan {
  std::uint64_t seed = 0;
  bool preempt = false;
  std::vector<std::uint32_t> places{};
  bool calm = false;  // behind them, the calm choice always; else the seed decides

  [[nodiscard]] std::string text() const;
};

class Choices {
 public:
  static constexpr std::size_t kPlacesMax = std::size_t{1} << 22;  // of a text: sixteen megabytes
  // Throws std::invalid_argument if `text` is not the text of a schedule.
  static Plan parse(std::string_view text);

  explicit Choices(Plan plan) : plan_(std::move(plan)) { begin(); }

  // One of `count` (at least 1): of the plan as long as it lasts and fits, else pick(). Only real
  // choices are recorded: one of one costs nothing.
  template <class Pick>
  std::size_t choose(std::size_t count, Point point, Pick pick) {
    ++steps_;
    if (count == 1) return 0;
    std::size_t place = pick();
    const std::size_t at = made_.size();
    if (at < plan_.places.size() && plan_.places[at] < count) {
      place = plan_.places[at];
    } else if (at < plan_.places.size() || plan_.calm) {
      misfit_ = misfit_ || at < plan_.places.size();
      if (plan_.calm) place = 0;
    }
    made_.push_back({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(count), point});
    return place;
  }
  // The same, where the seed picks.
  std::size_t choose(std::size_t count) {
    return choose(count, Point::wait, [&] { return any(count); });
  }
  // The seed's pick: each equally likely.
  std::size_t any(std::size_t count) noexcept {
    // Multiply and shift; its bias is below 2^-32 for any number of fibers a machine can hold.
    return static_cast<std::size_t>(((choices_.next() >> 32) * count) >> 32);
  }

  // The next of the numbers that the program sees. They are a stream of their own, a function of
  // the seed and nothing else: the text needs no record of them, and a program that asks for one
  // more is not scheduled otherwise.
  std::uint64_t random() noexcept;

  // Folds an observable fact of the run into the hash.
  void note(std::uint64_t fact) noexcept;

  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  [[nodiscard]] const std::vector<Choice>& made() const noexcept { return made_; }
  [[nodiscard]] bool misfit() const noexcept { return misfit_; }  // the plan named one not there
  [[nodiscard]] bool exhausted() const noexcept { return made_.size() >= plan_.places.size(); }
  [[nodiscard]] Plan as_made() const;
  [[nodiscard]] std::string text() const { return as_made().text(); }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  void begin() noexcept;

  Plan plan_;
  SplitMix choices_{0};
  SplitMix numbers_{0};
  std::uint64_t hash_ = 14695981039346656037U;
  std::uint64_t steps_ = 0;
  bool misfit_ = false;
  std::vector<Choice> made_;
};

}  // namespace weft::engine
