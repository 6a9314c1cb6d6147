#include "event_log.hpp"

#include "arch/backtrace.hpp"

namespace weft::engine {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.append(text.size() < width ? width - text.size() : 1, ' ');
  return text;
}

// The function that a call returns to; empty: weft's, the standard library's, or unknown.
std::string user_function_at(const void* return_address) {
  constexpr std::size_t kLengthMax = 72;
  std::string name = arch::name_of_address(return_address, true);
  const std::size_t offset = name.rfind("+0x", name.rfind(" ("));
  if (offset == std::string::npos || !name.ends_with(')')) return {};  // only an address
  name.erase(offset);
  // A template's name has its return type before it.
  const std::size_t scope = name.find("weft::");
  if (scope != std::string::npos && scope <= name.find(' ')) return {};
  const std::size_t arguments = name.find('(');
  if (name.find(" weft::") < arguments || name.find("std::") < arguments) return {};
  if (name.starts_with("weft_")) return {};
  if (name.size() > kLengthMax) name.replace(kLengthMax, std::string::npos, "...");
  return name;
}

}  // namespace

std::string label(const Fiber& fiber) {
  std::string text = '#' + std::to_string(fiber.id);
  if (!fiber.name().empty()) text += " \"" + std::string{fiber.name()} + '"';
  return text;
}

void EventLog::add(std::uint64_t step, Instant now, const Fiber* who, std::string_view what) {
  if (!*this || ended_) return;
  if (lines_.size() == lines_max_) {
    lines_.pop_front();
    ++left_out_;
  }
  lines_.push_back("step " + padded(std::to_string(step), 7) +
                   padded(words_.span(now.time_since_epoch()), 10) +
                   padded(who && who->id != 0 ? label(*who) : "(world)", 17) + std::string{what});
}

void EventLog::spawns(std::uint64_t step, Instant now, const Fiber& parent, const Fiber& child) {
  if (*this) add(step, now, &parent, "spawns " + label(child) +
                                        Words::origin(" at ", child.closure->spawned_at.get()));
}

void EventLog::wakes(std::uint64_t step, Instant now, const Fiber& waker, const Fiber& woken) {
  if (*this) add(step, now, &waker, "wakes " + label(woken));
}

void EventLog::is_preempted(std::uint64_t step, Instant now, const Fiber& running) {
  if (!*this || ended_) return;
  const std::string where = innermost_user_function();
  add(step, now, &running, where.empty() ? "is preempted" : "is preempted in " + where);
}

// A name is looked up in the program's file, which takes long, and few are met again and again.
std::string EventLog::innermost_user_function() {
  arch::Backtrace trace;
  trace.take(nullptr);
  for (std::size_t i = 0; i < trace.count; ++i) {
    const auto [known, is_new] = functions_.try_emplace(trace.frames[i]);
    if (is_new) known->second = user_function_at(trace.frames[i]);
    if (!known->second.empty()) return known->second;
  }
  return {};
}

void EventLog::waits(std::uint64_t step, Instant now, const Fiber& parking) {
  if (*this) add(step, now, &parking, "waits: " + words_.arms_of(parking.link.waiting()));
}

void EventLog::time_passes(std::uint64_t step, Instant now, Duration length) {
  if (*this) add(step, now, nullptr, words_.span(length) + " later");
}

void EventLog::end(std::uint64_t step, Instant now, std::string_view why) {
  add(step, now, nullptr, why);
  ended_ = true;
}

std::string EventLog::text() const {
  std::string text;
  if (left_out_ != 0) text = "(" + std::to_string(left_out_) + " events before these)\n";
  for (const std::string& line : lines_) (text += line) += '\n';
  return text;
}

}  // namespace weft::engine
