#include <weft/select.hpp>

#include <stdexcept>

namespace weft {
namespace detail {
namespace {

// 64 random bits, drawn again when they are used up.
class Dice {
 public:
  explicit Dice(Io& io) noexcept : io_(io) {}
  // Below `sides`, which is at most 1024: 16 bits for each throw, scaled.
  std::size_t roll(std::size_t sides) noexcept {
    if (left_ == 0) {
      bits_ = io_.random();
      left_ = 4;
    }
    const std::uint64_t sixteen = bits_ & 0xffff;
    bits_ >>= 16;
    --left_;
    return static_cast<std::size_t>((sixteen * sides) >> 16);
  }

 private:
  Io& io_;
  std::uint64_t bits_ = 0;
  unsigned left_ = 0;
};

}  // namespace

// Each order of the arms is as likely as any other, and the first that is ready wins: so each of
// those that are ready does as often as any other. wait() decides in one step, so that the order
// costs nothing but the shuffle.
std::size_t select_among(std::span<Waitable*> arms, Choice choice, Waitable* fallback) {
  constexpr std::size_t kMost = Verdict::kArmsMax;
  if (arms.size() > kMost) throw std::invalid_argument{"weft::select(): more than 1000 arms"};
  std::array<std::uint16_t, kMost> place;  // where each stood before; only as far as it is used
  for (std::size_t i = 0; i < arms.size(); ++i) place[i] = static_cast<std::uint16_t>(i);
  if (choice == Choice::fair && arms.size() > 1) {
    Dice dice{*Fiber::current().io};
    for (std::size_t i = arms.size(); i > 1; --i) {
      const std::size_t j = dice.roll(i);
      std::swap(arms[i - 1], arms[j]);
      std::swap(place[i - 1], place[j]);
    }
  }
  if (!fallback) return place[wait(arms)];
  checkpoint(Fiber::current());
  std::size_t otherwise = 0;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (arms[i] == fallback) otherwise = i;
    else if (arms[i]->try_complete()) return place[i];
  }
  return place[otherwise];
}

}  // namespace detail

std::size_t SelectSet::enabled() const noexcept {
  std::size_t count = 0;
  for (const auto& entry : entries_)
    if (entry && entry->enabled()) ++count;
  return count;
}

std::size_t SelectSet::wait(detail::Choice choice) {
  arms_.clear();
  indices_.clear();
  Waitable* fallback = nullptr;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Waitable* const arm = entries_[i] ? entries_[i]->arm() : nullptr;
    if (!arm) continue;
    if (dynamic_cast<Otherwise*>(arm)) fallback = arm;
    arms_.push_back(arm);
    indices_.push_back(i);
  }
  if (arms_.empty()) return npos;
  const std::size_t winner = indices_[detail::select_among(arms_, choice, fallback)];
  entries_[winner]->won();
  return winner;
}

}  // namespace weft
