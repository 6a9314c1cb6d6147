// DecisionTree: the depth-first memory of the systematic searches.
//
// Executions cannot be rewound, so the branch taken is kept as a path of decisions; to try the next
// branch the program is run again along the path, and diverges at its last node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "explorer/limits.hpp"
#include "explorer/search.hpp"

namespace weft::model {

class DecisionTree {
 public:
  struct Node {
    bool is_schedule = false;
    std::uint32_t chosen = 0;  // a thread, or a value
    std::uint32_t count = 0;   // value: how many there are
    // Schedule only:
    ThreadSet enabled = 0;     // who could step
    ThreadSet to_explore = 0;  // who must be tried here; it may grow
    ThreadSet explored = 0;
    ThreadSet asleep = 0;  // who need not be tried here, nor later until something wakes them
  };

  // Back to the root, to follow the path.
  void begin() noexcept {
    position_ = 0;
    divergence_ = path_.size();
  }

  // Is the next decision prescribed?
  [[nodiscard]] bool on_path() const noexcept { return position_ < path_.size(); }
  // Has everything so far been executed before, exactly so?
  [[nodiscard]] bool repeating() const noexcept { return position_ < divergence_; }

  // The prescribed thread; kDiverged if a program that does not repeat itself cannot follow.
  [[nodiscard]] ThreadId follow_thread(ThreadSet enabled) noexcept {
    const Node& node = path_[position_++];
    if (!node.is_schedule || node.enabled != enabled) return kDiverged;
    return static_cast<ThreadId>(node.chosen);
  }
  // A new schedule decision, with `first` tried first.
  void grow(ThreadId first, ThreadSet enabled, ThreadSet to_explore, ThreadSet asleep) {
    ++position_;
    path_.push_back({.is_schedule = true,
                     .chosen = first,
                     .enabled = enabled,
                     .to_explore = to_explore,
                     .explored = bit(first),
                     .asleep = asleep});
  }
  unsigned pick_value(unsigned count) {
    if (on_path()) {
      const Node& node = path_[position_++];
      return !node.is_schedule && node.count == count ? node.chosen : kNoValue;
    }
    ++position_;
    return path_.emplace_back(Node{.count = count}).chosen;
  }

  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] Node& operator[](std::size_t at) noexcept { return path_[at]; }

  // Moves on to the next branch; false if there is none.
  bool next() noexcept {
    for (; !path_.empty(); path_.pop_back())
      if (advance(path_.back())) return true;
    return false;
  }

 private:
  static bool advance(Node& node) noexcept {
    if (!node.is_schedule) return ++node.chosen < node.count;
    const ThreadSet left = node.to_explore & ~node.explored & ~node.asleep;
    if (left == 0) return false;
    node.chosen = lowest(left);
    node.explored |= bit(node.chosen);
    return true;
  }

  std::vector<Node> path_;
  std::size_t position_ = 0;
  std::size_t divergence_ = 0;
};

}  // namespace weft::model
