#include "tripwire.hpp"

#include "findings.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace weft {
namespace {

// Never destroyed, as those of findings.cpp.
engine::FindingSink& sink() {
  static auto& kept = *new engine::FindingSink;
  return kept;
}

}  // namespace

void set_tripwire_hook(FindingHook hook) { sink().set(std::move(hook)); }

void RealWorld::enter() noexcept {
  auto* const wire = static_cast<engine::Tripwire*>(arch::Tripwire::here());
  fiber_ = wire ? wire->fiber() : nullptr;
  if (!fiber_) return;
  wire_ = wire;
  wire_->real_worlds.push_back(*this);
}

void RealWorld::leave() noexcept {
  if (wire_) wire_->real_worlds.remove(*this);
}

namespace engine {
namespace {

using arch::Trip;

std::string_view deed(Trip what) noexcept {
  switch (what) {
    case Trip::clock: return "looks at a real clock";
    case Trip::sleep: return "sleeps in earnest";
    case Trip::lock: return "would block in a lock that is held";
    case Trip::condition: return "would block in a condition variable";
  }
  return "";
}

std::string_view advice(Trip what) noexcept {
  switch (what) {
    case Trip::clock: return "such a run cannot be repeated from its seed: use weft::Clock::now()";
    case Trip::sleep: return "simulated time stands still meanwhile: use weft::sleep_for";
    case Trip::lock:
      return "all fibers run on this one thread: use weft::Mutex or weft::SharedMutex";
    case Trip::condition:
      return "all fibers run on this one thread: use weft::CondVar, weft::Event or a channel";
  }
  return "";
}

// Whether a function is part of the way into the C library, and not of the program.
bool is_library(std::string_view name) noexcept {
  const std::string_view head = name.substr(0, name.find_first_of("(<+"));
  const std::size_t space = head.rfind(' ');  // templates have their result type before the name
  const std::string_view word = space == head.npos ? head : head.substr(space + 1);
  return word.starts_with("std::") || word.starts_with("__");
}

// Where the program makes the call.
const void* place_of(const arch::Backtrace& trace) {
  for (std::size_t i = 0; i < trace.count; ++i)
    if (!is_library(arch::name_of_address(trace.frames[i], true))) return trace.frames[i];
  return trace.count != 0 ? trace.frames[0] : nullptr;
}

// On standard error a place is named once in the process: explore() makes thousands of runs.
bool is_new_here(const void* place) {
  static Lock lock;
  static auto& known = *new std::set<const void*>;
  const Locked locked{lock};
  return known.insert(place).second;
}

std::string holder_of(const void* lock) {
  const arch::HeldLock* const held = arch::LockWatch::find(lock);
  if (!held) return "  the calling thread itself holds it\n";
  const auto by_us = arch::LockWatch::here()->held();
  const bool is_fibers = held->holder != 0;
  const bool is_own = !is_fibers && std::any_of(by_us.begin(), by_us.end(),
                                                [&](const auto& each) { return &each == held; });
  const std::string who = is_fibers ? title_of(held->holder, held->holder_name)
                          : is_own  ? "the same fiber"
                                    : "the caller of run()";
  return "  " + who + " holds it, and locked it at\n" + arch::to_string(held->taken_at, "    ");
}

std::string describe(const Fiber& self, std::string_view name, const arch::Tripped& tripped,
                     const arch::Backtrace& trace) {
  std::string text = "weft: " + title_of(self.id, name) + ' ' + std::string{deed(tripped.what)} +
                     " in a simulated run: " + tripped.function + "()\n";
  text += spawned_at(self.closure) + "  " + std::string{advice(tripped.what)} + '\n' + "  at\n" +
          arch::to_string(trace, "    ");
  if (tripped.is_ours) text += holder_of(tripped.lock);
  text += tripped.for_ever ? "  nobody can ever end that wait, so the program ends here\n"
                           : "  if it is meant: weft::RealWorld of <weft/sim.hpp>\n";
  return text;
}

[[noreturn]] void give_up(std::string_view text) {
  if (sink().hook()) std::fwrite(text.data(), 1, text.size(), stderr);  // it went elsewhere
  std::abort();
}

}  // namespace

bool Tripwire::is_meant(const Fiber& self) const noexcept {
  for (const RealWorld* world = real_worlds.front(); world; world = real_worlds.after(*world))
    if (world->fiber() == &self) return true;
  return false;
}

// By a few frames first: what functions are called takes long to find out.
bool Tripwire::is_news(const arch::Backtrace& trace) {
  constexpr std::size_t kFrames = 6;
  const auto* const first = trace.frames.data();
  if (!seen_.emplace(first, first + std::min(trace.count, kFrames)).second) return false;
  const void* const place = place_of(trace);
  return places_.insert(place).second && (sink().hook() || is_new_here(place));
}

void Tripwire::report(const Fiber& self, const arch::Tripped& tripped) {
  arch::Backtrace trace;
  trace.take(tripped.caller);
  if (!is_news(trace) && !tripped.for_ever) return;
  const std::string name = self.copy_name();
  const std::string text = describe(self, name, tripped, trace);
  sink().tell({self.id, name, text});
  if (tripped.for_ever) give_up(text);
}

void Tripwire::tell(const arch::Tripped& tripped) noexcept {
  const Fiber* const self = fiber();
  if (!self) return;
  static const OnFinding what = on_finding("WEFT_ON_TRIPWIRE");
  if (!tripped.for_ever && (what == OnFinding::ignore || is_meant(*self))) return;
  try {
    report(*self, tripped);
  } catch (...) {
    std::fputs("weft: a simulated fiber uses the real world, and there is no memory to say where\n",
               stderr);
  }
  if (tripped.for_ever || what == OnFinding::abort) std::abort();
}

}  // namespace engine
}  // namespace weft
