// Priorities: probabilistic concurrency testing. S. Burckhardt, P. Kothari, M. Musuvathi,
// S. Nagarakatte: "A randomized scheduler with probabilistic guarantees of finding bugs",
// ASPLOS 2010.
//
// Who can run and has the highest priority runs. Fibers get theirs at random when they are born; at
// depth - 1 steps, chosen at random, whoever is about to run falls behind all others. A fault that
// takes `depth` orderings among n fibers and k steps is met by one run with a probability of at
// least 1 / (n * k^(depth - 1)), however many schedules there are.
//
// Against the paper: a fiber that yields falls behind as well. It says that it waits for others,
// and by its priority it would wait for ever. And who falls later falls below who fell before.
#pragma once

#include <weft/base/splitmix.hpp>
#include <weft/core/fiber.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::engine {

class Priorities {
 public:
  Priorities(std::uint64_t seed, unsigned depth, std::uint64_t length)
      : random_(SplitMix::mixed(seed + 2) ^ 0x9c63'71c8'06bb'17d5U) {
    for (unsigned i = 1; i < depth; ++i)
      changes_.push_back(random_.next() % std::max<std::uint64_t>(length, 1));
    std::sort(changes_.begin(), changes_.end());
  }

  // The place of the best of `count` candidates, at(place), at step number `step`.
  template <class At>
  std::size_t best(std::size_t count, At at, std::uint64_t step) {
    for (;;) {
      std::size_t found = 0;
      for (std::size_t place = 1; place < count; ++place)
        if (of(at(place)) > of(at(found))) found = place;
      if (next_change_ == changes_.size() || changes_[next_change_] > step) return found;
      ++next_change_;
      fall_behind(at(found));
    }
  }
  void fall_behind(const Fiber& fiber) {
    static_cast<void>(of(fiber));
    of_[fiber.id] = --lowest_;
  }

 private:
  // Fibers are numbered from 1 on.
  std::uint64_t of(const Fiber& fiber) {
    const FiberId id = fiber.id;
    while (of_.size() <= id) of_.push_back(kLowest + (random_.next() >> 1));
    return of_[id];
  }

  static constexpr std::uint64_t kLowest = std::uint64_t{1} << 62;

  SplitMix random_;
  std::vector<std::uint64_t> changes_;  // steps, in order
  std::size_t next_change_ = 0;
  std::vector<std::uint64_t> of_;       // by id
  std::uint64_t lowest_ = kLowest;
};

}  // namespace weft::engine
