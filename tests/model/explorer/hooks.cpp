#include "explorer/hooks.hpp"

#include <cstring>

#include "explorer/api.hpp"
#include "explorer/execution.hpp"

namespace weft::model {

void check(bool holds, const char* message, Site site) {
  if (!holds) raise({.kind = Failure::assertion, .text = message, .site = site});
}

unsigned choose(unsigned count, Site site) {
  const Door door;
  return running() ? running()->choose(count, site) : 0;
}

void*& thread_slot() noexcept {
  static void* outside = nullptr;
  return running() ? running()->slot() : outside;
}

void name(const void* object, const char* text) {
  const Door door;
  if (running()) running()->name(object, text);
}

namespace hook {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr OpKind op_kind(Modify how) noexcept {
  switch (how) {
    case Modify::exchange: return OpKind::exchange;
    case Modify::add: return OpKind::fetch_add;
    case Modify::sub: return OpKind::fetch_sub;
    case Modify::bit_or: return OpKind::fetch_or;
    case Modify::bit_and: return OpKind::fetch_and;
    case Modify::bit_xor: return OpKind::fetch_xor;
  }
  return OpKind::exchange;
}

constexpr PlaceKind place_kind(Object kind) noexcept {
  switch (kind) {
    case Object::atomic: return PlaceKind::atomic;
    case Object::var: return PlaceKind::var;
    case Object::lock: return PlaceKind::lock;
  }
  return PlaceKind::unknown;
}

}  // namespace

bool active() noexcept { return running() != nullptr; }
bool program_runs() noexcept { return g_program_runs; }
bool is_made(const void* object) noexcept { return active() && running()->owns(object); }

std::uint64_t load(const void* atomic, std::uint64_t initial, std::memory_order order, Site site) {
  const Door door;
  return running()->load(atomic, initial, {OpKind::load, order, site});
}

void store(const void* atomic, std::uint64_t initial, std::uint64_t value, std::memory_order order,
           Site site) {
  const Door door;
  running()->store(atomic, initial, value, {OpKind::store, order, site});
}

std::uint64_t modify(const void* atomic, std::uint64_t initial, Modify how, std::uint64_t operand,
                     std::uint64_t mask, std::memory_order order, Site site) {
  const Door door;
  return running()->modify(atomic, initial, operand, mask, {op_kind(how), order, site});
}

bool compare_exchange(const void* atomic, std::uint64_t initial, std::uint64_t& expected,
                      std::uint64_t desired, CasStrength strength, std::memory_order success,
                      std::memory_order failure, Site site) {
  const Door door;
  const OpKind kind = strength == CasStrength::weak ? OpKind::cas_weak : OpKind::cas_strong;
  return running()->compare_exchange(atomic, initial, expected, desired, failure,
                                     {kind, success, site});
}

void fence(std::memory_order order, Site site) {
  const Door door;
  if (active()) running()->fence({OpKind::fence, order, site});
}

void construct(const void* object, Object kind, std::uint64_t initial, Site site) {
  const Door door;
  if (active()) running()->construct(object, place_kind(kind), initial, site);
}

void destroy(const void* object, Site site) {
  const Door door;
  if (active()) running()->destroy(object, site);
}

void read_var(const void* var, Site site) {
  const Door door;
  if (active()) running()->use_var(var, {OpKind::var_read, kRelaxed, site});
}

void write_var(const void* var, Site site) {
  const Door door;
  if (active()) running()->use_var(var, {OpKind::var_write, kRelaxed, site});
}

// Outside an execution there is one thread, and a Lock has nothing to do.
void lock(const void* lock, Site site) {
  const Door door;
  if (active()) running()->lock(lock, {OpKind::lock, std::memory_order_acquire, site});
}

bool try_lock(const void* lock, Site site) {
  const Door door;
  return !active() ||
         running()->try_lock(lock, {OpKind::try_lock, std::memory_order_acquire, site});
}

void unlock(const void* lock, Site site) {
  const Door door;
  if (active()) running()->unlock(lock, {OpKind::unlock, std::memory_order_release, site});
}

void sleep(const void* atomic, std::uint64_t initial, std::uint64_t seen, bool timed, Site site) {
  const Door door;
  constexpr std::uint64_t kLowHalf = 0xffff'ffff;
  if (active())
    running()->sleep(atomic, initial, seen, kLowHalf, timed, {OpKind::sleep, kRelaxed, site});
  else if (((initial ^ seen) & kLowHalf) == 0 && !timed)
    raise({.kind = Failure::deadlock, .text = "sleep() would never return", .site = site});
}

void wake(const void* atomic, unsigned sleepers, Site site) {
  const Door door;
  if (active()) running()->wake(atomic, sleepers, {OpKind::wake, kRelaxed, site});
}

void spin(Site site) {
  const Door door;
  if (active()) running()->spin(site);
}

void* make(std::size_t bytes, std::size_t alignment, const char* type) {
  const Door door;
  if (!active())
    raise({.kind = Failure::assertion, .text = "model::make() works inside an execution only"});
  return running()->make(bytes, alignment, type);
}

void unmake(void* object, Site site) {
  const Door door;
  if (!active())
    raise({.kind = Failure::assertion, .text = "model::destroy() works inside an execution only"});
  const std::size_t bytes = running()->unmake(object, site);
  constexpr int kDeadByte = 0xDD;
  std::memset(object, kDeadByte, bytes);
}

}  // namespace hook
}  // namespace weft::model
