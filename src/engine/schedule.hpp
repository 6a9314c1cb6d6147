// Schedule: the stream of choices of a simulated run. Seeded, recorded, replayed.
#pragma once

#include <weft/base/splitmix.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::engine {

class Schedule {
 public:
  // Throws std::invalid_argument if `replay` is neither empty nor the text() of a schedule.
  Schedule(std::uint64_t seed, std::string_view replay);

  // One of `count` (at least 1). From the replayed schedule as long as it lasts and fits, then from
  // the seed. Only real choices are recorded: one of one costs nothing.
  std::size_t choose(std::size_t count);

  // The next of the numbers that the program sees. They are a stream of their own, a function of
  // the seed and nothing else: the text needs no record of them, and a program that asks for one
  // more is not scheduled otherwise.
  std::uint64_t random() noexcept;

  // Folds an observable fact of the run into the hash.
  void note(std::uint64_t fact) noexcept;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  void begin(std::uint64_t seed) noexcept;

  std::uint64_t seed_ = 0;
  SplitMix choices_{0};
  SplitMix numbers_{0};
  std::uint64_t hash_ = 14695981039346656037U;
  std::uint64_t steps_ = 0;
  std::vector<std::uint32_t> replay_;
  std::vector<std::uint32_t> made_;
};

}  // namespace weft::engine
