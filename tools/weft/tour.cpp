#include "tour.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

namespace weft::tour {
namespace {

constexpr std::array kChapters{
    Chapter{"hello", "a nursery ends when its children have", &hello},
    Chapter{"switching", "what it costs to let another fiber run", &switching},
    Chapter{"spawning", "what it costs to start a fiber and wait for its end", &spawning},
    Chapter{"million", "a million fibers, each on a guarded stack", &million},
    Chapter{"forkjoin", "fork-join on all cores", &fork_join},
    Chapter{"cancelling", "a tree of parked fibers, cancelled at its root", &cancelling},
    Chapter{"events", "fibers and plain threads wait for the same things", &events},
    Chapter{"channels", "values flow from fiber to fiber, and one wait covers many", &channels},
    Chapter{"streams", "stages in a row, fused, side by side, and cut short", &streams},
    Chapter{"connections", "ten thousand connections, a fiber at each end", &connections},
    Chapter{"kidnap", "workers are kidnapped by system calls, and a heart beats on", &kidnapping},
    Chapter{"overflow", "a stack overflow says whose it was", &overflow},
    Chapter{"simulation", "the same program in a world that a seed decides", &simulation},
    Chapter{"deadlock", "a program that nobody can wake is an error, not a hang", &deadlock},
    Chapter{"dump", "who runs, who waits, and for what", &dump},
};

// Empty where the kernel does not tell, as on aarch64.
std::string processor() {
  std::ifstream info{"/proc/cpuinfo"};
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (const std::size_t at = line.find(": "); at != std::string::npos)
        return line.substr(at + 2) + ", ";
  return {};
}

std::string build() {
#if defined(__clang__)
  std::string text = "clang " __clang_version__;
  text.resize(text.find_last_not_of(' ') + 1);
#else
  std::string text = "g++ " __VERSION__;
#endif
  if (kSanitized) return text + ", sanitizer build";
  return text + (kChecked ? ", checked build" : ", release build");
}

void print_cover() {
  utsname system{};
  ::uname(&system);
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  std::printf("weft " WEFT_VERSION
              ": what exists so far, with figures measured here and now\n"
              "%s%ld core%s, %s %s, %s\n",
              processor().c_str(), cores, cores == 1 ? "" : "s", system.sysname, system.release,
              build().c_str());
  if (kChecked)
    std::printf(
        "This build checks itself at every step: it does less, and its figures mean little.\n");
}

bool visit(const Chapter& chapter, Page& page) {
  std::string problem;
  const double taken = seconds([&] {
    try {
      chapter.run(page);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  });
  if (problem.empty())
    page.closing(taken);
  else
    page.failure(problem);
  return problem.empty();
}

}  // namespace

std::span<const Chapter> chapters() { return kChapters; }

const Chapter* find_chapter(std::string_view name) {
  const auto* const at = std::find_if(kChapters.begin(), kChapters.end(),
                                      [&](const Chapter& chapter) { return chapter.name == name; });
  return at == kChapters.end() ? nullptr : at;
}

bool take(std::span<const Chapter* const> route) {
  print_cover();
  Page page;
  std::size_t number = 0;
  std::size_t failed = 0;
  for (const Chapter* chapter : route) {
    page.heading(++number, route.size(), chapter->name, chapter->title);
    if (!visit(*chapter, page)) ++failed;
  }
  if (failed != 0) {
    std::printf("\n%zu of %zu chapters failed.\n", failed, route.size());
    return false;
  }
  std::printf(
      "\nThat was the tour: every chapter saw what it describes. "
      "Each is one short file in tools/weft/.\n");
  return true;
}

}  // namespace weft::tour
