#include "page.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace weft::tour {
namespace {

constexpr int kLabelWidth = 44;
constexpr std::size_t kQuoteWidth = 88;

constexpr long kBarWidth = 40;

bool is_watched() {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr &&
         std::string_view{terminal} != "dumb";
}

bool wants_emphasis() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return is_watched() && (no_colour == nullptr || *no_colour == '\0');
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// Long lines are broken between words.
void quote_line(std::string_view line) {
  for (const char* margin = "    | "; !line.empty(); margin = "    |     ") {
    std::size_t end = line.size();
    if (end > kQuoteWidth) end = line.rfind(' ', kQuoteWidth);
    if (end == std::string_view::npos || end == 0) end = line.size();
    print(margin);
    print(line.substr(0, end));
    print("\n");
    line.remove_prefix(std::min(end + 1, line.size()));
  }
}

}  // namespace

std::string grouped(long long number) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string rounded(double number) {
  const double size = std::abs(number);
  if (size >= 999.5) return grouped(std::llround(number));
  char text[32];
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f", decimals, number);
  return text;
}

Page::Page()
    : watched_(is_watched()),
      strong_(wants_emphasis() ? "\033[1m" : ""),
      faint_(wants_emphasis() ? "\033[2m" : ""),
      plain_(wants_emphasis() ? "\033[0m" : "") {}

// The reader sees where the tour is before the chapter has anything to show.
void Page::heading(std::size_t number, std::size_t of, std::string_view name,
                   std::string_view title) {
  std::printf("\n%s[%zu/%zu] %.*s%s: %.*s\n", strong_, number, of, static_cast<int>(name.size()),
              name.data(), plain_, static_cast<int>(title.size()), title.data());
  std::fflush(stdout);
}

void Page::closing(double seconds) {
  std::printf("  %s(%s ms)%s\n", faint_, rounded(seconds * 1e3).c_str(), plain_);
  std::fflush(stdout);
}

void Page::failure(std::string_view what) {
  std::printf("  %sFAILED%s: %.*s\n", strong_, plain_, static_cast<int>(what.size()), what.data());
  std::fflush(stdout);
}

void Page::say(std::string_view sentence) {
  print("  ");
  print(sentence);
  print("\n");
}

void Page::quote(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    quote_line(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void Page::figure(std::string_view label, double value, std::string_view unit) {
  figure(label, rounded(value) + ' ' + std::string{unit});
}

void Page::figure(std::string_view label, std::string_view value) {
  std::printf("    %-*.*s %s%.*s%s\n", kLabelWidth, static_cast<int>(label.size()), label.data(),
              strong_, static_cast<int>(value.size()), value.data(), plain_);
}

Progress::Progress(Page& page, std::string what)
    : what_(std::move(what)), visible_(page.watched()) {
  show(0, 1);
}

void Progress::show(long done, long of) {
  const int now = static_cast<int>(done * 100 / std::max(of, 1L));
  if (!visible_ || now == drawn_) return;
  drawn_ = now;
  const auto full = static_cast<std::size_t>(now * kBarWidth / 100);
  std::string bar(full, '#');
  bar.append(static_cast<std::size_t>(kBarWidth) - full, '.');
  std::printf("\r    [%s] %3d %% %s", bar.c_str(), now, what_.c_str());
  std::fflush(stdout);
}

void Progress::clear() {
  if (drawn_ < 0) return;
  drawn_ = -1;
  const std::size_t width = what_.size() + static_cast<std::size_t>(kBarWidth) + 13;
  print("\r" + std::string(width, ' ') + '\r');
  std::fflush(stdout);
}

}  // namespace weft::tour
