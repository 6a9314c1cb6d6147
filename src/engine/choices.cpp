// The text form is "w1:<seed>:<choices>": the format's version, the seed in hexadecimal, with a "p"
// behind it if operations that need not wait are points of choice as well, and the choices in
// decimal with dots between, a run of equal ones as <choice>x<length>. A "*" as the last one: from
// there on the calm choice, 0, always; without it the seed decides. The seed stands for the
// program's random numbers as well.
#include "choices.hpp"

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

Plan Choices::parse(std::string_view text) {
  Plan plan;
  std::string_view rest = text;
  if (!rest.starts_with(kPrefix)) refuse(text, "it does not begin with \"w1:\"");
  rest.remove_prefix(kPrefix.size());
  plan.seed = read_number<std::uint64_t>(text, rest, 16);
  plan.preempt = skip(rest, 'p');
  if (!skip(rest, ':')) refuse(text, "no ':' after the seed");
  while (!rest.empty()) {
    if (skip(rest, '*')) {
      plan.calm = true;
      if (!rest.empty()) refuse(text, "something after the '*'");
      return plan;
    }
    const auto choice = read_number<std::uint32_t>(text, rest, 10);
    const auto length = skip(rest, 'x') ? read_number<std::uint32_t>(text, rest, 10) : 1U;
    if (plan.places.size() + length > kPlacesMax) refuse(text, "it is too long");
    plan.places.insert(plan.places.end(), length, choice);
    const bool more = !rest.empty();
    if (more && (!skip(rest, '.') || rest.empty())) refuse(text, "no '.' between choices");
  }
  return plan;
}

std::string Plan::text() const {
  char seed_text[17];
  const auto end = std::to_chars(seed_text, seed_text + sizeof seed_text, seed, 16).ptr;
  std::string text{kPrefix};
  text.append(seed_text, end).append(preempt ? "p:" : ":");
  std::size_t length = places.size();
  while (calm && length > 0 && places[length - 1] == 0) --length;
  for (std::size_t i = 0; i < length;) {
    std::size_t run = 1;
    while (i + run < length && places[i + run] == places[i]) ++run;
    if (i != 0) text.push_back('.');
    text += std::to_string(places[i]);
    if (run > 1) text += 'x' + std::to_string(run);
    i += run;
  }
  if (calm) text += length > 0 ? ".*" : "*";
  return text;
}

void Choices::begin() noexcept {
  choices_ = SplitMix{plan_.seed};
  // Elsewhere on the generator's one cycle, or else the numbers would foretell the choices.
  numbers_ = SplitMix{SplitMix::mixed(plan_.seed + 1) ^ 0x5bf0'3635'd1f5'2b67U};
}

std::uint64_t Choices::random() noexcept {
  const std::uint64_t number = numbers_.next();
  note(number);
  return number;
}

void Choices::note(std::uint64_t fact) noexcept {
  for (int byte = 0; byte < 8; ++byte) {  // FNV-1a
    hash_ = (hash_ ^ (fact & 0xff)) * 1099511628211U;
    fact >>= 8;
  }
}

Plan Choices::as_made() const {
  Plan made{.seed = plan_.seed, .preempt = plan_.preempt, .calm = plan_.calm};
  made.places.reserve(made_.size());
  for (const Choice& choice : made_) made.places.push_back(choice.made);
  return made;
}

}  // namespace weft::engine
