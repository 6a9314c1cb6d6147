// Dynamic partial-order reduction with source sets and sleep sets.
//
// Invariant: two executions that differ only in the order of independent steps are the same; of
//            each such class at least one is run to its end.
// Method:    while an execution runs, every step is compared with the earlier steps it depends on.
//            If such a pair is not already ordered by others in between (a race), the other order
//            is possible too: at the point before the earlier step, some thread that leads there is
//            put on the list to explore. Sleep sets then keep those branches from repeating orders
//            that an earlier branch has covered.
// Values:    which store a load reads is a decision below the step. So a step in a sleep set has
//            been explored with all its values, and a race is judged by what the step really did.
// Source:    the reduction follows Abdulla, Aronsson, Jonsson and Sagonas, "Optimal dynamic partial
//            order reduction" (2014), algorithm 1 (source sets).
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "explorer/decision_tree.hpp"
#include "explorer/search.hpp"
#include "explorer/view.hpp"

namespace weft::model {
namespace {

// Event numbers start at 1. An order's entry for thread t is the last event of t that comes before.
using EventId = std::int16_t;
constexpr EventId kNone = 0;
static_assert(kMaxSteps < 0x7fff);

struct Order {
  std::array<EventId, kMaxThreads> last{};

  void join(const Order& other) noexcept {
    raise_each<kMaxThreads>(last.data(), other.last.data());
  }
};

struct Event {
  Footprint done;
  ThreadId thread;
  EventId previous_at_place;  // chains from new to old, to look for races
  EventId previous_sc;
  std::uint32_t node;  // the decision that scheduled it
  Order before;        // includes the event itself
};

// The joined orders of everything that happened at one place, by what a later step depends on.
struct PlaceOrders {
  EventId newest = kNone;
  Order writes, reads, open_sc_reads, wakes, joins;
};

class DporSearch final : public Search {
 public:
  void begin() override {
    tree_.begin();
    asleep_ = 0;
    events_.resize(1);
    places_used_ = 0;
    newest_sc_ = kNone;
    sc_fences_ = sc_accesses_ = {};
    threads_ = {};
  }

  ThreadId pick_thread(ThreadSet enabled, ThreadId last) override {
    node_ = static_cast<std::uint32_t>(tree_.position());
    if (tree_.on_path()) return tree_.follow_thread(enabled);
    const ThreadSet awake = enabled & ~asleep_;
    if (awake == 0) return kPrune;
    const ThreadId first = last != kNoThread && has(awake, last) ? last : lowest(awake);
    tree_.grow(first, enabled, bit(first), asleep_);
    return first;
  }

  unsigned pick_value(unsigned count) override { return tree_.pick_value(count); }

  void stepped(const Step& step, const PendingSteps& pending) override {
    const Order before = threads_[step.thread];
    Order& now = threads_[step.thread];
    join_dependencies(now, step.done);
    now.last[step.thread] = static_cast<EventId>(events_.size());
    if (!tree_.repeating()) find_races(step, before, now);
    append(step, now);
    fall_asleep(step, pending);
  }

  void released_by_last_step(ThreadId thread) override {
    threads_[thread].join(events_.back().before);
  }

  void released_by_standstill(ThreadId thread) override {
    for (const Order& other : threads_) threads_[thread].join(other);
  }

  bool next() override { return tree_.next(); }

 private:
  [[nodiscard]] const Event& event(EventId id) const {
    return events_[static_cast<std::size_t>(id)];
  }

  PlaceOrders& orders_at(PlaceId place) {
    for (; places_used_ <= place; ++places_used_) {
      if (places_used_ == places_.size()) places_.emplace_back();
      places_[places_used_] = {};
    }
    return places_[place];
  }

  void join_dependencies(Order& order, const Footprint& step) {
    using F = Footprint;
    if (step.order != F::Order::plain) order.join(sc_fences_);
    if (step.order == F::Order::sc_fence) order.join(sc_accesses_);
    if (step.place == kNoPlace) return;
    const PlaceOrders& place = orders_at(step.place);
    if (step.value != F::Value::none) order.join(place.writes);
    if (step.writes()) order.join(place.reads);
    if (step.order == F::Order::sc_access) order.join(place.open_sc_reads);
    if (step.touches_queue()) order.join(place.wakes);
    if (step.queue == F::Queue::wake) order.join(place.joins);
  }

