// The C++20 memory model a second time, as axioms instead of views: a brute-force list of all
// consistent executions of a tiny program. Slow, and independent of everything in the explorer, so
// that the two can check each other.
//
// An execution is a choice of rf (which store each read reads) and mo (a modification order per
// location). It is consistent if it satisfies [intro.races] and [atomics.order]. The explorer's
// declared limits are one more axiom: sb, rf, mo and S together have no cycle, because the explorer
// executes things in an order that respects all four.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "explorer/selftest/random_program.hpp"

namespace weft::model::selftest {

// A relation over at most 32 events: row i holds the successors of i.
class Relation {
 public:
  explicit Relation(unsigned size) : rows_(size) {}

  void add(unsigned from, unsigned to) { rows_[from] |= 1U << to; }
  [[nodiscard]] bool has(unsigned from, unsigned to) const { return (rows_[from] >> to) & 1; }

  friend Relation operator|(Relation left, const Relation& right) {
    for (unsigned i = 0; i < left.rows_.size(); ++i) left.rows_[i] |= right.rows_[i];
    return left;
  }
  [[nodiscard]] Relation closure() const {
    Relation all = *this;
    for (unsigned middle = 0; middle < rows_.size(); ++middle)
      for (auto& row : all.rows_)
        if ((row >> middle) & 1) row |= all.rows_[middle];
    return all;
  }
  [[nodiscard]] bool acyclic() const {
    const Relation all = closure();
    for (unsigned i = 0; i < rows_.size(); ++i)
      if (all.has(i, i)) return false;
    return true;
  }

 private:
  std::vector<std::uint32_t> rows_;
};

class Axioms {
 public:
  explicit Axioms(const RandomProgram& program) : sb_(0) {
    for (unsigned location = 0; location < kLocations; ++location)
      events_.push_back({{Op::store, location, 0, std::memory_order_relaxed}, kInitial});
    for (unsigned thread = 0; thread < program.size(); ++thread)
      for (const Instruction& instruction : program[thread])
        events_.push_back({instruction, thread});
    sb_ = Relation(size());
    for (unsigned i = 0; i < size(); ++i)
      for (unsigned j = std::max(i + 1, kLocations); j < size(); ++j)
        if (events_[i].thread == kInitial || events_[i].thread == events_[j].thread) sb_.add(i, j);
  }

  // All outcomes of consistent executions that the explorer claims to produce.
  [[nodiscard]] Outcomes outcomes() {
    orders_.fill({});
    outcomes_.clear();
    choose_modification_order(0);
    return outcomes_;
  }

 private:
  static constexpr unsigned kInitial = ~0U;
  struct Event {
    Instruction in;
    unsigned thread;
  };

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(events_.size()); }
  [[nodiscard]] bool writes(unsigned e) const {
    return events_[e].in.op == Op::store || events_[e].in.op == Op::exchange;
  }
  [[nodiscard]] bool reads(unsigned e) const {
    return events_[e].in.op == Op::load || events_[e].in.op == Op::exchange;
  }
  [[nodiscard]] bool fences(unsigned e) const { return events_[e].in.op == Op::fence; }
  [[nodiscard]] bool sc(unsigned e) const {
    return events_[e].in.order == std::memory_order_seq_cst;
  }
  [[nodiscard]] bool acquires(unsigned e) const {
    const auto order = events_[e].in.order;
    return order == std::memory_order_acquire || order == std::memory_order_acq_rel || sc(e);
  }
  [[nodiscard]] bool releases(unsigned e) const {
    const auto order = events_[e].in.order;
    return order == std::memory_order_release || order == std::memory_order_acq_rel || sc(e);
  }

  void choose_modification_order(unsigned location) {
    if (location == kLocations) {
      source_.assign(size(), 0);
      choose_source(kLocations);
      return;
    }
    std::vector<unsigned> stores;
    for (unsigned e = kLocations; e < size(); ++e)
      if (writes(e) && events_[e].in.location == location) stores.push_back(e);
    do {
      orders_[location].assign(1, location);  // the initial value comes first
      orders_[location].insert(orders_[location].end(), stores.begin(), stores.end());
      choose_modification_order(location + 1);
    } while (std::next_permutation(stores.begin(), stores.end()));
  }

