// The text form is "w1:<seed>:<choices>": the format's version, the seed in hexadecimal, and the
// choices in decimal with dots between, a run of equal ones as <choice>x<length>. The seed
// stands for the program's random numbers as well.
#include "schedule.hpp"

#include <charconv>
#include <stdexcept>

namespace weft::engine {
namespace {

constexpr std::string_view kPrefix = "w1:";

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw std::invalid_argument{"weft: not a schedule (" + std::string{why} + "): \"" +
                              std::string{text.substr(0, 60)} + '"'};
}

template <class Number>
Number read_number(std::string_view whole, std::string_view& rest, int base) {
  Number value{};
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  if (error != std::errc{}) refuse(whole, "a number is missing or too large");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

bool skip(std::string_view& rest, char expected) {
  if (rest.empty() || rest.front() != expected) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

void Schedule::begin(std::uint64_t seed) noexcept {
  seed_ = seed;
  choices_ = SplitMix{seed};
  // Elsewhere on the generator's one cycle, or else the numbers would foretell the choices.
  numbers_ = SplitMix{SplitMix::mixed(seed + 1) ^ 0x5bf0'3635'd1f5'2b67U};
}

Schedule::Schedule(std::uint64_t seed, std::string_view replay) {
  begin(seed);
  if (replay.empty()) return;
  std::string_view rest = replay;
  if (!rest.starts_with(kPrefix)) refuse(replay, "it does not begin with \"w1:\"");
  rest.remove_prefix(kPrefix.size());
  begin(read_number<std::uint64_t>(replay, rest, 16));
  if (!skip(rest, ':')) refuse(replay, "no ':' after the seed");
  constexpr std::size_t kChoicesMax = std::size_t{1} << 22;  // sixteen megabytes
  while (!rest.empty()) {
    const auto choice = read_number<std::uint32_t>(replay, rest, 10);
    const auto length = skip(rest, 'x') ? read_number<std::uint32_t>(replay, rest, 10) : 1U;
    if (replay_.size() + length > kChoicesMax) refuse(replay, "it is too long");
    replay_.insert(replay_.end(), length, choice);
    const bool more = !rest.empty();
    if (more && (!skip(rest, '.') || rest.empty())) refuse(replay, "no '.' between choices");
  }
}

std::uint64_t Schedule::random() noexcept {
  const std::uint64_t number = numbers_.next();
  note(number);
  return number;
}

std::size_t Schedule::choose(std::size_t count) {
  ++steps_;
  if (count == 1) return 0;
  // Multiply and shift; its bias is below 2^-32 for any number of fibers a machine can hold.
  auto choice = static_cast<std::uint32_t>(((choices_.next() >> 32) * count) >> 32);
  if (made_.size() < replay_.size() && replay_[made_.size()] < count)
    choice = replay_[made_.size()];
  made_.push_back(choice);
  return choice;
}

void Schedule::note(std::uint64_t fact) noexcept {
  for (int byte = 0; byte < 8; ++byte) {  // FNV-1a
    hash_ = (hash_ ^ (fact & 0xff)) * 1099511628211U;
    fact >>= 8;
  }
}

std::string Schedule::text() const {
  char seed[17];
  const auto end = std::to_chars(seed, seed + sizeof seed, seed_, 16).ptr;
  std::string text{kPrefix};
  text.append(seed, end).push_back(':');
  for (std::size_t i = 0; i < made_.size();) {
    std::size_t run = 1;
    while (i + run < made_.size() && made_[i + run] == made_[i]) ++run;
    if (i != 0) text.push_back('.');
    text += std::to_string(made_[i]);
    if (run > 1) text += 'x' + std::to_string(run);
    i += run;
  }
  return text;
}

}  // namespace weft::engine