  void append(const Step& step, const Order& now) {
    using F = Footprint;
    const auto id = static_cast<EventId>(events_.size());
    Event& added = events_.emplace_back(Event{step.done, step.thread, kNone, kNone, node_, now});
    if (step.done.order != F::Order::plain) {
      added.previous_sc = std::exchange(newest_sc_, id);
      (step.done.order == F::Order::sc_fence ? sc_fences_ : sc_accesses_).join(now);
    }
    if (step.done.place == kNoPlace) return;
    PlaceOrders& place = orders_at(step.done.place);
    added.previous_at_place = std::exchange(place.newest, id);
    if (step.done.value != F::Value::none)
      (step.done.writes() ? place.writes : place.reads).join(now);
    if (step.done.open_sc_read) place.open_sc_reads.join(now);
    if (step.done.touches_queue())
      (step.done.queue == F::Queue::wake ? place.wakes : place.joins).join(now);
  }

  // Looks at the earlier events the step depends on, newest first. `seen` grows by each race found,
  // so that what lies before that race is not reversed on its own: it will be when the time comes.
  void find_races(const Step& step, const Order& before, const Order& now) {
    Order seen = before;
    EventId by_place = step.done.place == kNoPlace ? kNone : orders_at(step.done.place).newest;
    EventId by_sc = step.done.order == Footprint::Order::plain ? kNone : newest_sc_;
    while (by_place != kNone || by_sc != kNone) {
      const EventId id = std::max(by_place, by_sc);
      const Event& earlier = event(id);
      if (id == by_place) by_place = earlier.previous_at_place;
      if (id == by_sc) by_sc = earlier.previous_sc;
      if (!dependent(earlier.done, step.done) || only_enables(earlier.done, step.done)) continue;
      if (seen.last[earlier.thread] < id) {
        reverse(id, step.thread, now);
        seen.join(earlier.before);
      }
      // A write comes after everything older at its place, a fence after every older seq_cst event.
      if (earlier.done.writes() && !step.done.touches_queue()) by_place = kNone;
      if (earlier.done.order == Footprint::Order::sc_fence) by_sc = kNone;
    }
  }

  // Makes sure that the state before `earlier` explores a thread that leads to the other order.
  void reverse(EventId earlier, ThreadId thread, const Order& now) {
    DecisionTree::Node& node = tree_[event(earlier).node];
    const ThreadSet leads_there = initials(earlier, thread, now);
    if ((leads_there & node.to_explore) != 0) return;
    const ThreadSet possible = leads_there & node.enabled;
    if (has(possible, thread))
      node.to_explore |= bit(thread);
    else
      node.to_explore |= possible != 0 ? bit(lowest(possible)) : node.enabled;
  }

  // The threads that can begin the sequence made of all events after `avoid` that do not depend on
  // it, followed by the step of `thread`.
  [[nodiscard]] ThreadSet initials(EventId avoid, ThreadId thread, const Order& now) const {
    const ThreadId avoided = event(avoid).thread;
    std::array<EventId, kMaxThreads> first{};
    ThreadSet begun = 0;
    ThreadSet result = 0;
    const auto consider = [&](ThreadId t, const Order& order, EventId id) {
      bool free = true;
      for (ThreadSet others = begun; others != 0; others &= others - 1) {
        const ThreadId other = lowest(others);
        free = free && order.last[other] < first[other];
      }
      if (free) result |= bit(t);
      begun |= bit(t);
      first[t] = id;
    };
    for (auto id = static_cast<std::size_t>(avoid) + 1; id < events_.size(); ++id) {
      const Event& later = events_[id];
      if (later.before.last[avoided] >= avoid || has(begun, later.thread)) continue;
      consider(later.thread, later.before, static_cast<EventId>(id));
    }
    if (!has(begun, thread)) consider(thread, now, kNone);
    return result;
  }

  // The threads explored here before this step need not be tried again after it, as long as what
  // they would do commutes with what has happened.
  void fall_asleep(const Step& step, const PendingSteps& pending) {
    const DecisionTree::Node& node = tree_[node_];
    ThreadSet candidates = (node.asleep | node.explored) & ~bit(step.thread);
    asleep_ = 0;
    for (; candidates != 0; candidates &= candidates - 1) {
      const ThreadId thread = lowest(candidates);
      if (!dependent(step.done, pending[thread])) asleep_ |= bit(thread);
    }
  }

  DecisionTree tree_;
  ThreadSet asleep_ = 0;
  std::uint32_t node_ = 0;
  std::vector<Event> events_;
  std::vector<PlaceOrders> places_;
  unsigned places_used_ = 0;
  EventId newest_sc_ = kNone;
  Order sc_fences_, sc_accesses_;
  std::array<Order, kMaxThreads> threads_{};
};

}  // namespace

std::unique_ptr<Search> dpor_search() { return std::make_unique<DporSearch>(); }

}  // namespace weft::model
