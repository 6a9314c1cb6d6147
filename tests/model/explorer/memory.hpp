// Memory: the C++ memory model, executed.
//
// Each Atomic keeps its stores in the order they were executed, and each store carries a view. A
// load may read any store that its thread's view does not exclude; which one is up to the search.
// Objects are known by address alone: so Atomic<T>, Var<T> and Lock are exactly as large as their
// product twins, and an access through a dangling pointer is recognised whatever bytes lie there.
//
// What is not modelled: load buffering (a load never reads a store that is executed later), and any
// modification order other than the order of execution.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "explorer/fault.hpp"
#include "explorer/limits.hpp"
#include "explorer/view.hpp"

namespace weft::model {

[[nodiscard]] constexpr bool acquires(std::memory_order order) noexcept {
  return order == std::memory_order_acquire || order == std::memory_order_consume ||
         order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
[[nodiscard]] constexpr bool releases(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
[[nodiscard]] constexpr bool is_sc(std::memory_order order) noexcept {
  return order == std::memory_order_seq_cst;
}

struct Store {
  std::uint64_t value;
  Store* older;
  Site site;
  Stamp stamp;
  ThreadId thread;
  View view;  // what a thread that acquires this store learns
};

enum class PlaceKind : std::uint8_t { unknown, atomic, var, lock };

// Everything known about one address.
struct Place {
  const void* address;
  PlaceKind kind;
  bool alive;
  ThreadId born_by;
  ThreadId holder;  // Lock: who holds it
  ThreadId writer;  // Var: the last write
  Epoch born_at;
  Epoch written_at;
  Slot slot;            // Atomic; kept when the address is used again
  Stamp first_stamp;    // Atomic: the present object's initial value
  Stamp wake_floor;     // Atomic: the newest store known to any earlier wake()
  Store* newest;        // Atomic: its stores, linked from new to old
  Store* last_unlock;   // Lock: carries the view of the last holder
  VectorClock touched;  // each thread's last access (Var: last read)
  std::array<Site, kMaxThreads> touched_at;
  Site written_site;
};

// The views of one thread.
struct ThreadViews {
  View now;           // what it may read, what happened before it
  View unacquired;    // from relaxed loads; an acquire fence moves it into `now`
  View last_release;  // `now` at the last release fence; relaxed stores carry it

  void clear() noexcept {
    now.clear();
    unacquired.clear();
    last_release.clear();
  }
};

class Memory {
 public:
  Memory();
  void reset() noexcept;

  // The place of an address. It may be unknown, dead or of another kind: see use().
  [[nodiscard]] PlaceId find(const void* address);
  [[nodiscard]] Place& operator[](PlaceId id) noexcept { return places_[id]; }
  [[nodiscard]] unsigned places() const noexcept { return place_count_; }

  // Life. A place that was never constructed in this execution (a static object) counts as
  // constructed before it began. construct() over a living object ends that object first.
  void construct(PlaceId id, PlaceKind kind, std::uint64_t initial, ThreadId thread,
                 ThreadViews& views, Site site);
  void adopt(PlaceId id, PlaceKind kind, std::uint64_t initial);
  void destroy(PlaceId id, ThreadId thread, const ThreadViews& views, Site site);
  void destroy_range(const void* begin, std::size_t bytes, ThreadId thread,
                     const ThreadViews& views, Site site);
  // Checks that the object lives and that its construction happened before; notes the access.
  void use(PlaceId id, ThreadId thread, const ThreadViews& views, Site site);

  // Atomics. `back` counts stores from the newest; the search picks it from [0, readable()).
  [[nodiscard]] unsigned readable(const Place& place, const ThreadViews& views,
                                  std::memory_order order) const noexcept;
  [[nodiscard]] bool sc_read_is_open(const Place& place) const noexcept {
    return sc_.floor(place.slot) < place.newest->stamp;
  }
  const Store& read(Place& place, unsigned back, ThreadViews& views, std::memory_order order);
  void write(PlaceId id, std::uint64_t value, ThreadId thread, ThreadViews& views,
             std::memory_order order, Site site, const Store* continues = nullptr);
  void fence(ThreadId thread, ThreadViews& views, std::memory_order order);

  // Plain data.
  void read_var(PlaceId id, ThreadId thread, const ThreadViews& views, Site site);
  void write_var(PlaceId id, ThreadId thread, const ThreadViews& views, Site site);

  // Locks.
  [[nodiscard]] bool held(PlaceId id) const noexcept { return places_[id].holder != kNoThread; }
  void acquire_lock(Place& place, ThreadId thread, ThreadViews& views);
  void release_lock(Place& place, ThreadId thread, ThreadViews& views);

  // After this the views exclude every store but the newest of each Atomic.
  void catch_up(ThreadViews& views) noexcept;

 private:
  Place& add_place(const void* address);
  Store& new_store();
  Store& add_store(Place& place, std::uint64_t value, ThreadId thread, Site site);
  void check_unused(PlaceId id, ThreadId thread, const ThreadViews& views, Failure kind,
                    const char* text, Site site);

  static constexpr unsigned kTableSize = kMaxPlaces * 4;
  struct Entry {
    const void* address;
    std::uint32_t generation;  // entries of earlier executions are void
    PlaceId id;
  };

  std::vector<Entry> table_;
  std::unique_ptr<Place[]> places_;
  unsigned place_count_ = 0;
  unsigned slot_count_ = 0;
  std::uint32_t generation_ = 0;
  std::array<PlaceId, kMaxAtomics> place_of_slot_;
  std::deque<Store> stores_;  // grows to the longest execution, and is then reused
  std::size_t store_count_ = 0;
  View sc_;  // per Atomic, the newest store that the order S has passed
};

}  // namespace weft::model