  void choose_source(unsigned e) {
    if (e == size()) {
      judge();
    } else if (!reads(e)) {
      choose_source(e + 1);
    } else {
      const auto& order = orders_[events_[e].in.location];
      for (unsigned at = 0; at < order.size(); ++at) {
        // A read-modify-write reads the store just before its own.
        if (writes(e) && (at + 1 == order.size() || order[at + 1] != e)) continue;
        source_[e] = order[at];
        choose_source(e + 1);
      }
    }
  }

  void judge() {
    const unsigned n = size();
    Relation rf(n), mo(n), rb(n);
    for (const auto& order : orders_)
      for (unsigned i = 0; i < order.size(); ++i)
        for (unsigned j = i + 1; j < order.size(); ++j) mo.add(order[i], order[j]);
    for (unsigned e = 0; e < n; ++e) {
      if (!reads(e)) continue;
      rf.add(source_[e], e);
      for (unsigned newer = 0; newer < n; ++newer)
        if (newer != e && mo.has(source_[e], newer)) rb.add(e, newer);
    }
    const Relation hb = (sb_ | synchronizes_with()).closure();
    const Relation cob = (rf | mo | rb).closure();  // coherence-ordered before
    for (unsigned a = 0; a < n; ++a)
      for (unsigned b = 0; b < n; ++b)
        if (hb.has(a, b) && (b == a || cob.has(b, a))) return;
    if ((sb_ | rf | mo | required_of_s(hb, cob)).acyclic()) outcomes_.insert(outcome());
  }

  // [atomics.order] 2 and [atomics.fences]: a release (or the store after a release fence), its
  // release sequence, and an acquire (or the acquire fence after the load) that reads from it.
  [[nodiscard]] Relation synchronizes_with() const {
    Relation sw(size());
    for (unsigned read = kLocations; read < size(); ++read) {
      if (!reads(read)) continue;
      for (unsigned head = source_[read];; head = source_[head]) {
        for (unsigned from = kLocations; from < size(); ++from)
          for (unsigned to = kLocations; to < size(); ++to)
            if (released_by(from, head) && acquired_by(to, read) &&
                events_[from].thread != events_[to].thread)
              sw.add(from, to);
        if (events_[head].in.op != Op::exchange) break;  // it heads the sequence itself
      }
    }
    return sw;
  }
  [[nodiscard]] bool released_by(unsigned e, unsigned store) const {
    return releases(e) && (e == store || (fences(e) && sb_.has(e, store)));
  }
  [[nodiscard]] bool acquired_by(unsigned e, unsigned load) const {
    return acquires(e) && (e == load || (fences(e) && sb_.has(load, e)));
  }

  // [atomics.order] 4: what the single total order S of seq_cst operations must respect.
  [[nodiscard]] Relation required_of_s(const Relation& hb, const Relation& cob) const {
    Relation s(size());
    const auto is_sc_fence = [&](unsigned e) { return fences(e) && sc(e); };
    for (unsigned a = 0; a < size(); ++a)
      for (unsigned b = 0; b < size(); ++b) {
        if (!cob.has(a, b)) continue;
        if (sc(a) && sc(b)) s.add(a, b);
        for (unsigned x = 0; x < size(); ++x) {
          if (is_sc_fence(x) && sc(a) && hb.has(b, x)) s.add(a, x);
          if (!is_sc_fence(x) || !hb.has(x, a)) continue;
          if (sc(b)) s.add(x, b);
          for (unsigned y = 0; y < size(); ++y)
            if (is_sc_fence(y) && hb.has(b, y)) s.add(x, y);
        }
      }
    return s;
  }

  [[nodiscard]] std::vector<std::uint32_t> outcome() const {
    std::vector<std::uint32_t> values;
    for (unsigned e = kLocations; e < size(); ++e)
      if (reads(e)) values.push_back(events_[source_[e]].in.value);
    for (const auto& order : orders_) values.push_back(events_[order.back()].in.value);
    return values;
  }

  std::vector<Event> events_;
  Relation sb_;
  std::array<std::vector<unsigned>, kLocations> orders_;
  std::vector<unsigned> source_;  // of each read
  Outcomes outcomes_;
};

}  // namespace weft::model::selftest
