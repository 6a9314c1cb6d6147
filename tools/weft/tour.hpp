// The tour: short chapters, each of which does something real and says what it saw.
//
// A chapter is one function in a file of its own and one row of the table in tour.cpp. It writes to
// a Page, and checks what it claims: a chapter that saw something else than it describes fails, and
// so does the tour.
#pragma once

#include "page.hpp"

#include <weft/arch/sanitizer.hpp>
#include <weft/core/spec.hpp>

#include <chrono>
#include <span>
#include <string_view>

namespace weft::tour {

struct Chapter {
  std::string_view name;   // what the user types
  std::string_view title;  // what the user reads
  void (*run)(Page& page);
};

std::span<const Chapter> chapters();
const Chapter* find_chapter(std::string_view name);

// Takes the tour. True: every chapter saw what it describes.
bool take(std::span<const Chapter* const> route);

// Prints the options of the engines as they are here and now, and the environment variables.
void print_options();

// The clients of the chapter `connections`, which starts them as a process of its own:
// weft --clients ENDPOINT COUNT. False: the words are others.
inline constexpr std::string_view kClientsVerb = "--clients";
bool be_clients(std::span<const std::string_view> words);

// One per file.
void hello(Page& page);
void switching(Page& page);
void spawning(Page& page);
void million(Page& page);
void fork_join(Page& page);
void cancelling(Page& page);
void events(Page& page);
void channels(Page& page);
void streams(Page& page);
void connections(Page& page);
void kidnapping(Page& page);
void overflow(Page& page);
void simulation(Page& page);
void deadlock(Page& page);
void dump(Page& page);

// ── what chapters share ─────────────────────────────────────────────────────────────────────────

// Builds that check themselves do less of everything: their figures mean little anyway.
inline constexpr bool kSanitized = arch::kAsan || arch::kTsan;
inline constexpr bool kChecked = spec::kSpecAssert || kSanitized;
constexpr long at_most(long released, long checked, long sanitized) {
  return kSanitized ? sanitized : kChecked ? checked : released;
}

template <class F>
double seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The fastest of three: the other two were disturbed.
template <class F>
double best_seconds(F&& f) {
  double best = seconds(f);
  for (int i = 0; i < 2; ++i)
    if (const double again = seconds(f); again < best) best = again;
  return best;
}

}  // namespace weft::tour
