// What a controlled thread asks of the kernel: to sleep on a word, to wake others, to pause.
#include <algorithm>
#include <array>

#include "explorer/execution.hpp"

namespace weft::model {

// Compares and enqueues in one step. The kernel promises only that a sleeper and an earlier wake()
// on the same word agree on what the waker had seen of it; the comparison may otherwise read any
// value a load could, and nothing is acquired.
void Execution::sleep(const void* address, std::uint64_t initial, std::uint64_t seen,
                      std::uint64_t mask, bool timed, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::atomic, initial);
  Footprint step;
  step.place = id;
  step.value = Footprint::Value::read;
  step.queue = Footprint::Queue::join;
  reach(step, op);
  Thread& thread = current();
  memory_.use(id, current_, thread.views, op.site);
  Place& place = memory_[id];
  thread.views.now.raise(place.slot, place.wake_floor);
  const SleepChoice choice = choose_sleep(place, seen, mask, timed);
  did(step);
  TraceValues values = values_of(*choice.compared, place.newest->stamp);
  values.operand = seen & mask;
  values.ending = choice.ending;
  note(op, id, values);
  if (choice.ending == Ending::returned) thread.views.now.raise(place.slot, choice.compared->stamp);
  if (choice.ending != Ending::slept) return;

  if (current_ == kMainThread)
    fail({.kind = Failure::deadlock,
          .text = "sleep() while no other thread runs",
          .place = id,
          .site = op.site});
  ++sleeps_;
  thread.state = ThreadState::asleep;
  thread.timed = timed;
  thread.seen = seen & mask;
  leave();
}

// It sleeps on a store that holds `seen` and returns on one that does not. Of several stores of a
// kind the oldest stands for all: having read that one excludes least for later loads. The tame
// choice is what the newest store says.
Execution::SleepChoice Execution::choose_sleep(const Place& place, std::uint64_t seen,
                                               std::uint64_t mask, bool timed) {
  const auto holds_seen = [&](const Store& store) { return ((store.value ^ seen) & mask) == 0; };
  const Store* equal = nullptr;
  const Store* differing = nullptr;
  const Store* store = place.newest;
  for (unsigned n = memory_.readable(place, current().views, std::memory_order_relaxed); n > 0;
       --n) {
    (holds_seen(*store) ? equal : differing) = store;
    store = store->older;
  }
  std::array<SleepChoice, 3> options;
  unsigned count = 0;
  if (equal) options[count++] = {Ending::slept, equal};
  if (differing) options[count++] = {Ending::returned, differing};
  if (count == 2 && !holds_seen(*place.newest)) std::swap(options[0], options[1]);
  if (!differing && (timed || rules_.spurious_wakes) && may_be_spurious())
    options[count++] = {Ending::early, equal};
  const SleepChoice choice = options[pick(count)];
  if (choice.ending == Ending::early) ++current().spurious;
  return choice;
}

// Wakes by address alone: the word may already be gone. Which sleepers wake is anybody's guess.
void Execution::wake(const void* address, unsigned sleepers, OpInfo op) {
  const PlaceId id = memory_.find(address);
  Footprint step;
  step.place = id;
  step.queue = Footprint::Queue::wake;
  reach(step, op);
  Place& place = memory_[id];
  if (place.slot != kNoSlot)
    place.wake_floor = std::max(place.wake_floor, current().views.now.floor(place.slot));

  ThreadSet asleep = 0;
  for (unsigned t = 1; t <= thread_count_; ++t)
    if (threads_[t].state == ThreadState::asleep && threads_[t].place == id) asleep |= bit(t);
  auto left = static_cast<unsigned>(__builtin_popcount(asleep));
  const unsigned woken = std::min(sleepers, left);
  // In ascending order; before each one the search may pass over some, so long as enough remain.
  for (unsigned to_wake = woken; to_wake > 0; --to_wake) {
    for (unsigned pass_over = pick(left - to_wake + 1); pass_over > 0; --pass_over, --left)
      asleep &= asleep - 1;
    threads_[lowest(asleep)].state = ThreadState::runnable;
    asleep &= asleep - 1;
    --left;
  }
  TraceValues values;
  values.value = woken;
  values.operand = sleepers;
  did(step);
  note(op, id, values);
}

// Waits for somebody to write: what a loop has just read, it would only read again. Several calls
// with nothing in between are one round, since the model has no use for the length of a pause.
void Execution::spin(Site site) {
  if (current_ == kMainThread) return;
  constexpr unsigned kForEver = 100'000;
  Thread& thread = current();
  if (!thread.moved_since_spin) {
    if (++thread.idle_spins == kForEver)
      fail({.kind = Failure::livelock, .text = "spins without looking at anything", .site = site});
    return;
  }
  thread.idle_spins = 0;
  thread.moved_since_spin = false;
  if (thread.spin_rounds++ < rules_.eager_spins) return;
  thread.state = ThreadState::spinning;
  thread.site = site;
  search_->yielded(current_);
  note({OpKind::spin, std::memory_order_relaxed, site}, kNoPlace, {});
  leave();
}

}  // namespace weft::model
