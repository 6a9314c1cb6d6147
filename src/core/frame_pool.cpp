#include <weft/core/frame_pool.hpp>

#include <weft/arch/fault.hpp>

#include <sys/mman.h>

#include <new>

namespace weft {
namespace {

constexpr std::size_t kSlabBytes = std::size_t{2} << 20;  // one huge page

// The head of a slab; its frames follow, the first in the next frame-sized place. They are made a
// batch at a time, so that a small program touches little.
struct Slab {
  Slab* next;
  std::size_t frame_bytes;
  std::size_t made;

  [[nodiscard]] bool full() const noexcept { return made + 1 >= kSlabBytes / frame_bytes; }
};

struct Pool {
  Lock lock;
  Fiber* batches[kFrameSizes] = {};   // free frames beyond the caches
  Slab* slabs[kFrameSizes] = {};      // newest first; only the newest is not full
  std::uint64_t made = 0;
};

Pool& pool() {
  static Pool* const kept = new Pool;  // never destroyed: threads may end after main()
  return *kept;
}

// A batch is a chain of free frames; the first one's room tells its length and the next batch.
struct Batch {
  Fiber* next;
  std::uint32_t count;
};
Batch& batch_of(Fiber& first) noexcept { return *reinterpret_cast<Batch*>(first.room); }

// Aligned to its size, so that one huge page can back it.
void* map_slab() {
  void* const raw = arch::sys_mmap(2 * kSlabBytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (raw == MAP_FAILED) throw std::bad_alloc{};
  const auto from = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t aligned = (from + kSlabBytes - 1) & ~(kSlabBytes - 1);
  if (aligned != from) ::munmap(raw, aligned - from);
  const std::uintptr_t end = aligned + kSlabBytes;
  if (end != from + 2 * kSlabBytes)
    ::munmap(reinterpret_cast<void*>(end), from + 2 * kSlabBytes - end);
  ::madvise(reinterpret_cast<void*>(aligned), kSlabBytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

Fiber& frame_at(Slab& slab, std::size_t i) noexcept {
  std::byte* const begin = reinterpret_cast<std::byte*>(&slab);
  return *reinterpret_cast<Fiber*>(begin + (i + 1) * slab.frame_bytes);
}

}  // namespace

void FrameCache::refill(std::size_t size) {
  Pool& all = pool();
  const Locked locked{all.lock};
  if (Fiber* const first = all.batches[size]) {
    const Batch batch = batch_of(*first);
    all.batches[size] = batch.next;
    free_[size] = first;
    count_[size] = batch.count;
    return;
  }
  Slab*& newest = all.slabs[size];
  if (!newest || newest->full()) newest = ::new (map_slab()) Slab{newest, kFrameBytes[size], 0};
  while (count_[size] < kBatch && !newest->full()) {
    Fiber* const fiber = ::new (&frame_at(*newest, newest->made++)) Fiber;
    fiber->size_class = static_cast<std::uint8_t>(size);
    fiber->link = free_[size];
    free_[size] = fiber;
    ++count_[size];
    ++all.made;
  }
}

void FrameCache::give_batch(std::size_t size, std::uint32_t count) noexcept {
  Fiber* const first = free_[size];
  Fiber* last = first;
  for (std::uint32_t i = 1; i < count; ++i) last = last->link;
  free_[size] = last->link;
  last->link = nullptr;
  count_[size] -= count;
  Pool& all = pool();
  const Locked locked{all.lock};
  ::new (first->room) Batch{all.batches[size], count};
  all.batches[size] = first;
}

void FrameCache::give_all() noexcept {
  for (std::size_t size = 0; size < kFrameSizes; ++size)
    if (count_[size] != 0) give_batch(size, count_[size]);
}

std::uint64_t frames_made() noexcept {
  Pool& all = pool();
  const Locked locked{all.lock};
  return all.made;
}

void for_each_frame(void (*visit)(Fiber&, void*), void* context) {
  Pool& all = pool();
  const Locked locked{all.lock};
  for (Slab* slab : all.slabs)
    for (; slab; slab = slab->next)
      for (std::size_t i = 0; i < slab->made; ++i) visit(frame_at(*slab, i), context);
}

}  // namespace weft
