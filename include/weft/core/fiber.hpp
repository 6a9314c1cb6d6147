// Fiber: a resumable closure, and everything that is remembered about it.
//
// A frame is 128 bytes and pooled for the life of the process. A fiber has no stack until its first
// instruction: a queued one is just its frame. What only a started fiber needs is in its Strand, on
// top of its stack, in a page that its own code touches anyway.
#pragma once

#include <weft/arch/context.hpp>
#include <weft/arch/exceptions.hpp>
#include <weft/arch/sanitizer.hpp>
#include <weft/base/inspected.hpp>
#include <weft/base/intrusive_list.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/control_word.hpp>
#include <weft/core/name.hpp>
#include <weft/core/site.hpp>
#include <weft/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft::arch {
struct Stack;
}

namespace weft {

class CancelScope;
class Fiber;
class Home;
class Io;
class Locals;
struct Roll;
class Waitable;

using FiberId = std::uint64_t;
using FiberList = Chain<Fiber>;  // through Fiber::link

// How to run, or throw away unrun, the closure in a frame. Both destroy it. One for each type: a
// lambda's type belongs to one place in the source, so this is where its fibers are spawned.
struct alignas(32) Closure {
  FiberState (*run)(Fiber&) noexcept;  // done or cancelled
  void (*drop)(Fiber&) noexcept;
  KeptSite spawned_at{};
};

// The memory a strand stands on. A child joined in place stands on its parent's.
struct Ground {
  arch::Stack* stack = nullptr;       // null: an OS thread's own
  const std::byte* in_place_floor = nullptr;  // below it, no child is run in place any more
  [[no_unique_address]] arch::StackShadow shadow;
};

// A started fiber's private things. Lives on the stack the fiber runs on.
struct Strand : ListNode<Strand> {  // linked in the scope it is enrolled in
  Strand(Fiber& fiber_in, Ground& ground_in) noexcept;

  Fiber& fiber;
  CancelScope* enrolled = nullptr;  // written under the roll's lock, by whoever has the fiber
  // A canceller goes no further: what it needs of a hundred thousand is one line of each.
  Ground& ground;
  CancelScope* const home;          // the scope it was spawned in; null: an OS thread's own
  Roll* roll;                       // where it is enrolled; means nothing while it is not
  Fiber* beneath = nullptr;         // in place: the joining fiber it was called by
  Locals* locals = nullptr;         // what it has set or inherited
  union {
    arch::ExceptionState exceptions;  // while Fiber::exceptions_saved
  };
};

// What a parked fiber waits for: what to print. Deep in its stack, where it has been at work: its
// Strand may be on a page that the wait would not touch otherwise.
struct Waiting {
  std::span<Waitable* const> arms;
  Instant since;  // Carrier::coarse_now when it began
};

// What few fibers are, and nobody has to look at one by one.
enum Trait : std::uint8_t {
  kNamed = 1,
  kNameOwned = 2,
  kInherits = 4,  // unborn, and its parent's Locals are in its frame
  kSettles = 8,   // is pinned to the worker that runs it first
  kPinned = 16,   // runs on `last_worker` alone
  kLatched = 32,  // its last wait was ended before it was parked, so that the waker enqueued nobody
};

// The link of a frame, in a run queue, FiberList or free list: in one of them at most. One that
// parks is in none, and its link leads to what it waits for until it is woken. Handed from thread
// to thread, so models race-check it.
class FiberLink {
 public:
  FiberLink& operator=(Fiber* fiber) noexcept {
    set(fiber);
    return *this;
  }
  operator Fiber*() const noexcept { return static_cast<Fiber*>(get()); }

  void lead_to(Waiting& waiting) noexcept { set(&waiting); }
  [[nodiscard]] Waiting& waiting() const noexcept { return *static_cast<Waiting*>(get()); }

 private:
#if defined(WEFT_MODEL)
  [[nodiscard]] void* get() const noexcept { return at_.read(); }
  void set(void* to) noexcept { at_.write(to); }
  Var<void*> at_{nullptr};
#else
  [[nodiscard]] void* get() const noexcept { return __atomic_load_n(&at_, __ATOMIC_RELAXED); }
  // release: pairs with waiting(); who sees this also sees that the fiber has been woken.
  void set(void* to) noexcept { __atomic_store_n(&at_, to, __ATOMIC_RELEASE); }
  void* at_ = nullptr;
#endif
};

class alignas(64) Fiber {
 public:
  // ── first line: what a switch touches ───────────────────────────────────────────────────────
  arch::Context context;
  ControlWord word;
  FiberLink link;
  Inspected<Io*> io;                // inherited at spawn, never changes; null: a free frame
  Strand* strand = nullptr;         // null: not started
  Atomic<std::uint16_t> attention{kAttendToEnrol};  // Attention
  std::uint16_t last_worker = 0;    // where it parked: a wake from outside sends it there
  bool exceptions_saved = false;    // strand->exceptions is to be restored when it runs
  std::uint8_t traits = 0;          // Trait; written by whoever owns the fiber at the time
  std::uint8_t size_class = 0;      // of the frame, see FramePool
  Var<std::uint8_t> on_stack;       // model builds race-check it as "this stack is in use" (F1)
  // ── second line: how it began ───────────────────────────────────────────────────────────────
  Inspected<const Closure*> closure;  // of a free frame: its last fiber's
  CancelScope* scope = nullptr;     // innermost; an unborn fiber's is the one it was spawned in
  Inspected<FiberId> id = 0;
  Inspected<const char*> name_text;
  std::byte room[32];               // the closure; larger size classes go on behind it

  // Where the closure is. Not the array itself: in larger frames there is more behind it.
  [[nodiscard]] void* room_at() noexcept {
    void* at = room;
    asm("" : "+r"(at));  // the compiler need not know
    return at;
  }

  static Fiber& current() noexcept;  // the running fiber; a plain thread's own if it is none

  [[nodiscard]] std::string_view name() const noexcept {
    const char* const text = name_text;
    return text ? text : "";
  }
  void set_name(Name name) noexcept;  // by whoever alone knows the fiber: its spawner, its worker
  void rename(Name name) noexcept;    // by itself, while its children may ask for its path
  [[nodiscard]] std::string copy_name() const;
  // What it waits for; null: it is not parked, or not any more. Stays there until the fiber runs.
  [[nodiscard]] const Waiting* waiting() const noexcept;
  [[nodiscard]] bool is_pinned() const noexcept { return (traits & kPinned) != 0; }
  [[nodiscard]] bool is_thread() const noexcept { return strand && !strand->ground.stack; }
};

inline Strand::Strand(Fiber& fiber_in, Ground& ground_in) noexcept
    : fiber(fiber_in), ground(ground_in), home(fiber_in.scope) {}


}  // namespace weft
