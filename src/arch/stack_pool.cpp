// StackCache and StackPool: who holds the idle stacks, and what becomes of their pages.
//
// Idle stacks lie in the caches of their threads and, when a cache has too many, in the pool. Pages
// follow that: a cache's stacks are hot and keep theirs, but for a look at one of them every
// kInspectEvery * kSampleEvery gives; those in the pool are idle, and when kLookAt have come there
// and have not been taken again, one is looked at: if it was used deep, the deep pages of all go
// back to the kernel. A look costs as much as a hundred gives, which is why there are few.
#include <weft/arch/stack.hpp>

#include <weft/arch/fault.hpp>
#include <weft/arch/sanitizer.hpp>
#include "arch/stack_maker.hpp"
#include "arch/stack_pages.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace weft::arch {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kStackBytesLeast = 16 * kKiB;
constexpr std::size_t kGuardBytesLeast = 64 * kKiB;
constexpr std::size_t kBytesMost = kKiB * kKiB * kKiB;

constexpr std::size_t kRefill = 32;          // stacks that a cache takes from the pool at a time
constexpr std::size_t kCacheKeep = 32;       // stacks that a full cache keeps
constexpr std::size_t kCacheMost = 64;       // a cache with more is full
constexpr std::size_t kLookAt = 256;         // stacks of the pool, of which one tells for all
constexpr std::uint64_t kInspectEvery = 64;  // gives
constexpr std::uint64_t kSampleEvery = 64;   // inspections

std::size_t checked(const char* option, std::size_t value, std::size_t least, std::size_t most,
                    const char* unit) {
  if (value >= least && value <= most) return value;
  throw std::invalid_argument(std::string(option) + " = " +
                              std::to_string(value) + ": must be " + std::to_string(least) +
                              " to " + std::to_string(most) + unit);
}

