// SplitMix64: a fixed, portable generator; those of the standard library differ between libraries.
#pragma once

#include <cstdint>

namespace weft {

class SplitMix {
 public:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

  explicit constexpr SplitMix(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept { return mixed(state_ += kStep); }

  // The number that belongs to a state. States are kStep apart, so several threads may share one
  // counter.
  static constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace weft
