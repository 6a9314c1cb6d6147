#include "sysmon.hpp"

#include "scheduler.hpp"

#include <weft/arch/fault.hpp>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace weft::engine {

using namespace policy;

namespace {

std::timespec to_timespec(Duration duration) noexcept {
  return {static_cast<std::time_t>(duration.count() / 1'000'000'000),
          static_cast<long>(duration.count() % 1'000'000'000)};
}

// Time on a core that a thread of ours has used so far.
Duration cpu_time_of(int thread_id) noexcept {
  // clock_getcpuclockid(3) is for processes; this is how the kernel numbers the clock of a thread.
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread_id) << 3) | 6U);
  std::timespec used{};
  if (::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds{used.tv_sec} + std::chrono::nanoseconds{used.tv_nsec};
}

// Whether a thread of ours could run, and only waits for a core. What cannot be known is no.
bool waits_for_core(int thread_id) noexcept {
  char text[512];
  std::snprintf(text, sizeof text, "/proc/self/task/%d/stat", thread_id);
  std::FILE* const file = std::fopen(text, "re");
  if (!file) return false;
  const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = '\0';
  const char* const name_end = std::strrchr(text, ')');  // "id (name) state …"
  return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

bool statistics_wanted() noexcept {
  const char* const text = std::getenv("WEFT_PRESSURE_STATS");
  return text && std::strcmp(text, "1") == 0;
}

void count(Inspected<std::uint64_t>& counter, std::uint64_t more = 1) noexcept {
  counter = counter + more;
}

}  // namespace

Sysmon::Sysmon(Scheduler& scheduler)
    : shared_(scheduler),
      hired_(scheduler.options.max_workers),
      seen_(scheduler.options.max_workers),
      report_(scheduler.options.shutdown_report_after) {}

void Sysmon::start() noexcept {
  stopping_.store(false, std::memory_order_relaxed);
  std::fill(seen_.begin(), seen_.end(), Seen{});
  report_ = ShutdownReport{shared_.options.shutdown_report_after};
  // The program's signals are not for this thread, but for its own faults.
  sigset_t others;
  ::sigfillset(&others);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
    ::sigdelset(&others, fault);
  ::pthread_sigmask(SIG_SETMASK, &others, &program_mask_);
  started_ = arch::sys_pthread_create(&thread_, nullptr, &body, this) == 0;
  ::pthread_sigmask(SIG_SETMASK, &program_mask_, nullptr);
  if (started_) one_more_thread();
}

void Sysmon::stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  bell_.ring();
  if (started_) {
    ::pthread_join(thread_, nullptr);
    one_thread_less();
  }
  started_ = false;
  for (unsigned i = shared_.options.workers; i < shared_.options.max_workers; ++i)
    if (is_hired_[i]) say_goodbye(i);
  if (statistics_wanted())
    std::fprintf(stderr, "weft: %s\n", to_string(statistics()).c_str());
}

void* Sysmon::body(void* at) {
  ::pthread_setname_np(::pthread_self(), "weft-sysmon");
  static_cast<Sysmon*>(at)->watch();
  return nullptr;
}

void Sysmon::watch() noexcept {
  const std::timespec between_rounds = to_timespec(kRound);
  unsigned asleep = 0;  // rounds that found everybody asleep for good
  while (!stopping_.load(std::memory_order_acquire)) {
    const Instant now = monotonic_now();
    round(now);
    asleep = shared_.idle.count().deep() ? asleep + 1 : 0;
    if (asleep <= kRoundsAsleep) bell_.doze(between_rounds);
    else if (const Instant next = report_.next_look(); next != Instant::max())
      bell_.doze(to_timespec(next - now));
    else
      bell_.sleep([this] {
        return shared_.idle.count().deep() && !stopping_.load(std::memory_order_relaxed);
      });
  }
}

void Sysmon::round(Instant now) noexcept {
  stuck_ = Stuck::nobody;
  join_the_retired();
  for (const auto& worker : shared_.workers()) worker->coarse_now = now;
  fire_late_timers(now);
  hear_from_outside();
  shared_.relieve_the_watch();
  const std::int64_t pressure = measure_pressure();
  const Statistics::Reason reason = consider(now, pressure);
  count(blocked_[reason]);
  const bool hired = reason == Statistics::none && hire(now);
  if (!hired && stuck_ == Stuck::some) relieve_the_stuck();
  if (pressure > 0) end_time_slices();
  let_one_go(now);
  if (report_.is_due(now, shared_.is_ending())) shared_.tell_who_keeps_it();
  stalls_.look(now);
  if (chaos::strikes(16)) shared_.worker(0).inbox.nudge();  // a wake for nothing
}

// ── what there is to see ────────────────────────────────────────────────────────────────────────

std::int64_t Sysmon::measure_pressure() noexcept {
  const bool injected = !shared_.injector.empty();
  auto pressure = static_cast<std::int64_t>(shared_.injector.length());
  for (const auto& worker : shared_.workers()) {
    pressure += worker->backlog();
    see(*worker, seen_[worker->index()], injected);
  }
  pressure_ = pressure;
  if (pressure > 0) count(positive_);
  if (pressure < 0) count(negative_);
  negative_streak_ = pressure < 0 ? negative_streak_ + 1 : 0;
  negative_streak_max_ = std::max<std::uint64_t>(negative_streak_max_, negative_streak_);
  // Queues that move while they are counted do not do so every time.
  assert(negative_streak_ < 1000);
  return pressure;
}

void Sysmon::see(Worker& worker, Seen& seen, bool work_for_anybody) noexcept {
  const std::uint64_t ticks = worker.ticks();
  const std::uint64_t heads = worker.heads();
  const bool same_fiber = ticks == seen.ticks && worker.state() == WorkerState::active;
  const bool waiting = worker.backlog() > 0 || work_for_anybody;
  if (same_fiber && seen.still == 0) seen.cpu_at_first = cpu_time_of(worker.thread_id());
  seen.still = same_fiber ? seen.still + 1 : 0;
  seen.stranded = same_fiber && waiting && heads == seen.heads ? seen.stranded + 1 : 0;
  seen.ticks = ticks;
  seen.heads = heads;
}

// Timers are fired by their worker between two fibers, or by a sleeper that keeps watch. If it has
// come to neither, somebody else must do it.
void Sysmon::fire_late_timers(Instant now) noexcept {
  for (const auto& worker : shared_.workers()) {
    if (worker->inbox.is_asleep() || worker->timers.soonest() > now - kTimersLate) continue;
    firing_.store(true, std::memory_order_seq_cst);
    Sync::fence(std::memory_order_seq_cst);  // pairs with raise_if_deadlocked()
    Fired fired;
    count(late_timers_, worker->timers.fire_due(now, fired));
    shared_.give_to_anybody(std::move(fired.woken));
    CancelScope::tell(fired.hooks);
    firing_.store(false, std::memory_order_seq_cst);
  }
}

// Workers do so between two fibers, and whoever keeps watch sleeps there. If all are blocked or
// compute, somebody else must.
void Sysmon::hear_from_outside() noexcept {
  Poller* const poller = shared_.poller();
  const auto is_still = [](const Seen& seen) { return seen.still != 0; };
  if (poller) poller->flush_late();
  if (!poller || std::none_of(seen_.begin(), seen_.end(), is_still)) return;
  firing_.store(true, std::memory_order_seq_cst);
  Sync::fence(std::memory_order_seq_cst);  // pairs with raise_if_deadlocked()
  FiberList woken, stranded;
  poller->hear_all(woken);
  // Where nobody is stuck they go home, as if their worker had heard it: in the injector they would
  // wait behind everybody who is ready.
  while (Fiber* const fiber = woken.pop_front()) {
    const bool at_home = shared_.owns(*fiber) && seen_[fiber->last_worker].still == 0;
    if (at_home) shared_.send(*fiber);
    else stranded.push_back(*fiber);
  }
  shared_.run_heard(std::move(stranded), nullptr);
  firing_.store(false, std::memory_order_seq_cst);
}

// ── what is done about it ───────────────────────────────────────────────────────────────────────

Statistics::Reason Sysmon::consider(Instant now, std::int64_t pressure) noexcept {
  const Options& options = shared_.options;
  const Idle::Count others = shared_.idle.count();
  if (others.workers() < options.max_workers && chaos::strikes(8)) return Statistics::none;
  if (pressure == 0) return Statistics::no_work;
  if (pressure < 0) return Statistics::nonpositive;
  if (others.asleep() != 0 || others.searching() != 0) return Statistics::idle_capacity;
  look_for_the_stuck();
  if (stuck_ == Stuck::nobody) return Statistics::not_stuck;
  if (others.workers() >= options.max_workers) return Statistics::at_limit;
  if (now - scaled_at_ < options.scale_interval) return Statistics::too_soon;
  return Statistics::none;
}

void Sysmon::look_for_the_stuck() noexcept {
  const bool injected = !shared_.injector.empty();
  bool stranded = false;
  bool everybody = true;
  for (const auto& worker : shared_.workers()) {
    if (worker->state() == WorkerState::dead) continue;
    const bool stuck = is_stuck(*worker);
    if (stuck) worker->mark_held();
    stranded = stranded || (stuck && worker->backlog() > 0);
    everybody = everybody && stuck;
  }
  if (stranded || (injected && everybody)) stuck_ = everybody ? Stuck::everybody : Stuck::some;
}

bool Sysmon::is_stuck(const Worker& worker) const noexcept {
  if (worker.is_held()) return true;
  return seen_[worker.index()].stranded >= kStillRounds && keeps_its_fiber(worker);
}

// Blocked, or held by a fiber that computes. One that merely waits for a core is neither: on a busy
// machine there is always one of those.
bool Sysmon::keeps_its_fiber(const Worker& worker) const noexcept {
  const Seen& seen = seen_[worker.index()];
  const int thread = worker.thread_id();
  if (seen.still < kStillRounds || thread == 0) return false;
  return cpu_time_of(thread) - seen.cpu_at_first >= kTimeSlice || !waits_for_core(thread);
}

// Nobody can be hired, and the others have no time to search: what is stranded goes where they look
// now and then.
void Sysmon::relieve_the_stuck() noexcept {
  for (const auto& worker : shared_.workers())
    if (worker->is_held() && worker->backlog() > 0) worker->relieve();
}

bool Sysmon::hire(Instant now) noexcept {
  count(passes_);
  const unsigned first = shared_.options.workers;
  for (unsigned i = first; i < shared_.options.max_workers; ++i) {
    if (is_hired_[i]) continue;
    if (!shared_.hire(i, hired_[i])) return false;
    is_hired_[i] = true;
    count(promotions_);
    scaled_at_ = stuck_at_ = now;
    return true;
  }
  return false;
}

void Sysmon::say_goodbye(unsigned place) noexcept {
  ::pthread_join(hired_[place], nullptr);
  is_hired_[place] = false;
  count(retirements_);
}

void Sysmon::join_the_retired() noexcept {
  for (const auto& worker : shared_.workers()) {
    const unsigned place = worker->index();
    if (!is_hired_[place] || worker->state() != WorkerState::dead) continue;
    say_goodbye(place);
    // Who looked for a deadlock meanwhile found a thread that is not ours: it may look again.
    shared_.have_the_watch_look();
  }
}

// As long as a worker is stuck, its stand-in is needed. Afterwards it goes, even if it has enough
// to do: there are more of them than cores.
void Sysmon::let_one_go(Instant now) noexcept {
  if (std::find(is_hired_.begin(), is_hired_.end(), true) == is_hired_.end()) return;
  const auto all = shared_.workers();
  if (std::any_of(all.begin(), all.end(), [&](const auto& worker) {
        return keeps_its_fiber(*worker);
      }))
    stuck_at_ = now;
  if (now - stuck_at_ < shared_.options.temp_idle_timeout) return;
  for (unsigned i = shared_.options.max_workers; i-- > shared_.options.workers;) {
    if (!is_hired_[i]) continue;
    shared_.worker(i).ask_to_retire();
    stuck_at_ = now;  // and the next one later
    return;
  }
}

void Sysmon::end_time_slices() noexcept {
  for (const auto& worker : shared_.workers()) {
    const Seen& seen = seen_[worker->index()];
    if (seen.still < kStillRounds || (worker->backlog() <= 0 && shared_.injector.empty())) continue;
    Fiber* const fiber = worker->current_from_outside();
    const int thread = worker->thread_id();
    if (!fiber || thread == 0) continue;  // hired, and not come yet
    if (cpu_time_of(thread) - seen.cpu_at_first < kTimeSlice) continue;
    // It may have left meanwhile: then another looks up for nothing. Frames are never freed.
    fiber->attention.fetch_or(kAttendTurn, std::memory_order_relaxed);
    count(slices_);
  }
}

// ── telemetry ───────────────────────────────────────────────────────────────────────────────────

Statistics Sysmon::statistics() const noexcept {
  const Idle::Count others = shared_.idle.count();
  Statistics all;
  all.workers = others.workers();
  const unsigned idle = others.asleep() + others.searching();
  all.active_count = idle < all.workers ? all.workers - idle : 0;
  all.pressure = pressure_;
  all.positive_samples = positive_;
  all.negative_samples = negative_;
  all.negative_streak_max = negative_streak_max_;
  all.gate_passes = passes_;
  all.promotions = promotions_;
  all.retirements = retirements_;
  for (std::size_t i = 0; i < Statistics::kReasons; ++i) all.blocked[i] = blocked_[i];
  all.time_slices = slices_;
  all.late_timers = late_timers_;
  return all;
}

}  // namespace weft::engine

namespace weft {

std::string to_string(const Statistics& all) {
  static constexpr std::string_view kNames[Statistics::kReasons] = {
      "none", "no_work", "nonpositive", "idle_capacity", "at_limit", "too_soon", "not_stuck"};
  const auto number = [](auto value) { return std::to_string(value); };
  std::string text = "workers " + number(all.workers) + " (active " + number(all.active_count) +
                     "), pressure " + number(all.pressure) + " (samples " +
                     number(all.positive_samples) + " positive, " + number(all.negative_samples) +
                     " negative, neg_streak_max " + number(all.negative_streak_max) +
                     "), gate passes " + number(all.gate_passes) + ", promoted " +
                     number(all.promotions) + ", retired " + number(all.retirements) +
                     ", blocked by";
  for (std::size_t i = 1; i < Statistics::kReasons; ++i)
    text += ' ' + std::string{kNames[i]} + ' ' + number(all.blocked[i]);
  return text + ", time slices " + number(all.time_slices) + ", late timers " +
         number(all.late_timers);
}

}  // namespace weft
