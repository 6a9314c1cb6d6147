// The threads' side of an execution: every operation the program under test can make.
//
// Each follows one pattern: reach() the scheduling point with the worst case it may turn into, be
// picked, take effect (asking the search for values), and say what it did().
#include "explorer/execution.hpp"

namespace weft::model {
namespace {

using F = Footprint;

Footprint touch(PlaceId place, F::Value value, bool sc) noexcept {
  Footprint footprint;
  footprint.place = place;
  footprint.value = value;
  footprint.order = sc ? F::Order::sc_access : F::Order::plain;
  return footprint;
}

std::uint64_t combine(OpKind kind, std::uint64_t old, std::uint64_t operand) noexcept {
  switch (kind) {
    case OpKind::fetch_add: return old + operand;
    case OpKind::fetch_sub: return old - operand;
    case OpKind::fetch_or: return old | operand;
    case OpKind::fetch_and: return old & operand;
    case OpKind::fetch_xor: return old ^ operand;
    default: return operand;
  }
}

}  // namespace

// ---- the pattern --------------------------------------------------------------------------------

PlaceId Execution::place_of(const void* address, PlaceKind kind, std::uint64_t initial) {
  const PlaceId id = memory_.find(address);
  if (memory_[id].kind == PlaceKind::unknown) memory_.adopt(id, kind, initial);
  return id;
}

void Execution::reach(const Footprint& pending, const OpInfo& op) {
  // Set-up and final checks run alone: there is nothing to schedule.
  if (current_ == kMainThread) return;
  Thread& thread = current();
  thread.state = ThreadState::ready;
  thread.pending_kind = op.kind;
  thread.place = pending.place;
  thread.site = op.site;
  thread.moved_since_spin = true;
  pending_[current_] = pending;
  leave();
}

unsigned Execution::pick(unsigned count) {
  if (count <= 1) return 0;
  const unsigned chosen = search_->pick_value(count);
  if (chosen >= count) fail({.kind = Failure::replay, .text = kDoesNotFit});
  schedule_.push_back({false, chosen});
  return chosen;
}

bool Execution::may_be_spurious() noexcept {
  return current_ != kMainThread && current().spurious < rules_.spurious_limit;
}

void Execution::note(const OpInfo& op, PlaceId place, const TraceValues& values) {
  if (trace_)
    trace_->entries.push_back({steps_, current_, op.kind, op.order, place, op.site, values});
}

TraceValues values_of(const Store& read, Stamp newest) noexcept {
  TraceValues values;
  values.value = read.value;
  values.from = read.stamp;
  values.newest = newest;
  values.writer = read.thread;
  values.writer_site = read.site;
  return values;
}

// ---- atomics ------------------------------------------------------------------------------------

std::uint64_t Execution::load(const void* address, std::uint64_t initial, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::atomic, initial);
  Footprint step = touch(id, F::Value::read, is_sc(op.order));
  reach(step, op);
  ThreadViews& views = current().views;
  memory_.use(id, current_, views, op.site);
  Place& place = memory_[id];
  step.open_sc_read = is_sc(op.order) && memory_.sc_read_is_open(place);
  const unsigned back = pick(memory_.readable(place, views, op.order));
  const Store& store = memory_.read(place, back, views, op.order);
  did(step);
  note(op, id, values_of(store, place.newest->stamp));
  return store.value;
}

void Execution::store(const void* address, std::uint64_t initial, std::uint64_t value, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::atomic, initial);
  const Footprint step = touch(id, F::Value::write, is_sc(op.order));
  reach(step, op);
  ThreadViews& views = current().views;
  memory_.use(id, current_, views, op.site);
  memory_.write(id, value, current_, views, op.order, op.site);
  did(step);
  note(op, id, values_of(*memory_[id].newest, memory_[id].newest->stamp));
}

std::uint64_t Execution::modify(const void* address, std::uint64_t initial, std::uint64_t operand,
                                std::uint64_t mask, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::atomic, initial);
  const Footprint step = touch(id, F::Value::write, is_sc(op.order));
  reach(step, op);
  ThreadViews& views = current().views;
  memory_.use(id, current_, views, op.site);
  const Store& old = memory_.read(memory_[id], 0, views, op.order);
  memory_.write(id, combine(op.kind, old.value, operand) & mask, current_, views, op.order, op.site,
                &old);
  did(step);
  TraceValues values = values_of(old, old.stamp);
  values.operand = operand & mask;
  note(op, id, values);
  return old.value;
}

// Succeeds on the newest store only. Otherwise it is a load, and like any load may read an older
// store that does not hold the expected value, even if the newest one does.
bool Execution::compare_exchange(const void* address, std::uint64_t initial,
                                 std::uint64_t& expected, std::uint64_t desired,
                                 std::memory_order failure, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::atomic, initial);
  Footprint step = touch(id, F::Value::write, is_sc(op.order) || is_sc(failure));
  reach(step, op);
  ThreadViews& views = current().views;
  memory_.use(id, current_, views, op.site);
  Place& place = memory_[id];
  const CasChoice choice = choose_cas(place, expected, op.kind, failure);
  const std::memory_order order = choice.succeeds ? op.order : failure;
  step.value = choice.succeeds ? F::Value::write : F::Value::read;
  step.order = is_sc(order) ? F::Order::sc_access : F::Order::plain;
  step.open_sc_read = !choice.succeeds && is_sc(order) && memory_.sc_read_is_open(place);
  did(step);

  const Stamp newest = place.newest->stamp;
  const Store& read = memory_.read(place, choice.back, views, order);
  if (choice.succeeds) memory_.write(id, desired, current_, views, order, op.site, &read);
  TraceValues values = values_of(read, newest);
  values.operand = choice.succeeds ? desired : expected;
  values.ending = choice.succeeds   ? Ending::plain
                  : choice.spurious ? Ending::spurious
                                    : Ending::failed;
  note({op.kind, order, op.site}, id, values);
  expected = read.value;
  return choice.succeeds;
}

