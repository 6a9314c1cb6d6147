#include "findings.hpp"

#include "arch/tripwire.hpp"
#include "scheduler.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <set>
#include <string_view>

namespace weft {
namespace {

// Never destroyed: a thread may have something to say when the process is about to end.
engine::FindingSink& stall_sink() {
  static auto& sink = *new engine::FindingSink;
  return sink;
}
engine::FindingSink& held_lock_sink() {
  static auto& sink = *new engine::FindingSink;
  return sink;
}

}  // namespace

void set_stall_hook(FindingHook hook) { stall_sink().set(std::move(hook)); }
void set_held_lock_hook(FindingHook hook) { held_lock_sink().set(std::move(hook)); }

namespace engine {

void FindingSink::set(FindingHook hook) {
  auto fresh = hook ? std::make_shared<const FindingHook>(std::move(hook)) : nullptr;
  const Locked locked{lock_};
  hook_.swap(fresh);
}

void FindingSink::tell(const Finding& finding) {
  if (const auto to = hook()) return (*to)(finding);
  std::fwrite(finding.text.data(), 1, finding.text.size(), stderr);
}

std::string title_of(FiberId id, std::string_view name) {
  std::string title = "fiber #" + std::to_string(id);
  if (!name.empty()) title += " \"" + std::string{name} + '"';
  return title;
}

std::string spawned_at(const Closure* closure) {
  const Site site = closure ? closure->spawned_at.get() : Site{};
  if (!site) return {};
  return "  spawned at " + std::string{site.file} + ':' + std::to_string(site.line) + '\n';
}

OnFinding on_finding(const char* variable) noexcept {
  const char* const text = std::getenv(variable);
  const std::string_view word = text ? text : "";
  return word == "abort"    ? OnFinding::abort
         : word == "ignore" ? OnFinding::ignore
                            : OnFinding::report;
}

namespace {

// ── stalls ──────────────────────────────────────────────────────────────────────────────────────

// Who runs on a worker, copied without a stop.
struct Who {
  FiberId id = 0;  // 0: nobody
  const Closure* closure = nullptr;
  std::array<char, 65> name{};  // cut off, if it is longer
};

struct Witnessed {
  const Carrier& carrier;
  Who who{};
};

// On the worker's own thread, in a signal handler.
void see_current(void* at) noexcept {
  auto& witnessed = *static_cast<Witnessed*>(at);
  const Fiber* const fiber = witnessed.carrier.current;
  if (!fiber) return;
  Who& who = witnessed.who;
  who = {.id = fiber->id, .closure = fiber->closure};
  const char* const text = fiber->name_text;
  for (std::size_t i = 0; text && text[i] && i + 1 < who.name.size(); ++i) who.name[i] = text[i];
}

// From outside; the fiber may end, and its name be freed, while we look.
Who peek_at_current(const Carrier& carrier) noexcept {
  const Fiber* fiber = nullptr;
  Who who;
  const char* text = nullptr;
  if (!arch::peek(&carrier.current, &fiber, sizeof fiber) || !fiber) return {};
  if (!arch::peek(&fiber->id, &who.id, sizeof who.id) ||
      !arch::peek(&fiber->closure, &who.closure, sizeof who.closure) ||
      !arch::peek(&fiber->name_text, &text, sizeof text) || !text)
    return who;
  for (std::size_t i = 0; i + 1 < who.name.size(); ++i)
    if (!arch::peek(text + i, &who.name[i], 1) || !who.name[i]) break;
  return who;
}

std::string describe(const Stall& stall, unsigned worker, const Who& who) {
  const auto lasted = std::chrono::duration_cast<std::chrono::milliseconds>(stall.lasted).count();
  std::string text = "weft: " + title_of(who.id, who.name.data()) + " has kept worker " +
                     std::to_string(worker) + " for " + std::to_string(lasted) + " ms" +
                     (stall.sleeping ? ", blocked in the kernel\n" : " without giving way\n");
  return text + spawned_at(who.closure);
}

std::string place_of_sleeper(pid_t tid) {
  const std::string place = arch::place_in_kernel(tid);
  return place.empty() ? "  the kernel does not tell where\n" : "  in " + place + '\n';
}

std::string place_of_runner(const arch::Backtrace& trace, arch::Answer answer) {
  if (answer == arch::Answer::taken) return "  at\n" + arch::to_string(trace, "    ");
  return answer == arch::Answer::not_asked
             ? "  no backtrace: the program has taken weft's signal, or it cannot be sent\n"
             : "  no backtrace: its thread did not answer\n";
}

}  // namespace

ThreadSight look_at_thread(pid_t tid) noexcept {
  // How the kernel numbers the clock of a thread: see pthread_getcpuclockid(3).
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3U) | 6U);
  std::timespec used{};
  if (::clock_gettime(clock, &used) != 0) return {};
  return {std::chrono::seconds{used.tv_sec} + Duration{used.tv_nsec},
          arch::state_of_thread(tid) == arch::ThreadState::sleeping};
}

