// Stacks: guarded memory for fibers, reserved in slabs, used again last in, first out.
//
// A slab is one mapping, cut into equal cells: [guard | stack][guard | stack]… Only touched pages
// cost memory. A guard is at least 64 KiB, because one frame jumps a smaller one; it is a guard
// region of the kernel (Linux 6.13), which costs no mapping, or else mprotect, which costs two and
// is therefore rationed. A stack that cannot be guarded is not handed out.
//
// Hot path: StackCache, a plain list owned by one thread. Everything else is StackPool, out of
// line. docs/stacks.md has the whole story with figures.
#pragma once

#include <weft/base/sync.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace weft::arch {

class StackMaker;
class StackPool;

// One stack's descriptor. It lies outside the stack, and as long as the pool lives so does it.
struct alignas(32) Stack {
  Stack* next = nullptr;       // free for whoever holds the stack; links it while it is idle
  std::byte* limit = nullptr;  // lowest usable byte; the guard ends here
  std::byte* top = nullptr;    // one past the highest usable byte, 16-byte aligned, coloured
  std::uint64_t index = 0;     // in its pool, from 0; never changes

  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(top - limit); }
};
static_assert(sizeof(Stack) == 32);

// Tops are offset by whole cache lines, or else the hot frames of all fibers would compete for the
// same few sets of the caches.
inline constexpr std::size_t kColourBytes = 64;
inline constexpr unsigned kColoursMost = 64;

enum class Guards : std::uint8_t {
  automatic,  // kernel where it works, else mprotect
  kernel,     // MADV_GUARD_INSTALL or nothing
  mprotect,   // PROT_NONE, within half of vm.max_map_count
};

// What happens to a stack's contents when it is given back.
enum class OnRelease : std::uint8_t {
  keep,    // nothing; pages far below the top go back to the kernel sooner or later
  zero,    // overwritten and handed back at once: for programs with secrets
  poison,  // overwritten with kStackPoison: a pointer into a dead fiber's frame is noticed
};
inline constexpr std::byte kStackPoison{0xdb};

#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT
inline constexpr OnRelease kDefaultOnRelease = OnRelease::poison;
#else
inline constexpr OnRelease kDefaultOnRelease = OnRelease::keep;
#endif

struct StackOptions {
  std::size_t stack_bytes = 256 * 1024;  // usable, guard not included: 16 KiB to 1 GiB
  std::size_t guard_bytes = 64 * 1024;   // below each stack: 64 KiB to 1 GiB
  Guards guards = Guards::automatic;
  OnRelease on_release = kDefaultOnRelease;
  std::size_t keep_bytes = 32 * 1024;  // of an idle stack, from its top; deeper pages go back
  std::size_t stacks_max = 0;          // 0: as many as the system gives
  unsigned colours = 20;               // offsets of tops, see kColourBytes: 1 to kColoursMost
};

// Options in bytes of whole pages, and what follows from them.
struct StackLayout {
  std::size_t page_bytes;
  std::size_t guard_bytes;
  std::size_t stack_bytes;  // one page more than asked for: colour must not eat into the promise
  std::size_t cell_bytes;   // guard and stack, an odd number of pages
  std::size_t keep_bytes;
  unsigned colours;
};

// How deep stacks have been used, to the page. Bucket 0 counts what fits 4 KiB, bucket i what fits
// 4 KiB << i and not half of it.
struct HighWater {
  std::size_t bytes_max = 0;
  std::uint64_t samples = 0;
  std::array<std::uint64_t, 20> histogram{};

  void add(std::size_t bytes) noexcept;
};

struct StackStatistics {
  std::size_t reserved = 0;  // cells in mapped slabs, used or not
  std::size_t guarded = 0;   // stacks that have been made: in use + idle
  std::size_t in_use = 0;    // exact when no other thread takes or gives
  std::size_t idle = 0;
  std::size_t slabs = 0;
  std::size_t mappings = 0;           // at most this many of vm.max_map_count
  std::uint64_t hand_backs = 0;       // how often an idle stack's pages went to the kernel
  Guards guards = Guards::automatic;  // what new stacks are guarded with; automatic: none made yet
  HighWater high_water;               // sampled: see StackPool::survey for all
};

// Stacks in the hands of one owner, linked by Stack::next. The last one's link means nothing.
struct StackChain {
  Stack* head = nullptr;
  Stack* tail = nullptr;
  std::size_t count = 0;

