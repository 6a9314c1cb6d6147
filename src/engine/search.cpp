// A worker that has nothing to run: time, work from outside, other workers' queues, sleep.
//
// Everything here runs on the worker's own stack.
#include "scheduler.hpp"
#include "visit.hpp"
#include "worker.hpp"

#include <weft/core/thread.hpp>

#include <algorithm>
#include <new>

namespace weft::engine {

using namespace policy;

void Worker::idle() noexcept {
  // Again, because pick() may have taken the nudge that told us so out of the inbox.
  if (shared_.count.over()) return;
  become(WorkerState::idle_spin);
  look_for_work();
  coarse_now = monotonic_now();  // we may have slept
  become(WorkerState::active);
}

void Worker::look_for_work() noexcept {
  const Instant now = monotonic_now();
  judge_last_steal(now);
  const bool fired = fire_timers(now);
  const bool woken_by_event = std::exchange(woken_by_event_, hear_from_outside() || fired);
  // Whom timers wake is most often as quick as who answers a request. If not, the watcher fires
  // those that come meanwhile.
  if (fired && shared_.keeps_watch(*this)) back_soon_ = true;
  // Also if there is something of our own: events may come for ever.
  if (take_injected(kInjectedAtOnce) || woken_by_event_) return;
  const bool called = std::exchange(called_, false);
  if (called || shared_.idle.begin_search()) {
    // Between one event and the next nobody is about to have something for us: one look will do.
    const Found found = search(woken_by_event && !called ? Duration{} : kSearch);
    shared_.idle.end_search();
    stole_for_a_call_ = called && stole_at_ != Instant{};
    if (called && !stole_for_a_call_) shared_.note_a_call(found == Found::work_of_others);
    if (found != Found::nothing) return advertise(fresh_.length() + ready_.length() > 1 ? 0 : 1);
  }
  rest();
}

// What there is to do now.
Worker::Found Worker::search(Duration span) noexcept {
  if (shared_.worker_count() == 1 || may_retire()) return Found::nothing;
  const Instant began = monotonic_now();
  for (Instant now = began; now - began <= span; now = monotonic_now()) {
    if (!inbox.empty() || shared_.count.over() || wheel().soonest() <= now) return Found::our_own;
    if (take_injected(kInjectedAtOnce)) return Found::work_of_others;
    for (unsigned i = 1; i < shared_.worker_count(); ++i)
      if (steal_from(shared_.worker((number + i) % shared_.worker_count()), now))
        return Found::work_of_others;
    for (unsigned i = 0; i < kSpinsPerLook; ++i) Sync::spin();
  }
  return Found::nothing;
}

// Fibers whose sockets have something for them.
bool Worker::hear_from_outside() noexcept {
  Poller* const poller = shared_.poller();
  if (!poller) return false;
  FiberList woken;
  const bool any = poller->hear(number, woken);
  shared_.run_heard(std::move(woken), this);
  if (any) ready_.all_are_cold();  // there may be thousands of connections
  return any;
}

// A share of what waits for anybody.
bool Worker::take_injected(std::size_t most) noexcept {
  if (shared_.injector.empty()) return false;
  const std::size_t share = shared_.injector.length() / shared_.worker_count() + 1;
  FiberList taken;
  bool any = false;
  for (std::size_t left = std::min(most, share); left != 0; --left) {
    Fiber* const fiber = shared_.injector.pop();
    if (!fiber) break;
    name_newcomer(*fiber);
    taken.push_back(*fiber);
    any = true;
  }
  resume_all(std::move(taken));
  return any;
}

// ── stealing ────────────────────────────────────────────────────────────────────────────────────

Worker::Sight Worker::look_at(const Worker& victim, Instant now) const noexcept {
  Sight sight;
  sight.at = sight.ticked_at = now;
  sight.ticks = victim.ticks();
  sight.fillings = victim.fresh_.fillings();
  sight.fresh_first = victim.fresh_.first();
  sight.fresh_length = victim.fresh_.length();
  sight.ready_first = victim.ready_.first();
  sight.ready_last = victim.ready_.last();
  sight.next = victim.next_ != nullptr;
  sight.inbox = !victim.inbox.empty();
  return sight;
}

// Only what was there at an earlier look and still is. The victim reads no clock; we do the timing.
bool Worker::steal_from(Worker& victim, Instant now) noexcept {
  Sight& before = sights_[victim.number];
  Sight seen = look_at(victim, now);
  if (seen.still_as(before)) seen.ticked_at = before.ticked_at;
  const Duration waited = now - before.at;
  const bool held = victim.is_held();
  const bool silent = held || now - seen.ticked_at >= kSilence;
  const bool forced = held || chaos::strikes(4);  // what is there, however new
  if (seen.nothing() || (waited < age_ && !silent && !forced)) {
    if (seen.nothing()) before = seen;
    return false;
  }
  // Never empty since then, and the oldest stands where one stood then: fairness takes some away
  // at that end, too.
  const bool same_fresh = seen.fillings == before.fillings &&
                          seen.fresh_first < before.fresh_first + before.fresh_length;
  const Warrant warrant{
      .fresh = seen.fresh_length != 0 && (same_fresh || forced),
      .ready_before = forced ? seen.ready_last : before.ready_last,
      .stalled = held || (silent && seen.ticked_at == before.ticked_at),
  };
  before = seen;
  const bool ready = seen.ready_first < std::min(warrant.ready_before, seen.ready_last);
  const bool last = warrant.stalled && (seen.next || seen.inbox);
  if (!warrant.fresh && !ready && !last) return false;
  return take_stolen(take_from(victim, warrant, silent));
}

std::size_t Worker::take_from(Worker& victim, const Warrant& warrant, bool silent) noexcept {
  const Visit visit{victim, silent ? Duration{} : kSilence};
  return visit.alone() ? victim.give_loot(*this, warrant) : 0;
}

// Inside our gate, but on the thief's thread: moves the loot, oldest first, to where it takes it.
std::size_t Worker::give_loot(Worker& thief, const Warrant& warrant) noexcept {
  std::array<Fiber*, kLootMax>& loot = *thief.loot_;
  std::size_t count = 0;
  if (warrant.fresh) {
    const std::size_t half = std::min((fresh_.length() + 1) / 2, kLootMax);
    while (count < half) loot[count++] = fresh_.pop_oldest();
  }
  if (count == 0) {
    const std::size_t half = std::min((ready_.length() + 1) / 2, kLootMax);
    while (count < half && ready_.first() < warrant.ready_before) loot[count++] = ready_.take();
  }
  if (count == 0 && warrant.stalled) {
    FiberList stranded = inbox.take_over();
    while (Fiber* const fiber = stranded.pop_front()) {
      if (fiber->is_pinned()) inbox.push(*fiber);
      else if (count < kLootMax) loot[count++] = fiber;
      else ready_.push(*fiber);
    }
    if (Fiber* const fiber = next_; fiber && count == 0) {
      next_ = nullptr;
      loot[count++] = fiber;
    }
  }
  return count;
}

bool Worker::take_stolen(std::size_t count) noexcept {
  if (count == 0) return false;
  const Inside inside{gate_};
  for (std::size_t i = 0; i < count; ++i) {
    Fiber& fiber = *(*loot_)[i];
    name_newcomer(fiber);
    try {
      if (!fiber.strand) {
        fresh_.push(fiber);
        continue;
      }
    } catch (const std::bad_alloc&) {
      // No memory for a longer queue; the other one needs none.
    }
    ready_.push(fiber);
  }
  ready_.all_are_cold();
  stole_at_ = monotonic_now();
  stole_ = count;
  return true;
}

// A loot that was used up at once was not worth its journey: wait longer next time.
void Worker::judge_last_steal(Instant now) noexcept {
  if (stole_at_ == Instant{}) return;
  const Duration lasted = now - stole_at_;
  const auto count = static_cast<std::int64_t>(stole_);
  const bool paid =
      (lasted >= kPays && lasted >= kPaysEach * count) || lasted >= kPaysAlone * count;
  age_ = paid ? kAge : std::min(2 * age_, kAgeMax);
  if (std::exchange(stole_for_a_call_, false)) shared_.note_a_call(paid);
  stole_at_ = {};
}

// ── sleeping ────────────────────────────────────────────────────────────────────────────────────

void Worker::rest() noexcept {
  back_soon_ = false;
  if (!inbox.lie_down()) return;
  shared_.idle.begin_sleep();
  become(WorkerState::sleep);
  // Once more, now that we are announced: who comes later sees us.
  if (shared_.injector.empty() && !shared_.count.over()) sleep_till_called();
  inbox.get_up();
  shared_.idle.end_sleep();
  become(WorkerState::idle_spin);
}

void Worker::sleep_till_called() noexcept {
  const bool watching = shared_.take_the_watch(*this);
  for (unsigned quiet = 0;; ++quiet) {
    if (watching && !shared_.idle.everybody_sleeps()) quiet = 0;
    if (watching && quiet == shared_.quiet_rounds()) {
      const auto deadlocked = shared_.raise_if_deadlocked(*this);
      if (deadlocked == Scheduler::Deadlocked::raised) break;
      if (deadlocked == Scheduler::Deadlocked::unsure) quiet = 0;
    }
    const bool deep = watching && quiet >= shared_.quiet_rounds() && shared_.idle.deepen();
    Instant until = timers.soonest_rally();
    const Instant now = monotonic_now();
    if (is_temporary()) {
      if (std::exchange(has_run_, false)) idle_since_ = now;
      const Instant patience = idle_since_ + shared_.options.temp_idle_timeout;
      if (now >= patience || chaos::strikes(4)) leaving_ = true;
      if (may_retire()) break;
      if (!has_pinned) until = std::min(until, patience);
    }
    if (watching && !deep)
      until = std::min({until, now + kWatch, shared_.soonest_elsewhere(*this)});
    if (until > now) {
      const auto left = (until - now).count();
      const std::timespec timeout{static_cast<std::time_t>(left / 1'000'000'000),
                                  static_cast<long>(left % 1'000'000'000)};
      if (sleep(watching, until == Instant::max() ? nullptr : &timeout)) break;
    }
    if (!inbox.is_asleep() || timers.soonest() <= monotonic_now()) break;
    if (watching && watch_round()) break;
  }
  if (watching) shared_.surface();  // and the watch stays ours until we run something
}

// On our inbox or, so as to hear what happens outside, in the poller. True: somebody was woken.
bool Worker::sleep(bool watching, const std::timespec* timeout) noexcept {
  Poller* const poller = shared_.poller();
  if (!poller || !poller->take_bed(number, watching)) {
    inbox.sleep(timeout);
    return false;
  }
  FiberList woken;
  const bool any = inbox.move_to_bed() && poller->sleep(number, timeout, woken);
  inbox.move_back();
  poller->leave_bed(number);
  if (!any) return false;
  shared_.run_heard(std::move(woken), this);
  woken_by_event_ = true;
  back_soon_ = watching && timers.soonest() > monotonic_now() + kRound;
  return true;
}

void Worker::rouse() noexcept { shared_.poller()->rouse(number); }

// While others run: their timers that are due, and work that has waited since the last round.
bool Worker::watch_round() noexcept {
  const Instant now = monotonic_now();
  bool found = shared_.fire_timers_elsewhere(*this, now) || take_injected(kInjectedAtOnce);
  found = shared_.hear_elsewhere(*this) || found;
  for (unsigned i = 1; i < shared_.worker_count() && !found; ++i) {
    Worker& other = shared_.worker((number + i) % shared_.worker_count());
    // Those who wait now may be others than at the last round. Get up, and see whether they go on
    // waiting: fibers that compute in turns make no edge that would call us.
    const bool somebody_waits = !other.ready_.empty() || !other.fresh_.empty();
    found = steal_from(other, now) || somebody_waits;
  }
  return found;
}

}  // namespace weft::engine
