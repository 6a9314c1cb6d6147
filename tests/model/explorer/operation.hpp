// Operations as the search sees them: what they touch, and which pairs do not commute.
#pragma once

#include <cstdint>

#include "explorer/limits.hpp"

namespace weft::model {

enum class OpKind : std::uint8_t {
  start,
  load,
  store,
  exchange,
  fetch_add,
  fetch_sub,
  fetch_or,
  fetch_and,
  fetch_xor,
  cas_weak,
  cas_strong,
  fence,
  lock,
  try_lock,
  unlock,
  sleep,
  wake,
  spin,
  var_read,
  var_write,
  choose,
};

// What a step touches. Before a step runs its footprint is a promise of the worst case (a
// compare-exchange may write); afterwards it is what really happened (it failed, and only read).
struct Footprint {
  enum class Value : std::uint8_t { none, read, write };
  enum class Queue : std::uint8_t { none, join, wake };  // the kernel's queue of sleepers
  enum class Order : std::uint8_t { plain, sc_access, sc_fence };

  PlaceId place = kNoPlace;
  Value value = Value::none;
  Queue queue = Queue::none;
  Order order = Order::plain;
  bool open_sc_read = false;  // a seq_cst load that still had several stores to choose from
  bool waits_for_lock = false;
  bool frees_lock = false;

  [[nodiscard]] bool writes() const noexcept { return value == Value::write; }
  [[nodiscard]] bool touches_queue() const noexcept { return queue != Queue::none; }
};

// Do `first` and a later `second` of another thread fail to commute?
//
// Two seq_cst loads of one location commute only if the first had no choice: otherwise the store it
// picks bounds what the second may read, so both orders must be tried.
[[nodiscard]] inline bool dependent(const Footprint& first, const Footprint& second) noexcept {
  using F = Footprint;
  const bool fenced = first.order == F::Order::sc_fence || second.order == F::Order::sc_fence;
  if (fenced && first.order != F::Order::plain && second.order != F::Order::plain) return true;
  if (first.place != second.place || first.place == kNoPlace) return false;
  if (first.value != F::Value::none && second.value != F::Value::none) {
    if (first.writes() || second.writes()) return true;
    if (first.open_sc_read && second.order == F::Order::sc_access) return true;
  }
  const bool wakes = first.queue == F::Queue::wake || second.queue == F::Queue::wake;
  return wakes && first.touches_queue() && second.touches_queue();
}

// An unlock and the lock that waited for it do not commute, but neither can they be swapped: the
// race to reverse is with the earlier lock.
[[nodiscard]] inline bool only_enables(const Footprint& first, const Footprint& second) noexcept {
  return first.frees_lock && second.waits_for_lock;
}

}  // namespace weft::model
