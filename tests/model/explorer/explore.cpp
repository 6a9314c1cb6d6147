#include "explorer/explore.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "explorer/execution.hpp"
#include "explorer/report.hpp"
#include "explorer/schedule.hpp"

namespace weft::model {

void* Program::allocate(std::size_t bytes, std::size_t alignment) {
  const Door door;
  return execution_.allocate(bytes, alignment);
}
void Program::add_destructor(void (*destructor)(void*), void* object) {
  const Door door;
  execution_.add_destructor(destructor, object);
}
void Program::add_thread(const char* name, void (*function)(void*), void* closure) {
  const Door door;
  execution_.add_thread(name, function, closure);
}
void Program::add_at_end(void (*function)(void*), void* closure) {
  const Door door;
  execution_.add_at_end(function, closure);
}

namespace {

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Subject {
  const Options& options;
  Execution::Setup setup;
  void* context;

  [[nodiscard]] Rules rules() const {
    return {.weak_cas = options.weak_cas,
            .spurious_wakes = options.spurious_wakes,
            .spurious_limit = options.spurious_limit,
            .eager_spins = options.eager_spins,
            .max_steps = options.max_steps};
  }
};

// One execution object serves the whole process: its stacks and tables are worth keeping.
Execution& the_execution() {
  static const auto execution = std::make_unique<Execution>();
  return *execution;
}

std::unique_ptr<Search> search_for(const Options& options) {
  switch (options.mode) {
    case Mode::dpor: return dpor_search();
    case Mode::bound: return bounded_search(options.bound);
    case Mode::pct: return pct_search(options.depth, options.seed);
    case Mode::random: return random_search(options.seed);
  }
  return nullptr;
}

// Runs executions until one fails, there are none left, or the budget is spent.
Result run_search(const Subject& subject, Search& search, std::uint64_t max_executions,
                  double max_seconds) {
  Execution& execution = the_execution();
  const Rules rules = subject.rules();
  const Stopwatch watch;
  Result result;
  for (;;) {
    const Outcome outcome = execution.run(search, rules, subject.setup, subject.context, nullptr);
    result.steps += execution.steps();
    result.sleeps += execution.sleeps();
    result.max_depth = std::max(result.max_depth, execution.steps());
    ++(outcome == Outcome::pruned ? result.pruned : result.executions);
    if (outcome == Outcome::failed) {
      result.failed = true;
      result.kind = execution.fault().kind;
      result.coverage = Coverage::failure;
      break;
    }
    if (!search.next()) {
      result.complete = true;
      break;
    }
    const std::uint64_t runs = result.executions + result.pruned;
    if (runs >= max_executions || (runs % 256 == 0 && watch.seconds() > max_seconds)) break;
  }
  result.seconds = watch.seconds();
  return result;
}

// The same kind of failure with as few pre-emptions as possible is the one worth reading.
Schedule with_fewest_preemptions(const Subject& subject, Failure kind, Schedule found,
                                 unsigned preemptions) {
  constexpr std::uint64_t kExecutionsPerBound = 200'000;
  constexpr double kSeconds = 3;
  const Stopwatch watch;
  for (unsigned bound = 0; bound < preemptions && watch.seconds() < kSeconds; ++bound) {
    const auto search = bounded_search(bound);
    const Result result =
        run_search(subject, *search, kExecutionsPerBound, kSeconds - watch.seconds());
    if (result.failed && result.kind == kind) return the_execution().schedule();
  }
  return found;
}

// Runs one schedule again, this time writing everything down.
std::string trace_of(const Subject& subject, const Schedule& schedule, Failure expected) {
  Execution& execution = the_execution();
  Trace trace;
  const auto search = replay_search(schedule);
  const Outcome outcome =
      execution.run(*search, subject.rules(), subject.setup, subject.context, &trace);
  const std::string replay = subject.options.name + ":" + to_string(schedule);
  if (outcome != Outcome::failed) return describe_trace(execution, trace);
  std::string text = describe_failure(execution, trace, replay);
  if (expected != Failure::none && execution.fault().kind != expected)
    text.insert(0, "the program is not deterministic: the same schedule ended differently\n");
  return text;
}

// WEFT_REPLAY=<name>:<schedule>, if it names this model.
std::optional<std::string> replay_request(const Options& options) {
  const char* const request = std::getenv("WEFT_REPLAY");
  const std::string prefix = options.name + ":";
  if (!request || std::string_view(request).substr(0, prefix.size()) != prefix) return std::nullopt;
  return request + prefix.size();
}

Result replay(const Subject& subject, const std::string& text) {
  Result result;
  result.executions = 1;
  const std::optional<Schedule> schedule = parse_schedule(text);
  if (!schedule) {
    result.failed = true;
    result.kind = Failure::replay;
    result.coverage = Coverage::failure;
    result.report = "not a replay string: " + text + "\n";
    return result;
  }
  result.report = trace_of(subject, *schedule, Failure::none);
  const Execution& execution = the_execution();
  result.kind = execution.fault().kind;
  result.failed = result.kind != Failure::none;
  result.coverage = result.failed ? Coverage::failure : Coverage::replay;
  result.steps = result.max_depth = execution.steps();
  result.replay = subject.options.name + ":" + text;
  return result;
}

}  // namespace

Result explore_erased(const Options& options, void (*setup)(void*, Program&), void* context) {
  if (running() || options.max_steps > kMaxSteps) {
    Result refused;
    refused.failed = true;
    refused.kind = Failure::limit;
    refused.report =
        running() ? "explorer limit: explore() inside an execution\n"
                  : "explorer limit: max_steps may be at most " + std::to_string(kMaxSteps) + "\n";
    return refused;
  }
  const Subject subject{options, setup, context};
  if (const auto request = replay_request(options)) {
    Result result = replay(subject, *request);
    std::printf("%s\n%s\n", summary(options, result).c_str(), result.report.c_str());
    return result;
  }
  const auto search = search_for(options);
  Result result = run_search(subject, *search, options.max_executions, options.max_seconds);
  if (result.complete)
    result.coverage = options.mode == Mode::bound ? Coverage::bound : Coverage::complete;
  if (result.failed) {
    Schedule schedule = the_execution().schedule();
    const unsigned preemptions = the_execution().preemptions();
    if (options.minimise)
      schedule = with_fewest_preemptions(subject, result.kind, std::move(schedule), preemptions);
    result.replay = options.name + ":" + to_string(schedule);
    result.report = trace_of(subject, schedule, result.kind);
  }
  if (!options.quiet) std::printf("%s\n", summary(options, result).c_str());
  return result;
}

}  // namespace weft::model