// In this order: success, each readable store that differs from the newest on, spurious failure.
Execution::CasChoice Execution::choose_cas(const Place& place, std::uint64_t expected, OpKind kind,
                                           std::memory_order failure) {
  const bool can_succeed = place.newest->value == expected;
  const bool can_fail_spuriously =
      can_succeed && kind == OpKind::cas_weak && rules_.weak_cas && may_be_spurious();
  unsigned differing = 0;
  const Store* store = place.newest;
  for (unsigned n = memory_.readable(place, current().views, failure); n > 0; --n) {
    if (store->value != expected) ++differing;
    store = store->older;
  }
  unsigned choice = pick((can_succeed ? 1U : 0U) + differing + (can_fail_spuriously ? 1U : 0U));
  if (can_succeed && choice-- == 0) return {.succeeds = true};
  if (choice == differing) {
    ++current().spurious;
    return {.spurious = true};
  }
  unsigned back = 0;
  for (store = place.newest; store->value == expected || choice-- > 0; store = store->older) ++back;
  return {.back = back};
}

void Execution::fence(OpInfo op) {
  if (is_sc(op.order)) {
    Footprint step;
    step.order = F::Order::sc_fence;
    reach(step, op);
    did(step);
  }
  memory_.fence(current_, current().views, op.order);
  note(op, kNoPlace, {});
}

// ---- plain data and life ------------------------------------------------------------------------

void Execution::construct(const void* address, PlaceKind kind, std::uint64_t initial, Site site) {
  memory_.construct(memory_.find(address), kind, initial, current_, current().views, site);
}

void Execution::destroy(const void* address, Site site) {
  memory_.destroy(memory_.find(address), current_, current().views, site);
}

void Execution::use_var(const void* address, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::var, 0);
  note(op, id, {});  // first, so that a trace that ends in a race shows both its sides
  if (op.kind == OpKind::var_write)
    memory_.write_var(id, current_, current().views, op.site);
  else
    memory_.read_var(id, current_, current().views, op.site);
}

void* Execution::make(std::size_t bytes, std::size_t alignment, const char* type) {
  void* const address = arena_.allocate(bytes, alignment);
  objects_.push_back({address, bytes, type, true});
  return address;
}

std::size_t Execution::unmake(void* address, Site site) {
  for (Object& object : objects_) {
    if (object.address != address) continue;
    if (!object.alive)
      fail({.kind = Failure::use_after_free, .text = "destroyed twice", .site = site});
    object.alive = false;
    memory_.destroy_range(address, object.bytes, current_, current().views, site);
    return object.bytes;
  }
  fail({.kind = Failure::use_after_free,
        .text = "destroy() of something make() did not make",
        .site = site});
}

// ---- locks --------------------------------------------------------------------------------------

void Execution::lock(const void* address, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::lock, 0);
  Footprint step = touch(id, F::Value::write, false);
  step.waits_for_lock = true;
  reach(step, op);
  memory_.use(id, current_, current().views, op.site);
  if (memory_.held(id))  // only set-up and final checks get here: nobody else can ever unlock
    fail({.kind = Failure::deadlock, .text = "locked twice", .place = id, .site = op.site});
  memory_.acquire_lock(memory_[id], current_, current().views);
  ++current().locks_held;
  did(step);
  note(op, id, {});
}

bool Execution::try_lock(const void* address, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::lock, 0);
  Footprint step = touch(id, F::Value::write, false);
  reach(step, op);
  memory_.use(id, current_, current().views, op.site);
  TraceValues values;
  const bool free = !memory_.held(id);
  if (free) {
    memory_.acquire_lock(memory_[id], current_, current().views);
    ++current().locks_held;
  } else {
    step.value = F::Value::read;
    values.ending = Ending::failed;
  }
  did(step);
  note(op, id, values);
  return free;
}

void Execution::unlock(const void* address, OpInfo op) {
  const PlaceId id = place_of(address, PlaceKind::lock, 0);
  Footprint step = touch(id, F::Value::write, false);
  step.frees_lock = true;
  reach(step, op);
  memory_.use(id, current_, current().views, op.site);
  if (memory_[id].holder != current_)
    fail({.kind = Failure::lock_misuse,
          .text = "unlock() by a thread that does not hold the Lock",
          .place = id,
          .site = op.site,
          .other = memory_[id].holder});
  memory_.release_lock(memory_[id], current_, current().views);
  --current().locks_held;
  did(step);
  note(op, id, {});
}

// ---- choices, names, set-up ---------------------------------------------------------------------

unsigned Execution::choose(unsigned count, Site site) {
  const unsigned chosen = pick(count);
  TraceValues values;
  values.value = chosen;
  values.operand = count;
  note({OpKind::choose, std::memory_order_relaxed, site}, kNoPlace, values);
  return chosen;
}

void Execution::name(const void* address, const char* text) {
  if (trace_) trace_->names[memory_.find(address)] = text;
}

void Execution::add_thread(const char* name, void (*function)(void*), void* closure) {
  if (thread_count_ + 1 == kMaxThreads) fail({.kind = Failure::limit, .text = "too many threads"});
  const auto id = static_cast<ThreadId>(++thread_count_);
  prepare(id, &enter_thread);
  threads_[id].name = name;
  threads_[id].function = function;
  threads_[id].closure = closure;
}

}  // namespace weft::model