void report_stall(const Stall& stall, const StalledWorker& worker) {
  const std::uint64_t picks = worker.picks();
  Witnessed seen{*worker.carrier};
  std::string place;
  if (stall.sleeping) {
    seen.who = peek_at_current(*worker.carrier);
    place = place_of_sleeper(worker.tid);
  } else {
    arch::Backtrace trace;
    const auto answer = arch::take_backtrace_of(worker.tid, trace, {&see_current, &seen});
    if (answer != arch::Answer::taken) seen.who = peek_at_current(*worker.carrier);
    place = place_of_runner(trace, answer);
  }
  // A worker picks before a fiber's frame is used again: no pick, no confusion.
  if (worker.picks() != picks || seen.who.id == 0) return;
  const std::string text = describe(stall, worker.index, seen.who) + place;
  stall_sink().tell({seen.who.id, seen.who.name.data(), text});
}

StallReporter::StallReporter(Scheduler& scheduler) : shared_(scheduler) {
  const Duration after = scheduler.options.stall_report_after;
  if (after == Duration::zero()) return;
  handler_.emplace();
  watch_.emplace(after, [this](unsigned worker) {
    return look_at_thread(shared_.worker(worker).thread_id());
  });
}

void StallReporter::look(Instant now) noexcept {
  if (!watch_) return;
  try {
    look_at_all(now);
  } catch (...) {
    std::fputs("weft: no memory to say which fiber does not give way\n", stderr);
  }
}

void StallReporter::look_at_all(Instant now) {
  sights_.clear();
  for (const auto& worker : shared_.workers())
    sights_.push_back({.worker = worker->index(),
                       .picks = worker->ticks(),
                       .runs = worker->state() == WorkerState::active && worker->thread_id() != 0});
  for (const Stall& stall : watch_->look(now, sights_)) {
    const Worker& worker = shared_.worker(stall.worker);
    report_stall(stall, {.index = stall.worker,
                         .tid = worker.thread_id(),
                         .carrier = &worker,
                         .picks = [&worker] { return worker.ticks(); }});
  }
}

// ── locks ───────────────────────────────────────────────────────────────────────────────────────

namespace {

// Whether nobody has complained about a lock taken on this way yet.
bool is_news(const arch::Backtrace& taken_at) {
  static Lock lock;
  static auto& known = *new std::set<std::vector<void*>>;
  constexpr std::size_t kPlaceFrames = 5;  // unoptimised, std::unique_lock alone takes four
  const auto* const first = taken_at.frames.data();
  std::vector<void*> place{first, first + std::min(taken_at.count, kPlaceFrames)};
  const Locked locked{lock};
  return known.insert(std::move(place)).second;
}

std::string_view verb(Departure how) noexcept {
  switch (how) {
    case Departure::yield: return "yields";
    case Departure::finish: return "ends";
    default: return "waits";
  }
}

void report_held_lock(const Fiber& self, Departure how, const arch::HeldLock& held,
                      const void* caller) {
  if (!is_news(held.taken_at)) return;
  arch::Backtrace here;
  here.take(caller);
  const std::string name = self.copy_name();
  std::string text = "weft: " + title_of(self.id, name) + ' ' + std::string{verb(how)} +
                     " with a lock held that is not weft's\n";
  text += spawned_at(self.closure) + "  it was locked at\n" +
          arch::to_string(held.taken_at, "    ") + "  the fiber " + std::string{verb(how)} +
          " at\n" + arch::to_string(here, "    ");
  held_lock_sink().tell({self.id, name, text});
}

}  // namespace

void report_held_locks(const Fiber& self, Departure how) noexcept {
  arch::LockWatch& watch = *arch::LockWatch::here();
  // A copy: the report itself may lock something.
  std::array<arch::HeldLock, arch::LockWatch::kLocksMax> held;
  const std::size_t count = watch.held().size();
  std::copy_n(watch.held().begin(), count, held.begin());
  // They stay with the fiber, which may go on elsewhere; who runs here next has nothing to do with
  // them. So they are forgotten, and said once.
  if (arch::Tripwire::here()) watch.leave_to(self.id, self.name());
  else watch.forget();
  static const OnFinding what = on_finding("WEFT_ON_HELD_LOCK");
  if (what == OnFinding::ignore) return;
  for (std::size_t i = 0; i < count; ++i) {
    try {
      report_held_lock(self, how, held[i], __builtin_return_address(0));
    } catch (...) {
      std::fputs("weft: a fiber gives way with a lock held, and there is no memory to say which\n",
                 stderr);
    }
  }
  if (what == OnFinding::abort) std::abort();
}

}  // namespace engine
}  // namespace weft
