// bugs [name...]: looks for each of the gallery's bugs, or for the ones named, within its budget,
// and tries the fix in the same way. What was found, and how to see it again, is on standard error.
//
// bugs --measure: how many runs it took, over a thousand base seeds: the table of the README.
#include "gallery.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using gallery::Bug;

bool show(const Bug& bug, const std::string& program) {
  weft::ExploreOptions options = gallery::exploration(bug, 0);
  options.print = true;
  options.progress = weft::Progress::automatic;
  options.command = program + ' ' + options.name;

  std::printf("%s: %s\n", bug.name.data(), bug.mistake.data());
  const weft::Report buggy = weft::explore(options, bug.buggy);
  const bool is_found = buggy.first && buggy.first->kind == bug.kind;
  if (is_found)
    std::printf("  buggy: %s within %llu runs, %s\n", to_string(bug.kind).data(),
                static_cast<unsigned long long>(bug.runs), gallery::schedule_of(bug).c_str());
  if (is_found && bug.kind == weft::Failure::Kind::exception)
    std::printf("         \"%s\"\n", buggy.first->what.c_str());

  options.name += ", fixed";
  const weft::Report fixed = weft::explore(options, bug.fixed);
  if (fixed)
    std::printf("  fixed: %s\n",
                fixed.complete ? "right on all of these schedules" : "survives the same search");
  return is_found && fixed;
}

void measure(const Bug& bug) {
  constexpr std::uint64_t kBases = 1000;
  std::vector<std::uint64_t> runs;
  for (std::uint64_t base = 0; base < kBases; ++base) {
    weft::ExploreOptions options = gallery::exploration(bug, base * 1'000'003);
    options.runs = 4 * bug.runs;
    options.shrink = false;
    const weft::Report report = weft::explore(options, bug.buggy);
    runs.push_back(report.first ? report.first->run : options.runs);
  }
  std::sort(runs.begin(), runs.end());
  std::printf("| [%s](%s.cpp) | %s | %s | %s | %llu | %llu | %llu |\n", bug.name.data(),
              bug.name.data(), bug.mistake.data(), to_string(bug.kind).data(),
              gallery::schedule_of(bug).c_str(), static_cast<unsigned long long>(bug.runs),
              static_cast<unsigned long long>(runs[runs.size() / 2]),
              static_cast<unsigned long long>(runs.back()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names(argv + 1, argv + argc);
  const bool measures = names == std::vector<std::string>{"--measure"};
  bool is_good = true;
  for (const Bug* bug : gallery::all()) {
    const bool is_asked_for = std::find(names.begin(), names.end(), bug->name) != names.end();
    if (measures) measure(*bug);
    if (names.empty() || is_asked_for) is_good = show(*bug, argv[0]) && is_good;
  }
  return is_good ? 0 : 1;
}
