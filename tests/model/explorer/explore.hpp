// explore(): runs a small concurrent program under every schedule and every value that the chosen
// search covers, and reports the first execution that goes wrong.
//
//   model::Result r = model::explore({.name = "handover"}, [](model::Program& p) {
//     auto& s = p.make<State>();
//     p.thread("waker", [&s] { s.give(); });
//     p.thread("waiter", [&s] { s.take(); });
//     p.at_end([&s] { model::check(s.taken(), "the value arrived"); });
//   });
//
// The lambda runs anew for each execution. Executions are abandoned, not unwound, when they fail or
// turn out to be redundant; so nothing on a controlled thread's stack may own ordinary heap memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "explorer/api.hpp"
#include "explorer/fault.hpp"

namespace weft::model {

class Execution;

enum class Mode : std::uint8_t {
  dpor,    // everything, by partial-order reduction
  bound,   // everything with at most `bound` pre-emptions
  pct,     // samples, by random priorities with depth - 1 changes
  random,  // samples, uniformly at each step
};

struct Options {
  std::string name;
  Mode mode = Mode::dpor;
  unsigned bound = 2;      // Mode::bound
  unsigned depth = 3;      // Mode::pct
  std::uint64_t seed = 1;  // Mode::pct, Mode::random
  std::uint64_t max_executions = 100'000'000;
  double max_seconds = 60;
  bool weak_cas = false;        // compare_exchange_weak may fail for no reason
  bool spurious_wakes = false;  // sleep() may return for no reason
  unsigned spurious_limit = 2;  // such outcomes, and early time-outs, per thread and execution
  unsigned eager_spins = 0;     // rounds of spin() that wait for nothing: as many as a back-off
                                // loop has that gives up after a while
  unsigned max_steps = 5'000;   // a longer execution is a livelock
  bool minimise = true;         // look for a failing execution with fewer pre-emptions
  bool quiet = false;           // print nothing
};

// How far the search got.
enum class Coverage : std::uint8_t {
  complete,  // every execution
  bound,     // every execution within the pre-emption bound
  budget,    // stopped by max_executions or max_seconds, or sampled
  failure,   // stopped at a failure
  replay,    // WEFT_REPLAY: one execution
};

struct Result {
  bool failed = false;
  bool complete = false;  // the search covered all it set out to: complete or bound
  Coverage coverage = Coverage::budget;
  Failure kind = Failure::none;
  std::uint64_t executions = 0;  // run to their end
  std::uint64_t pruned = 0;      // given up as redundant
  std::uint64_t steps = 0;       // over all executions
  std::uint64_t sleeps = 0;      // how often a thread really fell asleep in Sync::sleep()
  unsigned max_depth = 0;        // steps of the longest
  double seconds = 0;
  std::string replay;  // on failure: value for WEFT_REPLAY
  std::string report;  // on failure: what happened, with the trace
};

class Program {
 public:
  explicit Program(Execution& execution) noexcept : execution_(execution) {}

  // An object that lives until the checks at the end have run.
  template <class T, class... Args>
  T& make(Args&&... args) {
    T* const object = ::new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
    if constexpr (!std::is_trivially_destructible_v<T>)
      add_destructor([](void* dying) { static_cast<T*>(dying)->~T(); }, object);
    return *object;
  }

  // A controlled thread. All of them start when the set-up is over.
  template <class Function>
  void thread(std::string_view name, Function function) {
    add_thread(copy(name), &call<Function>, keep(std::move(function)));
  }

  // Runs when all threads have finished, and sees everything they did.
  template <class Function>
  void at_end(Function function) {
    add_at_end(&call<Function>, keep(std::move(function)));
  }

 private:
  template <class Function>
  static void call(void* closure) {
    (*static_cast<Function*>(closure))();
  }
  template <class Function>
  void* keep(Function&& function) {
    static_assert(std::is_trivially_destructible_v<Function>,
                  "closures are dropped, not destroyed: capture references and plain values");
    return ::new (allocate(sizeof(Function), alignof(Function))) Function(std::move(function));
  }
  const char* copy(std::string_view text) {
    auto* const memory = static_cast<char*>(allocate(text.size() + 1, 1));
    std::memcpy(memory, text.data(), text.size());
    memory[text.size()] = '\0';
    return memory;
  }

  void* allocate(std::size_t bytes, std::size_t alignment);
  void add_destructor(void (*destructor)(void*), void* object);
  void add_thread(const char* name, void (*function)(void*), void* closure);
  void add_at_end(void (*function)(void*), void* closure);

  Execution& execution_;
};

// The type-erased form of explore() below.
[[nodiscard]] Result explore_erased(const Options& options,
                                    void (*setup)(void* context, Program& program), void* context);

// Explores, prints one line of figures, and returns what was found. With WEFT_REPLAY set to a
// replay string of this model, runs just that execution and prints its trace.
template <class Setup>
[[nodiscard]] Result explore(const Options& options, Setup&& setup) {
  std::decay_t<Setup> callable(std::forward<Setup>(setup));  // a function becomes a pointer
  return explore_erased(
      options,
      [](void* context, Program& program) {
        (*static_cast<std::decay_t<Setup>*>(context))(program);
      },
      &callable);
}

}  // namespace weft::model
