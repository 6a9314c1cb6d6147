// The sampling searches: random walks, and PCT (probabilistic concurrency testing), which gives the
// threads random priorities and changes one of them at each of depth - 1 random moments.
#include <algorithm>
#include <array>
#include <vector>

#include "explorer/search.hpp"

namespace weft::model {
namespace {

// xorshift64*: small, and the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed * 0x9E3779B97F4A7C15ULL | 1) {}
  std::uint32_t below(std::uint32_t limit) noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const std::uint64_t high = (state_ * 0x2545F4914F6CDD1DULL) >> 32;
    return static_cast<std::uint32_t>((high * limit) >> 32);
  }

 private:
  std::uint64_t state_;
};

// Half of the time the tame choice: stale reads all over would hide bugs that need a single one.
unsigned sample_value(Random& random, unsigned count) noexcept {
  return random.below(2) == 0 ? 0 : random.below(count);
}

class RandomSearch final : public Search {
 public:
  explicit RandomSearch(std::uint64_t seed) : random_(seed) {}

  void begin() override {}
  ThreadId pick_thread(ThreadSet enabled, ThreadId) override {
    auto skip = random_.below(static_cast<std::uint32_t>(__builtin_popcount(enabled)));
    while (skip-- > 0) enabled &= enabled - 1;
    return lowest(enabled);
  }
  unsigned pick_value(unsigned count) override { return sample_value(random_, count); }
  bool next() override { return true; }

 private:
  Random random_;
};

class PctSearch final : public Search {
 public:
  PctSearch(unsigned depth, std::uint64_t seed)
      : random_(seed), changes_(depth > 0 ? depth - 1 : 0) {}

  void begin() override {
    longest_ = std::max(longest_, steps_);
    steps_ = 0;
    lowest_given_ = 0;
    for (unsigned i = 0; i < kMaxThreads; ++i) {
      const unsigned at = random_.below(i + 1);
      priority_[i] = priority_[at];
      priority_[at] = static_cast<int>(i) + 1;
    }
    for (unsigned& change : changes_) change = random_.below(longest_);
  }

  ThreadId pick_thread(ThreadSet enabled, ThreadId) override {
    for (const unsigned change : changes_)
      if (change == steps_) yielded(highest(enabled));
    ++steps_;
    return highest(enabled);
  }

  unsigned pick_value(unsigned count) override { return sample_value(random_, count); }

  // A thread that spins must not starve the one it waits for.
  void yielded(ThreadId thread) override { priority_[thread] = --lowest_given_; }

  bool next() override { return true; }

 private:
  [[nodiscard]] ThreadId highest(ThreadSet enabled) const noexcept {
    ThreadId best = lowest(enabled);
    for (ThreadId t = 0; t < kMaxThreads; ++t)
      if (has(enabled, t) && priority_[t] > priority_[best]) best = t;
    return best;
  }

  Random random_;
  std::vector<unsigned> changes_;  // the steps at which the running thread drops to the bottom
  std::array<int, kMaxThreads> priority_{};
  int lowest_given_ = 0;
  unsigned steps_ = 0;
  unsigned longest_ = 16;  // the best guess of an execution's length so far
};

}  // namespace

std::unique_ptr<Search> random_search(std::uint64_t seed) {
  return std::make_unique<RandomSearch>(seed);
}

std::unique_ptr<Search> pct_search(unsigned depth, std::uint64_t seed) {
  return std::make_unique<PctSearch>(depth, seed);
}

}  // namespace weft::model
