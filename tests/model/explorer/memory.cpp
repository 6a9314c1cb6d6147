#include "explorer/memory.hpp"

namespace weft::model {
namespace {

// What the thread does from here on is not part of what it has just released.
void advance(ThreadViews& views, ThreadId thread) {
  if (views.now.clock.at[thread] == kMaxEpoch)
    raise({.kind = Failure::limit, .text = "too many releases by one thread"});
  ++views.now.clock.at[thread];
}

}  // namespace

Memory::Memory() : table_(kTableSize), places_(new Place[kMaxPlaces]) {}

void Memory::reset() noexcept {
  ++generation_;
  place_count_ = slot_count_ = 0;
  store_count_ = 0;
  sc_.clear();
}

PlaceId Memory::find(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  std::size_t at = ((bits >> 2) * 0x9E3779B97F4A7C15ULL) >> 50;
  static_assert(kTableSize == 1U << (64 - 50));
  for (;; at = (at + 1) % kTableSize) {
    Entry& entry = table_[at];
    if (entry.generation != generation_) {
      add_place(address);
      entry = {address, generation_, static_cast<PlaceId>(place_count_ - 1)};
      return entry.id;
    }
    if (entry.address == address) return entry.id;
  }
}

Place& Memory::add_place(const void* address) {
  if (place_count_ == kMaxPlaces)
    raise({.kind = Failure::limit, .text = "too many Atomic, Var and Lock addresses"});
  Place& place = places_[place_count_++];
  place.address = address;
  place.kind = PlaceKind::unknown;
  place.alive = false;
  place.holder = place.writer = kNoThread;
  place.wake_floor = 0;
  place.slot = kNoSlot;
  place.newest = place.last_unlock = nullptr;
  place.touched = {};
  return place;
}

Store& Memory::new_store() {
  if (store_count_ == stores_.size()) stores_.emplace_back();
  return stores_[store_count_++];
}

Store& Memory::add_store(Place& place, std::uint64_t value, ThreadId thread, Site site) {
  const int stamp = place.newest ? place.newest->stamp + 1 : 0;
  if (stamp > int{kMaxStamp})
    raise({.kind = Failure::limit, .text = "too many stores to one Atomic"});
  Store& store = new_store();
  store.value = value;
  store.older = place.newest;
  store.site = site;
  store.stamp = static_cast<Stamp>(stamp);
  store.thread = thread;
  place.newest = &store;
  return store;
}

// ---- life ---------------------------------------------------------------------------------------

void Memory::construct(PlaceId id, PlaceKind kind, std::uint64_t initial, ThreadId thread,
                       ThreadViews& views, Site site) {
  Place& place = places_[id];
  if (place.alive)
    check_unused(id, thread, views, Failure::race,
                 "storage is reused while another thread may still be using it", site);
  adopt(id, kind, initial);
  place.born_by = thread;
  place.born_at = views.now.clock.at[thread];
  if (kind == PlaceKind::atomic) {
    place.newest->thread = thread;
    place.newest->site = site;
    views.now.raise(place.slot, place.first_stamp);
  }
}

void Memory::adopt(PlaceId id, PlaceKind kind, std::uint64_t initial) {
  Place& place = places_[id];
  place.kind = kind;
  place.alive = true;
  place.born_by = kMainThread;
  place.born_at = 0;
  place.holder = place.writer = kNoThread;
  place.last_unlock = nullptr;
  place.touched = {};
  if (kind != PlaceKind::atomic) return;
  if (place.slot == kNoSlot) {
    if (slot_count_ == kMaxAtomics) raise({.kind = Failure::limit, .text = "too many Atomics"});
    place.slot = static_cast<Slot>(slot_count_);
    place_of_slot_[slot_count_++] = id;
  }
  // The stores of an earlier object at this address stay below the new one's first: a wake() that
  // names the old object by address still meets the sleepers of the new one, as in the kernel.
  Store& store = add_store(place, initial, kMainThread, Site{});
  store.view.clear();
  place.first_stamp = store.stamp;
}

void Memory::destroy(PlaceId id, ThreadId thread, const ThreadViews& views, Site site) {
  Place& place = places_[id];
  if (!place.alive) return;
  if (place.kind == PlaceKind::lock && place.holder != kNoThread)
    raise({.kind = Failure::abandoned_lock,
           .text = "the Lock is destroyed while it is held",
           .place = id,
           .site = site,
           .other = place.holder});
  check_unused(id, thread, views, Failure::use_after_free,
               "destroyed while another thread may still be using it", site);
  place.alive = false;
}

void Memory::destroy_range(const void* begin, std::size_t bytes, ThreadId thread,
                           const ThreadViews& views, Site site) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  for (unsigned id = 0; id < place_count_; ++id) {
    const auto at = reinterpret_cast<std::uintptr_t>(places_[id].address);
    if (at - first < bytes) destroy(static_cast<PlaceId>(id), thread, views, site);
  }
}

