// Execution: one run of a program under one schedule.
//
// Controlled threads are stacks on one OS thread. Exactly one runs, up to its next visible
// operation (a scheduling point), where it goes back to the scheduler. Nothing on the way there can
// be seen by the others, so a thread that is started, woken or released from spinning runs on at
// once, and every thread that can move at all stands before a visible operation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <exception>
#include <vector>

#include "explorer/arena.hpp"
#include "explorer/context.hpp"
#include "explorer/fault.hpp"
#include "explorer/limits.hpp"
#include "explorer/memory.hpp"
#include "explorer/operation.hpp"
#include "explorer/schedule.hpp"
#include "explorer/search.hpp"
#include "explorer/trace.hpp"

namespace weft::model {

class Program;

enum class ThreadState : std::uint8_t {
  // state      stands                           goes on when
  unused,    // nowhere                          -
  ready,     // before its pending operation     the search picks it; a lock must be free first
  runnable,  // after start, wake-up or spin     at once
  asleep,    // inside sleep()                   woken; if timed, at a standstill at the latest
  spinning,  // inside spin()                    somebody writes; at a standstill at the latest
  finished,  // its function has returned        never
};

// The two words of the C++ runtime's per-thread exception state (Itanium ABI 2.2.2).
struct ExceptionGlobals {
  void* caught = nullptr;
  std::uint64_t uncaught = 0;
};

struct Thread {
  Context context;
  std::byte* stack_end = nullptr;
  ThreadState state = ThreadState::unused;
  OpKind pending_kind = OpKind::start;
  bool timed = false;             // asleep: with a time-out
  bool moved_since_spin = false;  // a visible operation since the last spin()
  std::uint16_t locks_held = 0;
  std::uint32_t idle_spins = 0;   // spin() calls in a row, with no visible operation in between
  std::uint32_t spin_rounds = 0;  // spin() rounds since it last wrote
  std::uint32_t spurious = 0;     // unprovoked outcomes it has had
  PlaceId place = kNoPlace;       // of the pending operation, or slept on
  std::uint64_t seen = 0;         // asleep: the value it went to sleep on
  Site site{};                    // where it stands
  Footprint done;                 // of its last step
  ExceptionGlobals exceptions;
  void* slot = nullptr;  // model::thread_slot()
  const char* name = "";
  void (*function)(void*) = nullptr;
  void* closure = nullptr;
  ThreadViews views;
};

struct Rules {
  bool weak_cas = false;
  bool spurious_wakes = false;
  unsigned spurious_limit = 2;
  unsigned eager_spins = 0;
  unsigned max_steps = 0;
};

inline constexpr const char* kDoesNotFit =
    "the schedule does not fit: the program is not deterministic, or the string is of another one";

// How an execution ended.
enum class Outcome : std::uint8_t { finished, pruned, failed };

// For the trace: a store that was read.
[[nodiscard]] TraceValues values_of(const Store& read, Stamp newest) noexcept;

// What an operation needs to know about itself.
struct OpInfo {
  OpKind kind;
  std::memory_order order;
  Site site;
};

class Execution {
 public:
  using Setup = void (*)(void* context, Program& program);

  Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  Outcome run(Search& search, const Rules& rules, Setup setup, void* context, Trace* trace);

  [[nodiscard]] const Fault& fault() const noexcept { return fault_; }
  [[nodiscard]] const Schedule& schedule() const noexcept { return schedule_; }
  [[nodiscard]] unsigned steps() const noexcept { return steps_; }
  [[nodiscard]] unsigned preemptions() const noexcept { return preemptions_; }
  [[nodiscard]] unsigned sleeps() const noexcept { return sleeps_; }
  [[nodiscard]] const Thread& thread(ThreadId id) const noexcept { return threads_[id]; }
  [[nodiscard]] unsigned threads() const noexcept { return thread_count_; }
  [[nodiscard]] Memory& memory() noexcept { return memory_; }

  // ---- called by the program under test -------------------------------------------------------
  void add_thread(const char* name, void (*function)(void*), void* closure);
  void add_at_end(void (*function)(void*), void* closure) {
    at_end_.push_back({function, closure});
  }
  // Runs after the checks at the end, in reverse order.
  void add_destructor(void (*function)(void*), void* object) {
    destructors_.push_back({function, object});
  }
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) {
    return arena_.allocate(bytes, alignment);
  }

