// Page: where a chapter writes. Plain text, and a little emphasis if a terminal reads it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::tour {

// 1234567 as "1,234,567".
std::string grouped(long long number);
// Three figures that matter: "4.12", "41.2", "412", "4,120".
std::string rounded(double number);

class Page {
 public:
  Page();

  // The line that opens a chapter: "[2/9] switching: what a yield costs".
  void heading(std::size_t number, std::size_t of, std::string_view name, std::string_view title);
  // The line that closes it.
  void closing(double seconds);
  void failure(std::string_view what);

  // A sentence, on a line of its own.
  void say(std::string_view sentence);
  // Words that something else said: a program, an error, a report.
  void quote(std::string_view lines);
  // A measured value: "  label                4.12 ns".
  void figure(std::string_view label, double value, std::string_view unit);
  void figure(std::string_view label, std::string_view value);

  // Whether somebody watches the page being written, on a terminal that can go back in its line.
  [[nodiscard]] bool watched() const noexcept { return watched_; }

 private:
  const bool watched_;
  const char* const strong_;
  const char* const faint_;
  const char* const plain_;
};

// A bar that fills while a chapter works. Only a terminal sees it, and only until clear().
class Progress {
 public:
  Progress(Page& page, std::string what);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From any fiber or thread, one at a time.
  void show(long done, long of);
  void clear();

 private:
  const std::string what_;
  const bool visible_;
  int drawn_ = -1;  // hundredths
};

// What a chapter throws when it saw something else than it describes.
class Surprise : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void expect(bool seen, const char* what) {
  if (!seen) throw Surprise{what};
}

}  // namespace weft::tour
