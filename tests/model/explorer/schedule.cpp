#include "explorer/schedule.hpp"

#include <charconv>

namespace weft::model {
namespace {

constexpr char letter(std::uint32_t thread) noexcept {
  return static_cast<char>('a' + static_cast<char>(thread - 1));
}

class ReplaySearch final : public Search {
 public:
  explicit ReplaySearch(Schedule schedule) : schedule_(std::move(schedule)) {}

  void begin() override { at_ = 0; }

  // Past the end of the schedule the execution goes on as tamely as it can.
  ThreadId pick_thread(ThreadSet enabled, ThreadId last) override {
    if (at_ == schedule_.size())
      return last != kNoThread && has(enabled, last) ? last : lowest(enabled);
    const Decision decision = schedule_[at_++];
    if (!decision.is_thread || !has(enabled, decision.chosen)) return kDiverged;
    return static_cast<ThreadId>(decision.chosen);
  }

  unsigned pick_value(unsigned) override {
    if (at_ == schedule_.size() || schedule_[at_].is_thread) return 0;
    return schedule_[at_++].chosen;  // too large for this choice: the execution will say so
  }

  bool next() override { return false; }

 private:
  Schedule schedule_;
  std::size_t at_ = 0;
};

// The values picked within one step, without the zeros at its end.
std::size_t last_wild_choice(const Schedule& schedule, std::size_t from) {
  std::size_t end = from;
  for (std::size_t i = from; i < schedule.size() && !schedule[i].is_thread; ++i)
    if (schedule[i].chosen != 0) end = i + 1;
  return end;
}

}  // namespace

std::string to_string(const Schedule& schedule) {
  std::string text;
  std::uint32_t thread = 0;
  unsigned count = 0;
  const auto flush = [&] {
    if (count > 0) text += letter(thread);
    if (count > 1) text += std::to_string(count);
    count = 0;
  };
  for (std::size_t i = 0; i < schedule.size();) {
    if (schedule[i].is_thread) {
      if (schedule[i].chosen != thread) flush();
      thread = schedule[i++].chosen;
      ++count;
    }
    const std::size_t end = last_wild_choice(schedule, i);
    if (end > i) flush();
    for (; i < end; ++i) text += '=' + std::to_string(schedule[i].chosen);
    while (i < schedule.size() && !schedule[i].is_thread) ++i;
  }
  flush();
  return text;
}

std::optional<Schedule> parse_schedule(std::string_view text) {
  Schedule schedule;
  while (!text.empty()) {
    const char head = text.front();
    text.remove_prefix(1);
    std::uint32_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool has_number = error == std::errc{};
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    if (head == '=' && has_number) {
      schedule.push_back({false, number});
    } else if (head >= letter(1) && head < letter(kMaxThreads) && (!has_number || number > 0) &&
               number <= kMaxSteps) {
      const Decision step{true, static_cast<std::uint32_t>(head - letter(1)) + 1};
      schedule.insert(schedule.end(), has_number ? number : 1, step);
    } else {
      return std::nullopt;
    }
  }
  return schedule;
}

std::unique_ptr<Search> replay_search(Schedule schedule) {
  return std::make_unique<ReplaySearch>(std::move(schedule));
}

}  // namespace weft::model
