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

bool only_joins(const Waiting& waiting) {
  return std::all_of(waiting.arms.begin(), waiting.arms.end(),
                     [](const Waitable* arm) { return arm->reason().is_join; });
}

std::string describe_wait(Words& words, const Fiber& fiber, const Waiting& waiting) {
  std::string text = "fiber #" + std::to_string(fiber.id);
  if (!fiber.name().empty()) text += " \"" + std::string{fiber.name()} + '"';
  return text + " on " + words.wait_of(waiting) + words.origin_of(fiber);
}

}  // namespace

bool is_from_outside(const Waiting& waiting) noexcept {
  return std::any_of(waiting.arms.begin(), waiting.arms.end(),
                     [](const Waitable* arm) { return arm->reason().from_outside; });
}

std::vector<std::string> describe_waits(const Io& io, Instant now, Duration grain) {
  Words words{now, grain};
  std::vector<std::string> lines;
  for (const Fiber* fiber : parked_fibers(io))
    if (const Waiting* const waiting = fiber->waiting(); waiting && !only_joins(*waiting))
      lines.push_back(describe_wait(words, *fiber, *waiting));
  return lines;
}

std::string describe_deadlock(const Io& io, Instant now, Duration grain) {
  const std::vector<Fiber*> all = parked_fibers(io);
  std::string text = "deadlock: " + std::to_string(all.size()) +
                     (all.size() == 1 ? " fiber waits" : " fibers wait") +
                     ", and nobody is left to wake one";
  Words words{now, grain};
  for (const Fiber* fiber : all)
    if (const Waiting* const waiting = fiber->waiting())
      text += "\n  " + describe_wait(words, *fiber, *waiting);
  return text;
}

bool raise_deadlock_in_waits(Io& io) noexcept {
  FiberList woken;
  for (Fiber* fiber : parked_fibers(io)) {
    const Waiting* const waiting = fiber->waiting();
    if (!waiting || only_joins(*waiting)) continue;
    if (fiber->word.claim(fiber->word.ticket(), Verdict::deadlock()) == Claim::owned)
      woken.push_back(*fiber);
  }
  if (woken.empty()) return false;
  io.resume(std::move(woken));
  return true;
}

bool OutsideWait::still_there() const noexcept {
  return fiber_ && fiber_->word.state() == FiberState::parked && fiber_->word.ticket() == ticket_;
}

bool OutsideWait::find(const Io& io) noexcept {
  struct Search {
    const Io* io;
    const Fiber* found;
  } search{&io, nullptr};
  for_each_frame(
      [](Fiber& fiber, void* at) {
        auto& to = *static_cast<Search*>(at);
        if (to.found || fiber.io != to.io || fiber.word.state() != FiberState::parked) return;
        if (const Waiting* const waiting = fiber.waiting(); waiting && is_from_outside(*waiting))
          to.found = &fiber;
      },
      &search);
  fiber_ = search.found;
  if (fiber_) ticket_ = fiber_->word.ticket();
  return fiber_ != nullptr;
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