std::size_t round_up(std::size_t bytes, std::size_t page_bytes) noexcept {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

StackLayout layout_for(const StackOptions& options) {
  checked("stack_bytes", options.stack_bytes, kStackBytesLeast, kBytesMost, " bytes");
  checked("guard_bytes", options.guard_bytes, kGuardBytesLeast, kBytesMost,
          " bytes (one large frame jumps a smaller guard)");
  checked("colours", options.colours, 1, kColoursMost, "");

  StackLayout layout{};
  layout.page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  layout.guard_bytes = round_up(options.guard_bytes, layout.page_bytes);
  layout.stack_bytes = round_up(options.stack_bytes, layout.page_bytes) + layout.page_bytes;
  layout.cell_bytes = layout.guard_bytes + layout.stack_bytes;
  // With an even number of pages, the tops of all stacks compete for a part of the TLB's sets. An
  // odd one spreads them over all: visiting 1000 stacks is three times faster.
  if (layout.cell_bytes / layout.page_bytes % 2 == 0) {
    layout.guard_bytes += layout.page_bytes;
    layout.cell_bytes += layout.page_bytes;
  }
  layout.keep_bytes = round_up(std::min(options.keep_bytes, kBytesMost), layout.page_bytes);
  layout.colours = options.colours;
  return layout;
}

// Whether each stack must be looked after when it is given, not one in many.
bool cleans_every_stack(const StackOptions& options) noexcept {
  return options.on_release != OnRelease::keep || kAsan;
}

std::uint64_t inspect_interval(const StackPool& pool) noexcept {
  return cleans_every_stack(pool.options()) ? 1 : kInspectEvery;
}

void add(Atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  // relaxed, no read-modify-write: one writer; partner is StackPool::statistics(), any old value.
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

// ── values ───────────────────────────────────────────────────────────────────────────────────────

void HighWater::add(std::size_t bytes) noexcept {
  bytes_max = std::max(bytes_max, bytes);
  ++samples;
  constexpr std::size_t kUnit = 4 * kKiB;
  const auto bucket = static_cast<std::size_t>(std::bit_width((bytes + kUnit - 1) / kUnit - 1));
  ++histogram[bytes <= kUnit ? 0 : std::min(bucket, histogram.size() - 1)];
}

StackChain StackChain::pop(std::size_t wanted) noexcept {
  if (wanted >= count) return std::exchange(*this, {});
  if (wanted == 0) return {};
  StackChain popped{head, head, wanted};
  for (std::size_t i = 1; i < wanted; ++i) popped.tail = popped.tail->next;
  head = popped.tail->next;
  count -= wanted;
  return popped;
}

// ── StackCache ───────────────────────────────────────────────────────────────────────────────────

StackCache::StackCache(StackPool& pool) noexcept
    : gives_left_(inspect_interval(pool)), gives_due_(inspect_interval(pool)), pool_(pool) {
  pool_.enrol(*this);
}

StackCache::~StackCache() {
  flush();
  pool_.dismiss(*this);
}

std::size_t StackCache::idle() const noexcept {
  // Seen by another thread, the four may be of different ages; a sum below zero is that.
  const std::uint64_t gives =
      gives_due_.load(std::memory_order_relaxed) - gives_left_.load(std::memory_order_relaxed);
  const auto idle = static_cast<std::int64_t>(received_.load(std::memory_order_relaxed) + gives -
                                              takes_.load(std::memory_order_relaxed));
  return static_cast<std::size_t>(std::max<std::int64_t>(idle, 0));
}

Stack* StackCache::refill() noexcept {
  const StackChain batch = pool_.take_batch(kRefill);
  if (batch.count == 0) return nullptr;
  batch.tail->next = nullptr;
  free_ = batch.head;
  add(received_, batch.count);
  return take();
}

// Every so many gives; the stack just given is the first in the list.
void StackCache::inspect() noexcept {
  const std::uint64_t interval = inspect_interval(pool_);
  add(gives_due_, interval);
  gives_left_.store(interval, std::memory_order_relaxed);  // see give()

  Stack& given = *free_;
  if (cleans_every_stack(pool_.options())) pool_.clean(given);
  if (inspections_++ % kSampleEvery == 0 && pool_.sample(given))
    pool_.hand_back({&given, &given, 1}, pool_.layout().keep_bytes);
  if (idle() > kCacheMost) spill(kCacheKeep);
}

// Keeps the stacks given last, which are the warmest.
void StackCache::spill(std::size_t kept) noexcept {
  StackChain all{free_, nullptr, idle()};
  if (all.count <= kept) return;
  const StackChain warm = all.pop(kept);
  free_ = warm.head;
  if (warm.count != 0) warm.tail->next = nullptr;
  for (all.tail = all.head; all.tail->next != nullptr;) all.tail = all.tail->next;
  add(received_, std::uint64_t{0} - all.count);
  pool_.receive(all);
}

void StackCache::flush() noexcept { spill(0); }

// ── StackPool ────────────────────────────────────────────────────────────────────────────────────

StackPool::StackPool(const StackOptions& options)
    : options_(options),
      layout_(layout_for(options_)),
      maker_(std::make_unique<StackMaker>(options_, layout_)),
      home_(*this) {
  fault::load_environment();
}

StackPool::~StackPool() {
#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT
  const StackStatistics now = statistics();
  if (now.in_use != 0 || caches_ != &home_ || home_.next_cache_ != nullptr) {
    std::fprintf(stderr, "weft: StackPool destroyed while %zu stacks or a StackCache are in use\n",
                 now.in_use);
    std::abort();
  }
#endif
}

void StackPool::enrol(StackCache& cache) noexcept {
  const Locked hold(lock_);
  cache.next_cache_ = caches_;
  caches_ = &cache;
}

void StackPool::dismiss(StackCache& cache) noexcept {
  const Locked hold(lock_);
  StackCache** at = &caches_;
  while (*at != &cache) at = &(*at)->next_cache_;
  *at = cache.next_cache_;
}

StackChain StackPool::take_batch(std::size_t wanted) noexcept {
  if (wanted == 0) return {};
  {
    const Locked hold(lock_);
    if (returned_.count != 0) return returned_.pop(wanted);
    if (idle_.count != 0) return idle_.pop(wanted);
  }
  return maker_->make(wanted);
}

void StackPool::give_batch(const StackChain& stacks) noexcept {
  if (cleans_every_stack(options_)) {
    Stack* stack = stacks.head;
    for (std::size_t i = 0; i < stacks.count; ++i, stack = stack->next) clean(*stack);
  }
  receive(stacks);
}

// Stacks that are clean already, and idle from now on.
void StackPool::receive(const StackChain& stacks) noexcept {
  if (stacks.count == 0) return;
  StackChain unseen;
  {
    const Locked hold(lock_);
    returned_.push(stacks);
    if (returned_.count < kLookAt) return;
    unseen = std::exchange(returned_, {});
  }
  if (options_.on_release != OnRelease::zero && sample(*unseen.head))
    hand_back(unseen, layout_.keep_bytes);
  const Locked hold(lock_);
  idle_.push(unseen);
}

// Records how deep the stack was used. True if so deep that pages should go back.
bool StackPool::sample(const Stack& stack) noexcept {
  const std::size_t bytes = touched_bytes(stack, layout_.page_bytes);
  const Locked hold(lock_);
  high_water_.add(bytes);
  return bytes > layout_.keep_bytes;
}

void StackPool::clean(Stack& stack) noexcept {
  forget_frames(stack);
  if (options_.on_release == OnRelease::poison)
    fill_touched(stack, kStackPoison, layout_.page_bytes);
  if (options_.on_release == OnRelease::zero) {
    // Recorded first, for the pages will be gone. Handed back too, for a page may be in swap.
    sample(stack);
    fill_touched(stack, std::byte{0}, layout_.page_bytes);
    release_pages({&stack, &stack, 1}, 0, layout_.page_bytes);
  }
}

void StackPool::hand_back(const StackChain& stacks, std::size_t kept_bytes) noexcept {
  release_pages(stacks, kept_bytes, layout_.page_bytes);
  const Locked hold(lock_);
  hand_backs_ += stacks.count;
}

void StackPool::trim() noexcept {
  home_.flush();
  StackChain idle;
  {
    const Locked hold(lock_);
    idle = std::exchange(idle_, {});
    idle.push(std::exchange(returned_, {}));
  }
  hand_back(idle, 0);
  const Locked hold(lock_);
  idle_.push(idle);
}

std::string StackPool::why() const { return maker_->why(); }

StackStatistics StackPool::statistics() const noexcept {
  StackStatistics result;
  maker_->add_to(result);
  const Locked hold(lock_);
  result.idle = returned_.count + idle_.count;
  for (const StackCache* cache = caches_; cache != nullptr; cache = cache->next_cache_)
    result.idle += cache->idle();
  result.idle = std::min(result.idle, result.guarded);
  result.in_use = result.guarded - result.idle;
  result.hand_backs = hand_backs_;
  result.high_water = high_water_;
  return result;
}

HighWater StackPool::survey() const noexcept {
  HighWater result;
  maker_->survey(result);
  const Locked hold(lock_);  // what was handed back has left no pages, but was sampled before
  result.bytes_max = std::max(result.bytes_max, high_water_.bytes_max);
  return result;
}

}  // namespace weft::arch
