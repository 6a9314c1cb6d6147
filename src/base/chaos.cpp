#include <weft/base/chaos.hpp>

#include <weft/base/sync.hpp>

#include <sched.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <system_error>

namespace weft::chaos {

#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT && !defined(WEFT_MODEL)

namespace detail {
namespace {

constinit Inspected<std::uint64_t> seed = 0;
constinit Atomic<std::uint64_t> steps{0};

// splitmix64 of the step's number: good enough to hesitate by.
std::uint64_t roll() noexcept {
  const std::uint64_t step = steps.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t z = seed + (step + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

}  // namespace

void hesitate() noexcept {
  const std::uint64_t roll_now = roll();
  if (roll_now % 4096 == 0) {
    const std::timespec briefly{0, 50'000};
    const Atomic<std::uint32_t> nobody_wakes{0};
    Sync::sleep(nobody_wakes, 0, &briefly);
  } else if (roll_now % 128 == 0) {
    ::sched_yield();
  } else if (roll_now % 8 == 0) {
    for (std::uint64_t i = roll_now / 8 % 64; i != 0; --i) Sync::spin();
  }
}

bool decide(std::uint32_t one_in) noexcept { return roll() % one_in == 0; }

}  // namespace detail

void load_environment() {
  static const bool on = [] {
    const char* const text = std::getenv("WEFT_CHAOS");
    if (!text || !*text) return false;
    const char* const end = text + std::strlen(text);
    std::uint64_t seed = 0;
    const auto [stopped, error] = std::from_chars(text, end, seed);
    if (error != std::errc{} || stopped != end)
      throw std::invalid_argument{"weft: WEFT_CHAOS is \"" + std::string{text} +
                                  "\", expected a seed: a whole number"};
    detail::seed = seed;
    detail::on = true;
    return true;
  }();
  static_cast<void>(on);
}

std::uint64_t steps_taken() noexcept { return detail::steps.load(std::memory_order_relaxed); }

#else

void load_environment() {}
std::uint64_t steps_taken() noexcept { return 0; }

#endif

}  // namespace weft::chaos
