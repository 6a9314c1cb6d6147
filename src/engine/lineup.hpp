// Lineup: the fibers of a simulation that can run, who has waited longest first.
//
// Anyone may be taken out, and the others keep their order. The shorter side moves up, so that the
// first and the last go in constant time; ten thousand fibers are a few pages.
#pragma once

#include "local_queue.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace weft::engine {

class Lineup {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == line_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return line_.size() - first_; }
  [[nodiscard]] Fiber& at(std::size_t place) const noexcept { return *line_[first_ + place]; }
  [[nodiscard]] std::span<Fiber* const> all() const noexcept {
    return std::span{line_}.subspan(first_);
  }

  void push_back(Fiber& fiber) {
    if (first_ > 64 && first_ > size()) make_room();
    line_.push_back(&queued(fiber));
  }

  Fiber& take(std::size_t place) noexcept {
    const auto begin = line_.begin() + static_cast<std::ptrdiff_t>(first_);
    const auto found = begin + static_cast<std::ptrdiff_t>(place);
    Fiber& fiber = queued(**found);
    if (place < size() / 2) {
      std::move_backward(begin, found, found + 1);
      ++first_;
    } else {
      line_.erase(found);
    }
    return fiber;
  }

 private:
  void make_room() noexcept {
    line_.erase(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

  std::vector<Fiber*> line_;
  std::size_t first_ = 0;  // those before it have been taken
};

}  // namespace weft::engine
