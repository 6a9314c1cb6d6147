// The directory is a list of entries that only grows; an entry whose slab is gone is used again.
//
// Invariant: an entry with an even version describes a mapped slab, or none (begin == end).
// Race:      a signal handler reads an entry while another thread fills or empties it. The version
//            is odd meanwhile and different afterwards, so the handler skips that entry. It never
//            needs it: the slab under a running fiber is neither being mapped nor unmapped.
// Rejected:  a lock (the handler may have interrupted its holder); freeing entries (a handler may
//            stand on one).
#include "arch/stack_slab.hpp"

#include <weft/arch/fault.hpp>
#include "arch/stack_guard.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <new>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

namespace weft::arch {

struct SlabEntry {
  Atomic<std::uint32_t> version{0};
  Atomic<std::uintptr_t> begin{0};
  Atomic<std::uintptr_t> end{0};
  Atomic<std::size_t> guard_bytes{0};
  Atomic<std::size_t> cell_bytes{0};
  Atomic<std::size_t> stack_bytes{0};
  SlabEntry* next = nullptr;  // constant once the entry is in the list
  bool used = false;          // guarded by directory_lock
};

namespace {

Lock directory_lock;                    // for writers
Atomic<SlabEntry*> directory{nullptr};  // entries live as long as the process

// Describes [begin, end) in `entry`; an empty range takes the old one away. Needs directory_lock.
void describe(SlabEntry& entry, std::uintptr_t begin, std::uintptr_t end,
              const StackLayout& layout) noexcept {
  const std::uint32_t version = entry.version.load(std::memory_order_relaxed);
  entry.version.store(version + 1, std::memory_order_relaxed);
  // release fence: pairs with the acquire fence in find_guard(). Who reads a field written below
  // sees the odd version too.
  Sync::fence(std::memory_order_release);
  entry.begin.store(begin, std::memory_order_relaxed);
  entry.end.store(end, std::memory_order_relaxed);
  entry.guard_bytes.store(layout.guard_bytes, std::memory_order_relaxed);
  entry.cell_bytes.store(layout.cell_bytes, std::memory_order_relaxed);
  entry.stack_bytes.store(layout.stack_bytes - layout.page_bytes, std::memory_order_relaxed);
  // release: pairs with the first load in find_guard(), which then sees the fields.
  entry.version.store(version + 2, std::memory_order_release);
}

SlabEntry* free_entry() noexcept {
  SlabEntry* const head = directory.load(std::memory_order_relaxed);  // changed under our lock only
  for (SlabEntry* entry = head; entry != nullptr; entry = entry->next)
    if (!entry->used) return entry;
  auto* const entry = new (std::nothrow) SlabEntry;
  if (entry == nullptr) return nullptr;
  entry->next = head;
  // release: pairs with the acquire in find_guard(); the entry is whole before it can be found.
  directory.store(entry, std::memory_order_release);
  return entry;
}

SlabEntry* list_slab(const std::byte* memory, std::size_t bytes,
                     const StackLayout& layout) noexcept {
  const Locked hold(directory_lock);
  SlabEntry* const entry = free_entry();
  if (entry == nullptr) return nullptr;
  entry->used = true;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  describe(*entry, begin, begin + bytes, layout);
  return entry;
}

void unlist_slab(SlabEntry& entry, const StackLayout& layout) noexcept {
  const Locked hold(directory_lock);
  describe(entry, 0, 0, layout);
  entry.used = false;
}

#if __has_include(<valgrind/valgrind.h>)
bool under_valgrind() noexcept { return RUNNING_ON_VALGRIND != 0; }
unsigned tell_valgrind(const Stack& stack) noexcept {
  return static_cast<unsigned>(VALGRIND_STACK_REGISTER(stack.limit, stack.top));
}
void untell_valgrind(unsigned id) noexcept { VALGRIND_STACK_DEREGISTER(id); }
#else
bool under_valgrind() noexcept { return false; }
unsigned tell_valgrind(const Stack&) noexcept { return 0; }
void untell_valgrind(unsigned) noexcept {}
#endif

}  // namespace

Slab* Slab::map(const StackLayout& layout, std::size_t cells, std::uint64_t first_index) noexcept {
  const std::size_t bytes = cells * layout.cell_bytes;
  std::unique_ptr<Slab> slab(new (std::nothrow) Slab(layout, cells, first_index));
  if (slab) slab->stacks_.reset(new (std::nothrow) Stack[cells]);
  if (slab && under_valgrind()) slab->valgrind_ids_.reset(new (std::nothrow) unsigned[cells]);
  if (!slab || !slab->stacks_) {
    errno = ENOMEM;
    return nullptr;
  }

  // NORESERVE: what fibers may touch is far more than what they do.
  void* const memory = sys_mmap(bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK);
  if (memory == MAP_FAILED) return nullptr;
  slab->memory_ = static_cast<std::byte*>(memory);
  // Else one touched byte could cost 2 MiB. A kernel without huge pages refuses, which is as good.
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);

  slab->entry_ = list_slab(slab->memory_, bytes, layout);
  if (slab->entry_ == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  return slab.release();
}

Slab::~Slab() {
  if (valgrind_ids_)
    for (std::size_t i = 0; i < guarded_; ++i) untell_valgrind(valgrind_ids_[i]);
  if (entry_ != nullptr) unlist_slab(*entry_, layout_);
  if (memory_ != nullptr) ::munmap(memory_, cells_ * layout_.cell_bytes);
  give_mappings(mprotected * kMappingsPerGuard);
}

StackChain Slab::open(std::size_t count) noexcept {
  StackChain chain;
  // Pushed from the last to the first, so that they are taken in the order of their addresses.
  for (std::size_t cell = guarded_ + count; cell-- > guarded_;) {
    Stack& stack = stacks_[cell];
    std::byte* const begin = memory_ + cell * layout_.cell_bytes;
    stack.index = first_index_ + cell;
    stack.limit = begin + layout_.guard_bytes;
    stack.top = begin + layout_.cell_bytes - stack.index % layout_.colours * kColourBytes;
    if (valgrind_ids_) valgrind_ids_[cell] = tell_valgrind(stack);
    chain.push(stack);
  }
  guarded_ += count;
  return chain;
}

GuardHit find_guard(std::uintptr_t address) noexcept {
  for (const SlabEntry* entry = directory.load(std::memory_order_acquire);  // pairs: free_entry()
       entry != nullptr; entry = entry->next) {
    const std::uint32_t version = entry->version.load(std::memory_order_acquire);
    const std::uintptr_t begin = entry->begin.load(std::memory_order_relaxed);
    const std::uintptr_t end = entry->end.load(std::memory_order_relaxed);
    const std::size_t guard_bytes = entry->guard_bytes.load(std::memory_order_relaxed);
    const std::size_t cell_bytes = entry->cell_bytes.load(std::memory_order_relaxed);
    const std::size_t stack_bytes = entry->stack_bytes.load(std::memory_order_relaxed);
    Sync::fence(std::memory_order_acquire);  // pairs with the release fence in describe()
    if (version % 2 != 0 || entry->version.load(std::memory_order_relaxed) != version) continue;
    if (address < begin || address >= end) continue;

    const std::uintptr_t cell = address - (address - begin) % cell_bytes;
    if (address - cell >= guard_bytes) return {};
    return {true, cell + guard_bytes, cell + cell_bytes, cell_bytes, stack_bytes};
  }
  return {};
}

}  // namespace weft::arch