  void push(Stack& stack) noexcept {
    stack.next = head;
    head = &stack;
    if (tail == nullptr) tail = &stack;
    ++count;
  }
  void push(const StackChain& others) noexcept {
    if (others.count == 0) return;
    others.tail->next = head;
    if (tail == nullptr) tail = others.tail;
    head = others.head;
    count += others.count;
  }
  // Takes away the first `wanted`, or all there are.
  [[nodiscard]] StackChain pop(std::size_t wanted) noexcept;
};

// The idle stacks of one thread. Only that thread may call take() and give().
class alignas(64) StackCache {
 public:
  explicit StackCache(StackPool& pool) noexcept;
  ~StackCache();  // idle stacks go back to the pool
  StackCache(const StackCache&) = delete;
  StackCache& operator=(const StackCache&) = delete;

  // The stack that was given last, or a new one; nullptr if none can be had: StackPool::why().
  [[nodiscard]] Stack* take() noexcept {
    Stack* const stack = free_;
    if (stack == nullptr) [[unlikely]]
      return refill();
    free_ = stack->next;
    // relaxed, and no read-modify-write: one writer; statistics() may see an old value.
    takes_.store(takes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return stack;
  }

  // `stack` must be quiet: nobody runs on it, and no kernel operation may still write to it.
  void give(Stack& stack) noexcept {
    stack.next = free_;
    free_ = &stack;
    const std::uint64_t left = gives_left_.load(std::memory_order_relaxed) - 1;
    gives_left_.store(left, std::memory_order_relaxed);  // one writer, as above
    if (left == 0) [[unlikely]]
      inspect();
  }

  void flush() noexcept;  // all idle stacks to the pool

 private:
  friend StackPool;

  Stack* refill() noexcept;
  void inspect() noexcept;
  void spill(std::size_t kept) noexcept;
  [[nodiscard]] std::size_t idle() const noexcept;

  Stack* free_ = nullptr;
  Atomic<std::uint64_t> takes_{0};
  Atomic<std::uint64_t> gives_left_;  // until the next inspect()
  // Changed out of line only, by the owner.
  Atomic<std::uint64_t> gives_due_;    // how many gives there will have been at that inspect()
  Atomic<std::uint64_t> received_{0};  // from the pool, less what went back; wraps
  std::uint64_t inspections_ = 0;
  StackPool& pool_;
  StackCache* next_cache_ = nullptr;  // guarded by the pool's lock
};

// All stacks of one size, their memory and their statistics. One per engine and stack size.
//
// The destructor unmaps everything: each stack must have been given back and each StackCache be
// gone (checked in builds with WEFT_SPEC_ASSERT).
class StackPool {
 public:
  // Maps nothing yet. Throws std::invalid_argument, which says what is wrong with which option, or
  // with the environment's WEFT_FAULTS.
  explicit StackPool(const StackOptions& options = {});
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // One thread at a time: a StackCache that comes with the pool.
  [[nodiscard]] Stack* take() noexcept { return home_.take(); }
  void give(Stack& stack) noexcept { home_.give(stack); }

  // Any thread. Returns 1 to `wanted` stacks, idle ones if there are any, else new ones guarded in
  // one go; an empty chain if there are none to be had, and why() says why.
  [[nodiscard]] StackChain take_batch(std::size_t wanted) noexcept;
  void give_batch(const StackChain& stacks) noexcept;

  // Hands back every page of every stack that is idle in the pool or in its own cache. Called by
  // the thread that calls take() and give(); other threads flush their caches first.
  void trim() noexcept;

  // Any thread.
  [[nodiscard]] std::string why() const;  // no stack was to be had; empty if that never happened
  [[nodiscard]] StackStatistics statistics() const noexcept;
  [[nodiscard]] HighWater survey() const noexcept;  // looks at every stack, those in use too
  [[nodiscard]] const StackOptions& options() const noexcept { return options_; }
  [[nodiscard]] const StackLayout& layout() const noexcept { return layout_; }

 private:
  friend StackCache;

  void enrol(StackCache& cache) noexcept;
  void dismiss(StackCache& cache) noexcept;

  void clean(Stack& stack) noexcept;
  bool sample(const Stack& stack) noexcept;
  void receive(const StackChain& stacks) noexcept;
  void hand_back(const StackChain& stacks, std::size_t kept_bytes) noexcept;

  // Constant after construction.
  const StackOptions options_;
  const StackLayout layout_;

  const std::unique_ptr<StackMaker> maker_;

  // Guarded by lock_, which is never held over a system call.
  mutable Lock lock_;
  StackChain returned_;  // idle, too, but nobody has looked at one of them yet
  StackChain idle_;
  StackCache* caches_ = nullptr;
  HighWater high_water_;
  std::uint64_t hand_backs_ = 0;

  StackCache home_;
};

}  // namespace weft::arch
