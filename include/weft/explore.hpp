// explore: runs a function under many simulated schedules, and keeps the one that goes wrong.
//
//   weft::Report report = weft::explore({.runs = 2000}, [] {
//     int balance = 100;
//     weft::nursery([&](weft::Nursery& n) {
//       for (int i = 0; i < 2; ++i) n.spawn([&] { transfer(balance); });
//     });
//     if (balance != 100) throw std::runtime_error{"money lost"};
//   });
//   if (!report) return 1;  // what failed, and how to see it again, is on standard error
//
// The function is called once for each run, in a SimIo of its own; it must set up all that it uses,
// and its outcome must depend on nothing but the schedule and io().random(). A run fails if an
// exception leaves the function, if an assertion fails (see ExploreOptions::assertion and
// <weft/gtest.hpp>), if fibers wait for ever, if it takes too many steps, or if the same schedule
// run twice is not the same run.
//
// The failure found first is made smaller, as long as it stays the same failure: fewer switches,
// fewer preemptions. The report has the schedule as text. Given to replay(), to SimOptions::replay
// or, without compiling anything, as WEFT_REPLAY, it shows that very run again.
#pragma once

#include <weft/sim.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

enum class Progress : std::uint8_t {
  automatic,  // a line on standard error that renews itself, if that is a terminal
  always,
  never,
};

// WEFT_SEED, WEFT_RUNS and WEFT_PROGRESS (always, never) replace what the program says: the first
// seed, the number of runs, the progress line.
struct ExploreOptions {
  std::string name{};          // for messages; and WEFT_REPLAY='name@w1:…' is for us alone
  std::uint64_t runs = 1000;   // at most; exhaustive: 0 is until all are done
  std::uint64_t seed = 0;      // of the first run; each has the next
  Schedule schedule = Schedule::random;
  unsigned depth = 3;          // pct: the number of orderings that it takes to go wrong
  unsigned preemptions = 2;    // exhaustive: at most so many in a run
  bool preempt = true;         // switches at every operation of weft's, not only at waits. Not
                               // with a std::mutex held, as far as that is known: checked builds
  std::uint64_t max_steps = 1'000'000;  // of a run; more is a failure. 0: no limit
  std::size_t stack_bytes = 256 * 1024;

  std::uint64_t max_failures = 1;  // then it ends; 0: never before all runs are made
  bool shrink = true;
  std::uint64_t shrink_runs = 500;  // at most
  std::uint64_t twice = 64;         // every so-manieth run, beginning with the first, is run again
                                    // and compared; 0: none
  // Asked after each run: what has failed in it besides what it threw. Empty: nothing.
  std::function<std::string()> assertion{};

  std::size_t log_lines = 40;  // of the failing run's last events in the report
  Progress progress = Progress::automatic;
  bool print = true;           // the first failure, and the totals, on standard error
  std::string command{};       // replays by WEFT_REPLAY; empty: the program's own name
};

// A run that went wrong.
struct Failure {
  enum class Kind : std::uint8_t {
    exception,       // left the function
    assertion,       // ExploreOptions::assertion
    deadlock,        // every fiber waits, and nothing is to come
    leak,            // the function has returned, and fibers that it left behind wait for ever
    step_limit,      // ExploreOptions::max_steps
    nondeterminism,  // the same schedule again was another run
  };

  Kind kind = Kind::exception;
  std::string what{};      // what it says of itself
  std::uint64_t run = 0;   // the first is 1
  std::uint64_t seed = 0;  // under pct, the runs before have a say, too: only `schedule` repeats it
  std::string found{};     // the schedule, as it was found,
  std::string schedule{};  // and made smaller: the same kind of failure and, of exceptions and
                           // assertions, the same words
  std::size_t switches_found = 0, switches = 0;        // choices of another than the next in line
  std::size_t preemptions_found = 0, preemptions = 0;  // of them, where none was needed
  std::uint64_t shrink_runs = 0;
  std::string log{};       // the last events of that run, a line each
  std::string replay{};    // the line to paste into a shell
};
std::string_view to_string(Failure::Kind kind) noexcept;
std::string to_string(const Failure& failure);  // all of it, in lines

struct Report {
  std::string name{};
  std::uint64_t runs = 0;
  std::uint64_t failures = 0;          // runs that failed
  std::uint64_t steps = 0;             // choices of the next fiber, in all runs
  std::uint64_t choices = 0;           // of them, such with more than one candidate
  std::uint64_t distinct = 0;          // different runs, by SimIo::trace_hash()
  bool complete = false;               // exhaustive: no schedule within the bounds is left
  Duration elapsed{};                  // real time
  std::optional<Failure> first{};

  // No run failed.
  explicit operator bool() const noexcept { return failures == 0; }
};
std::string to_string(const Report& report);  // one line: runs, failures, runs a second

namespace detail {
Report explore(const ExploreOptions& options, const std::function<void()>& f);
void for_seeds(std::uint64_t count, const std::function<void(std::uint64_t)>& f);
}  // namespace detail

// Throws std::invalid_argument for options that make no sense, and std::logic_error inside of an
// engine's run(). What `f` returns is dropped.
template <std::invocable<> F>
Report explore(const ExploreOptions& options, F f) {
  return detail::explore(options, [&f] { static_cast<void>(f()); });
}

// f() once, in a SimIo that follows `schedule`. Returns what f returns, throws what it throws.
// Throws std::invalid_argument if `schedule` is none, ScheduleMismatch if it is that of another
// program: it names a choice that is not there. Throws StepLimit after `max_steps`, which should be
// that of the run; 0: no limit.
template <std::invocable<> F>
auto replay(std::string_view schedule, F&& f,
            std::uint64_t max_steps = ExploreOptions{}.max_steps) {
  SimIo io{{.max_steps = max_steps, .replay = std::string{schedule}, .strict_replay = true}};
  return io.run(std::forward<F>(f));
}

// f(seed) for the seeds 0 to count - 1; with WEFT_SEED=n for n alone. What f throws passes, after a
// line on standard error that says which seed it was.
template <std::invocable<std::uint64_t> F>
void for_seeds(std::uint64_t count, F f) {
  detail::for_seeds(count, [&f](std::uint64_t seed) { static_cast<void>(f(seed)); });
}

}  // namespace weft