// The end of an object's life must come after its beginning and after every access to it, by
// happens-before and not by luck of the schedule; so the check does not depend on which of the two
// the search ran first.
void Memory::check_unused(PlaceId id, ThreadId thread, const ThreadViews& views, Failure kind,
                          const char* text, Site site) {
  const Place& place = places_[id];
  const VectorClock& clock = views.now.clock;
  if (!clock.reaches(place.born_by, place.born_at))
    raise({.kind = kind, .text = text, .place = id, .site = site, .other = place.born_by});
  for (ThreadId t = 0; t < kMaxThreads; ++t)
    if (t != thread && !clock.reaches(t, place.touched.at[t]))
      raise({.kind = kind,
             .text = text,
             .place = id,
             .site = site,
             .other = t,
             .other_site = place.touched_at[t]});
  if (place.kind == PlaceKind::var && place.writer != kNoThread && place.writer != thread &&
      !clock.reaches(place.writer, place.written_at))
    raise({.kind = kind,
           .text = text,
           .place = id,
           .site = site,
           .other = place.writer,
           .other_site = place.written_site});
}

void Memory::use(PlaceId id, ThreadId thread, const ThreadViews& views, Site site) {
  Place& place = places_[id];
  if (!place.alive)
    raise({.kind = Failure::use_after_free,
           .text = "used after it was destroyed",
           .place = id,
           .site = site});
  if (!views.now.clock.reaches(place.born_by, place.born_at))
    raise({.kind = Failure::race,
           .text = "used by a thread that need not see it constructed",
           .place = id,
           .site = site,
           .other = place.born_by});
  place.touched.at[thread] = views.now.clock.at[thread];
  place.touched_at[thread] = site;
}

// ---- atomics ------------------------------------------------------------------------------------

unsigned Memory::readable(const Place& place, const ThreadViews& views,
                          std::memory_order order) const noexcept {
  Stamp floor = std::max(views.now.floor(place.slot), place.first_stamp);
  if (is_sc(order)) floor = std::max(floor, sc_.floor(place.slot));
  return static_cast<unsigned>(place.newest->stamp - floor + 1);
}

const Store& Memory::read(Place& place, unsigned back, ThreadViews& views,
                          std::memory_order order) {
  const Store* store = place.newest;
  while (back-- > 0) store = store->older;
  views.now.raise(place.slot, store->stamp);
  (acquires(order) ? views.now : views.unacquired).join(store->view);
  // Coherence orders this load before every newer store; a later seq_cst operation that read
  // something older would have to come earlier in S.
  if (is_sc(order)) sc_.raise(place.slot, store->stamp);
  return *store;
}

void Memory::write(PlaceId id, std::uint64_t value, ThreadId thread, ThreadViews& views,
                   std::memory_order order, Site site, const Store* continues) {
  Place& place = places_[id];
  Store& store = add_store(place, value, thread, site);
  views.now.raise(place.slot, store.stamp);
  if (is_sc(order)) sc_.raise(place.slot, store.stamp);
  store.view = releases(order) ? views.now : views.last_release;
  store.view.raise(place.slot, store.stamp);
  // A read-modify-write continues the release sequence of the store it read.
  if (continues) store.view.join(continues->view);
  if (releases(order)) advance(views, thread);
}

void Memory::fence(ThreadId thread, ThreadViews& views, std::memory_order order) {
  if (acquires(order)) views.now.join(views.unacquired);
  if (is_sc(order)) {
    // S orders locations, it does not synchronise: the clocks stay apart.
    views.now.join_floors(sc_);
    sc_.join_floors(views.now);
  }
  if (releases(order)) {
    views.last_release = views.now;
    advance(views, thread);
  }
}

void Memory::catch_up(ThreadViews& views) noexcept {
  for (unsigned slot = 0; slot < slot_count_; ++slot)
    views.now.raise(static_cast<Slot>(slot), places_[place_of_slot_[slot]].newest->stamp);
}

// ---- plain data ---------------------------------------------------------------------------------

void Memory::read_var(PlaceId id, ThreadId thread, const ThreadViews& views, Site site) {
  use(id, thread, views, site);
  const Place& place = places_[id];
  if (place.writer != kNoThread && !views.now.clock.reaches(place.writer, place.written_at))
    raise({.kind = Failure::race,
           .text = "this read is not ordered after a write",
           .place = id,
           .site = site,
           .other = place.writer,
           .other_site = place.written_site});
}

void Memory::write_var(PlaceId id, ThreadId thread, const ThreadViews& views, Site site) {
  use(id, thread, views, site);
  Place& place = places_[id];
  const VectorClock& clock = views.now.clock;
  if (place.writer != kNoThread && !clock.reaches(place.writer, place.written_at))
    raise({.kind = Failure::race,
           .text = "this write is not ordered after another write",
           .place = id,
           .site = site,
           .other = place.writer,
           .other_site = place.written_site});
  for (ThreadId t = 0; t < kMaxThreads; ++t)
    if (!clock.reaches(t, place.touched.at[t]))
      raise({.kind = Failure::race,
             .text = "this write is not ordered after a read",
             .place = id,
             .site = site,
             .other = t,
             .other_site = place.touched_at[t]});
  place.writer = thread;
  place.written_at = clock.at[thread];
  place.written_site = site;
}

// ---- locks --------------------------------------------------------------------------------------

void Memory::acquire_lock(Place& place, ThreadId thread, ThreadViews& views) {
  place.holder = thread;
  if (place.last_unlock) views.now.join(place.last_unlock->view);
}

void Memory::release_lock(Place& place, ThreadId thread, ThreadViews& views) {
  place.holder = kNoThread;
  // Whoever locks next has seen every earlier holder, so one view stands for all of them.
  if (!place.last_unlock) place.last_unlock = &new_store();
  place.last_unlock->view = views.now;
  advance(views, thread);
}

}  // namespace weft::model