  std::uint64_t load(const void* address, std::uint64_t initial, OpInfo op);
  void store(const void* address, std::uint64_t initial, std::uint64_t value, OpInfo op);
  std::uint64_t modify(const void* address, std::uint64_t initial, std::uint64_t operand,
                       std::uint64_t mask, OpInfo op);
  bool compare_exchange(const void* address, std::uint64_t initial, std::uint64_t& expected,
                        std::uint64_t desired, std::memory_order failure, OpInfo op);
  void fence(OpInfo op);

  void construct(const void* address, PlaceKind kind, std::uint64_t initial, Site site);
  void destroy(const void* address, Site site);
  void use_var(const void* address, OpInfo op);

  void lock(const void* address, OpInfo op);
  bool try_lock(const void* address, OpInfo op);
  void unlock(const void* address, OpInfo op);

  void sleep(const void* address, std::uint64_t initial, std::uint64_t seen, std::uint64_t mask,
             bool timed, OpInfo op);
  void wake(const void* address, unsigned sleepers, OpInfo op);
  void spin(Site site);
  [[nodiscard]] unsigned choose(unsigned count, Site site);

  void* make(std::size_t bytes, std::size_t alignment, const char* type);
  std::size_t unmake(void* object, Site site);  // the destructor has already run
  [[nodiscard]] bool owns(const void* memory) const noexcept { return arena_.owns(memory); }
  void name(const void* address, const char* text);

  [[noreturn]] void fail(const Fault& fault);
  [[nodiscard]] void*& slot() noexcept { return threads_[current_].slot; }

 private:
  struct Call {
    void (*function)(void*);
    void* closure;
  };
  struct Object {
    void* address;
    std::size_t bytes;
    const char* type;
    bool alive;
  };

  // The scheduler's side.
  void reset(Search& search, const Rules& rules, Trace* trace);
  Outcome schedule_all();
  bool take_step(ThreadId next, ThreadSet can_step);
  Outcome finish();
  [[nodiscard]] ThreadSet enabled() const noexcept;
  void run_on(ThreadId id);
  void run_released();
  bool end_standstill();
  void release_others(const Step& step);
  void check_leaks();
  void prepare(ThreadId id, void (*entry)(void*));
  static void enter_thread(void* execution);
  static void enter_setup(void* execution);
  static void enter_end(void* execution);
  template <class Body>
  void run_guarded(Body body);

  // The threads' side.
  Thread& current() noexcept { return threads_[current_]; }
  PlaceId place_of(const void* address, PlaceKind kind, std::uint64_t initial);
  void reach(const Footprint& pending, const OpInfo& op);  // a scheduling point
  void leave();                                            // to the scheduler
  void did(const Footprint& done) noexcept { current().done = done; }
  unsigned pick(unsigned count);
  bool may_be_spurious() noexcept;
  struct CasChoice {
    bool succeeds = false;
    bool spurious = false;
    unsigned back = 0;  // the store it reads
  };
  CasChoice choose_cas(const Place& place, std::uint64_t expected, OpKind kind,
                       std::memory_order failure);
  struct SleepChoice {
    Ending ending;
    const Store* compared;
  };
  SleepChoice choose_sleep(const Place& place, std::uint64_t seen, std::uint64_t mask, bool timed);
  void note(const OpInfo& op, PlaceId place, const TraceValues& values);

  Memory memory_;
  Arena arena_;
  std::array<Thread, kMaxThreads> threads_;
  PendingSteps pending_;
  unsigned thread_count_ = 0;  // without thread 0
  ThreadId current_ = kNoThread;
  ThreadId last_ = kNoThread;
  Context scheduler_;
  ExceptionGlobals* globals_ = nullptr;
  Search* search_ = nullptr;
  Rules rules_;
  Trace* trace_ = nullptr;
  Setup setup_ = nullptr;
  void* setup_context_ = nullptr;
  std::vector<Call> at_end_;
  std::vector<Call> destructors_;
  std::vector<Object> objects_;
  Schedule schedule_;
  Fault fault_;
  std::array<char, 256> fault_text_{};
  unsigned steps_ = 0;
  unsigned preemptions_ = 0;
  unsigned sleeps_ = 0;
  unsigned standstills_ = 0;  // in a row, with nothing written in between
};

// The execution that is running on this OS thread, if any.
[[nodiscard]] Execution* running() noexcept;

// Whose code runs: the program's, from its first instruction on but for the calls it makes to the
// explorer (each stands in a Door), or the explorer's own.
inline bool g_program_runs = false;

class [[nodiscard]] Door {
 public:
  Door() noexcept { g_program_runs = false; }
  ~Door() { g_program_runs = running() != nullptr; }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
};

}  // namespace weft::model
