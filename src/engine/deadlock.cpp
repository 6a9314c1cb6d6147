#include "deadlock.hpp"

#include "dump_signal.hpp"

#include <weft/arch/sanitizer.hpp>
#include <weft/core/describe.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/core/waitable.hpp>

#include <sys/single_threaded.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace weft::engine {
namespace {

// The parked fibers of `io`, by id: the order must not depend on addresses.
std::vector<Fiber*> parked_fibers(const Io& io) {
  struct Search {
    const Io* io;
    std::vector<Fiber*> found;
  } search{&io, {}};
  for_each_frame(
      [](Fiber& fiber, void* at) {
        auto& to = *static_cast<Search*>(at);
        if (fiber.io == to.io && fiber.word.state() == FiberState::parked)
          to.found.push_back(&fiber);
      },
      &search);
  std::sort(search.found.begin(), search.found.end(),
            [](const Fiber* a, const Fiber* b) { return a->id < b->id; });
  return std::move(search.found);
}

bool only_joins(const Fiber& fiber) {
  const auto arms = fiber.strand->waiting_for;
  return std::all_of(arms.begin(), arms.end(), [](const Waitable* arm) {
    return arm->reason().is_join;
  });
}

std::string describe_wait(Words& words, const Fiber& fiber) {
  std::string text = "fiber #" + std::to_string(fiber.id);
  if (!fiber.name().empty()) text += " \"" + std::string{fiber.name()} + '"';
  return text + " on " + words.wait_of(fiber) + words.origin_of(fiber);
}

}  // namespace

std::vector<std::string> describe_waits(const Io& io, Instant now, Duration grain) {
  Words words{now, grain};
  std::vector<std::string> lines;
  for (const Fiber* fiber : parked_fibers(io))
    if (!only_joins(*fiber)) lines.push_back(describe_wait(words, *fiber));
  return lines;
}

std::string describe_deadlock(const Io& io, Instant now, Duration grain) {
  const std::vector<Fiber*> waiting = parked_fibers(io);
  std::string text = "deadlock: " + std::to_string(waiting.size()) +
                     (waiting.size() == 1 ? " fiber waits" : " fibers wait") +
                     ", and nobody is left to wake one";
  Words words{now, grain};
  for (const Fiber* fiber : waiting) text += "\n  " + describe_wait(words, *fiber);
  return text;
}

bool raise_deadlock_in_waits(Io& io) noexcept {
  FiberList woken;
  for (Fiber* fiber : parked_fibers(io)) {
    if (only_joins(*fiber)) continue;
    if (fiber->word.claim(fiber->word.ticket(), Verdict::deadlock()) == Claim::owned)
      woken.push_back(*fiber);
  }
  if (woken.empty()) return false;
  io.resume(std::move(woken));
  return true;
}

bool is_alone(unsigned threads) noexcept {
  if (__libc_single_threaded) return true;
  // A thread sanitizer has one of its own.
  const unsigned ours = threads + DumpSignal::threads() + (arch::kTsan ? 1 : 0);
  std::FILE* const file = std::fopen("/proc/self/stat", "re");
  if (!file) return false;
  char text[1024];
  const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = '\0';
  // "pid (name) state ppid …": the number of threads is the 18th field after the name.
  const char* at = nullptr;
  for (const char* p = text; *p; ++p)
    if (*p == ')') at = p;
  for (int field = 0; at && field < 18; ++field)
    for (++at; *at && *at != ' ';) ++at;
  return at && std::strtoul(at, nullptr, 10) == ours;
}

}  // namespace weft::engine
