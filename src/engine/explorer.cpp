#include "explorer.hpp"

#include "simulation.hpp"

#include <weft/core/carrier.hpp>
#include <weft/core/error.hpp>
#include <weft/core/thread.hpp>

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace weft {
namespace engine {
namespace {

constexpr std::size_t kHashesMax = std::size_t{1} << 20;  // then `distinct` counts no more

// "12,345,678".
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string of_name(const std::string& name) { return name.empty() ? "" : " \"" + name + '"'; }

double seconds(Duration length) { return std::chrono::duration<double>(length).count(); }

std::string per_second(std::uint64_t number, Duration elapsed) {
  const double rate = static_cast<double>(number) / std::max(seconds(elapsed), 1e-6);
  return grouped(static_cast<std::uint64_t>(rate));
}

std::string indented(const std::string& text, const char* margin) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    (result += margin).append(text, at, end - at).push_back('\n');
    at = end + 1;
  }
  return result;
}

bool wants_progress(Progress progress) {
  if (progress != Progress::automatic) return progress == Progress::always;
  return ::isatty(STDERR_FILENO) != 0;
}

// The next plan of a depth-first search, after the run that made `made`, with at most so many
// preemptions. To go on after a yield counts as one, or else a loop of yields had no last schedule.
// False: none is left.
bool next_plan(Plan& plan, const std::vector<Choice>& made, std::size_t preemptions) {
  std::vector<std::size_t> preempted(made.size() + 1, 0);  // before the choice of that number
  const auto cost = [](const Choice& choice) {
    return choice.preempts() || choice.insists() ? std::size_t{1} : std::size_t{0};
  };
  for (std::size_t i = 0; i < made.size(); ++i) preempted[i + 1] = preempted[i] + cost(made[i]);
  for (std::size_t i = made.size(); i-- > 0;) {
    Choice next = made[i];
    if (++next.made >= next.candidates || preempted[i] + cost(next) > preemptions) continue;
    plan.places.clear();
    for (std::size_t j = 0; j < i; ++j) plan.places.push_back(made[j].made);
    plan.places.push_back(next.made);
    return true;
  }
  return false;
}

// What a shell takes as one word.
std::string quoted(std::string_view word) {
  std::string text{"'"};
  for (const char c : word) c == '\'' ? text += "'\\''" : text += c;
  return text + '\'';
}

bool needs_quotes(std::string_view word) {
  return !std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view{"/._-+:@%="}.find(static_cast<char>(c)) !=
                                       std::string_view::npos;
  });
}

}  // namespace

Explorer::Explorer(const ExploreOptions& options, const std::function<void()>& f)
    : options_(options),
      f_(f),
      stacks_(std::make_shared<arch::StackPool>(
          arch::StackOptions{.stack_bytes = options.stack_bytes})),
      began_(monotonic_now()),
      shown_(began_),
      shows_progress_(wants_progress(options.progress)) {
  report_.name = options.name;
  plan_ = {.seed = options.seed, .preempt = options.preempt, .calm = true};
}

// ── one run ─────────────────────────────────────────────────────────────────────────────────────

bool Explorer::Outcome::same_failure_as(const Outcome& other) const {
  if (wrong != other.wrong) return false;
  // The words of the others speak of times and places.
  const bool by_words = wrong == Failure::Kind::exception || wrong == Failure::Kind::assertion;
  return !by_words || what == other.what;
}

std::size_t Explorer::Outcome::switches() const {
  return static_cast<std::size_t>(
      std::count_if(made.begin(), made.end(), [](const Choice& c) { return c.made != 0; }));
}

std::size_t Explorer::Outcome::preemptions() const {
  return static_cast<std::size_t>(
      std::count_if(made.begin(), made.end(), [](const Choice& c) { return c.preempts(); }));
}

SimOptions Explorer::options_of(std::uint64_t seed) const {
  return {.seed = seed,
          .schedule = options_.schedule,
          .depth = options_.depth,
          .length = std::max<std::uint64_t>(length_, 16),
          .preempt = options_.preempt,
          .max_steps = options_.max_steps,
          .stack_bytes = options_.stack_bytes};
}

Explorer::Outcome Explorer::run(const SimOptions& options, Plan plan) {
  Outcome outcome;
  SimIo sim{options, std::move(plan), stacks_};
  const auto went_wrong = [&](Failure::Kind kind, std::string what) {
    outcome.wrong = kind;
    outcome.what = std::move(what);
  };
  try {
    sim.run(f_);
  } catch (const Deadlock& deadlock) {
    const bool leaked = sim.simulation_->leaked;
    went_wrong(leaked ? Failure::Kind::leak : Failure::Kind::deadlock, deadlock.what());
  } catch (const StepLimit& limit) {
    went_wrong(Failure::Kind::step_limit, limit.what());
  } catch (const ScheduleMismatch& mismatch) {
    went_wrong(Failure::Kind::nondeterminism, mismatch.what());
  } catch (const std::exception& error) {
    went_wrong(Failure::Kind::exception, error.what());
  } catch (...) {
    went_wrong(Failure::Kind::exception, "an exception that is no std::exception");
  }
  // It may have been caught, or have ended a scope that was cancelled anyway.
  if (!outcome.wrong && !sim.simulation_->deadlock_report.empty())
    went_wrong(sim.simulation_->leaked ? Failure::Kind::leak : Failure::Kind::deadlock,
               sim.simulation_->deadlock_report);
  if (options_.assertion)
    if (std::string failed = options_.assertion(); !failed.empty())
      went_wrong(Failure::Kind::assertion, std::move(failed));
  const Choices& choices = sim.simulation_->choices;
  outcome.plan = choices.as_made();
  outcome.made = choices.made();
  outcome.hash = choices.hash();
  outcome.steps = choices.steps();
  outcome.log = sim.log();
  return outcome;
}

Explorer::Outcome Explorer::again(Plan plan, std::size_t log_events) {
  SimOptions options = options_of(plan.seed);
  options.schedule = Schedule::random;
  options.log_events = log_events;
  return run(options, std::move(plan));
}

// ── all runs ────────────────────────────────────────────────────────────────────────────────────

void Explorer::count(const Outcome& outcome) {
  ++report_.runs;
  report_.steps += outcome.steps;
  report_.choices += outcome.made.size();
  // Of late, and without those that did not end as they should.
  if (!outcome.wrong)
    length_ = length_ == 0 ? outcome.steps : (length_ * 7 + outcome.steps + 7) / 8;
  if (hashes_.size() < kHashesMax) hashes_.insert(outcome.hash);
  report_.distinct = hashes_.size();
  if (outcome.wrong) ++report_.failures;
}

// What is not the same twice depends on something besides the schedule.
void Explorer::check_twice(const SimOptions& options, const Plan& plan, Outcome& outcome) {
  const Outcome second = run(options, plan);
  if (second.hash == outcome.hash && second.steps == outcome.steps &&
      second.wrong == outcome.wrong)
    return;
  outcome.wrong = Failure::Kind::nondeterminism;
  outcome.what =
      "the same schedule again was another run: " + grouped(outcome.steps) + " steps and " +
      grouped(second.steps) +
      "; the program depends on something besides it, such as a real clock, an address, the order "
      "of an unordered container, or a variable that outlives the run";
}

Report Explorer::all() {
  const bool exhaustive = options_.schedule == Schedule::exhaustive;
  const bool endless = exhaustive && options_.runs == 0;
  while (endless || report_.runs < options_.runs) {
    const std::uint64_t seed = exhaustive ? options_.seed : options_.seed + report_.runs;
    const SimOptions options = options_of(seed);
    const Plan plan = exhaustive ? plan_ : Plan{.seed = seed, .preempt = options.preempt};
    Outcome outcome = run(options, plan);
    if (options_.twice != 0 && report_.runs % options_.twice == 0)
      check_twice(options, plan, outcome);
    count(outcome);
    const std::vector<Choice> made = exhaustive ? outcome.made : std::vector<Choice>{};
    if (outcome.wrong && !report_.first) report_.first = describe(std::move(outcome), seed);
    if (options_.max_failures != 0 && report_.failures >= options_.max_failures) break;
    if (exhaustive && !next_plan(plan_, made, options_.preemptions)) {
      report_.complete = true;
      break;
    }
    if (shows_progress_) show_progress(false);
  }
  report_.elapsed = monotonic_now() - began_;
  if (shows_progress_) show_progress(true);
  return report_;
}

Report Explorer::only(const std::string& schedule) {
  SimOptions options = options_of(0);
  options.strict_replay = true;
  options.log_events = std::max<std::size_t>(options_.log_lines, 200);
  Outcome outcome = run(options, Choices::parse(schedule));
  count(outcome);
  std::fprintf(stderr, "weft: explore%s: replays %s\n%s", of_name(options_.name).c_str(),
               schedule.c_str(), indented(outcome.log, "  ").c_str());
  if (outcome.wrong) {
    Failure& failure = report_.first.emplace();
    failure.kind = *outcome.wrong;
    failure.what = outcome.what;
    failure.run = 1;
    failure.seed = outcome.plan.seed;
    failure.found = failure.schedule = schedule;
    failure.switches_found = failure.switches = outcome.switches();
    failure.preemptions_found = failure.preemptions = outcome.preemptions();
    failure.replay = command_for(schedule);  // its events are said already
  }
  report_.elapsed = monotonic_now() - began_;
  return report_;
}

void Explorer::show_progress(bool last) {
  const Instant now = monotonic_now();
  if (!last && now - shown_ < std::chrono::milliseconds{100}) return;
  shown_ = now;
  if (last) {
    std::fputs("\r\033[K", stderr);
    return;
  }
  const std::string of_all = options_.runs == 0 ? "" : " of " + grouped(options_.runs);
  std::fprintf(stderr, "\rexplore%s: %s%s runs, %s failed, %s runs/s\033[K",
               of_name(options_.name).c_str(), grouped(report_.runs).c_str(), of_all.c_str(),
               grouped(report_.failures).c_str(),
               per_second(report_.runs, now - began_).c_str());
  std::fflush(stderr);
}

// ── the failure ─────────────────────────────────────────────────────────────────────────────────

// Delta debugging over the choices that are not calm: leaves out half of them, then quarters, and
// so on. What follows a choice left out is another run, so each attempt is judged by what it does.
Explorer::Outcome Explorer::smaller(Outcome found, std::uint64_t& runs) {
  const auto cost = [](const Outcome& outcome) {
    return std::pair{outcome.preemptions(), outcome.switches()};
  };
  const auto attempt = [&](Plan plan) {
    plan.calm = true;
    ++runs;
    return again(std::move(plan));
  };
  // Behind its last choice, the calm ones.
  if (Outcome same = attempt(found.plan); same.same_failure_as(found)) found = std::move(same);
  else return found;
  for (std::size_t parts = 1; runs < options_.shrink_runs;) {
    std::vector<std::size_t> lively;  // places of choices that are not calm
    for (std::size_t i = 0; i < found.plan.places.size(); ++i)
      if (found.plan.places[i] != 0) lively.push_back(i);
    if (lively.empty()) break;
    const std::size_t length = (lively.size() + parts - 1) / parts;
    bool better = false;
    // The last ones first: they disturb the fewest others.
    for (std::size_t end = lively.size(); end > 0 && runs < options_.shrink_runs && !better;) {
      const std::size_t begin = end > length ? end - length : 0;
      Plan plan = found.plan;
      for (std::size_t i = begin; i < end; ++i) plan.places[lively[i]] = 0;
      end = begin;
      Outcome outcome = attempt(std::move(plan));
      better = outcome.same_failure_as(found) && cost(outcome) < cost(found);
      if (better) found = std::move(outcome);
    }
    if (better) continue;
    if (length == 1) break;
    parts = std::min(parts * 2, lively.size());
  }
  return found;
}

// The calmest schedules of all, one after another, with none, one, two preemptions: a search of its
// own, for what leaving out does not find.
Explorer::Outcome Explorer::with_fewer_preemptions(Outcome found, std::uint64_t& runs) {
  for (std::size_t bound = 0; bound < found.preemptions() && bound <= 2; ++bound) {
    Plan plan{.seed = found.plan.seed, .preempt = found.plan.preempt, .calm = true};
    for (bool more = true; more;) {
      if (runs >= options_.shrink_runs) return found;
      ++runs;
      Outcome outcome = again(plan);
      if (outcome.same_failure_as(found)) return outcome;
      more = next_plan(plan, outcome.made, bound);
    }
  }
  return found;
}

std::string Explorer::command_for(const std::string& schedule) const {
  const std::string name = options_.name.empty() ? "" : options_.name + '@';
  constexpr std::size_t kArgumentMax = 120'000;  // the kernel takes 128 KiB
  if (schedule.size() > kArgumentMax)
    return "(too long for a shell; give Failure::schedule to weft::replay())";
  const std::string_view own{program_invocation_name};
  const std::string program = !options_.command.empty() ? options_.command
                              : needs_quotes(own)       ? quoted(own)
                                                        : std::string{own};
  return "WEFT_REPLAY=" + quoted(name + schedule) + ' ' + program;
}

Failure Explorer::describe(Outcome found, std::uint64_t seed) {
  Failure failure;
  failure.kind = *found.wrong;
  failure.what = found.what;
  failure.run = report_.runs;
  failure.seed = seed;
  failure.found = found.plan.text();
  failure.switches_found = found.switches();
  failure.preemptions_found = found.preemptions();
  const bool repeats = failure.kind != Failure::Kind::nondeterminism;
  if (repeats && options_.shrink) {
    found = smaller(std::move(found), failure.shrink_runs);
    found = with_fewer_preemptions(std::move(found), failure.shrink_runs);
  }
  failure.schedule = found.plan.text();
  failure.switches = found.switches();
  failure.preemptions = found.preemptions();
  failure.what = found.what;
  if (options_.log_lines != 0) failure.log = again(found.plan, options_.log_lines).log;
  failure.replay = command_for(failure.schedule);
  return failure;
}

}  // namespace engine

// ── words ───────────────────────────────────────────────────────────────────────────────────────

std::string_view to_string(Failure::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"exception", "assertion",  "deadlock",
                                         "leak",      "step limit", "nondeterminism"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_string(const Failure& failure) {
  const auto numbers = [](std::size_t switches, std::size_t preemptions) {
    return engine::grouped(switches) + (switches == 1 ? " switch, " : " switches, ") +
           engine::grouped(preemptions) + (preemptions == 1 ? " preemption" : " preemptions");
  };
  const std::string kind = std::string{to_string(failure.kind)} + ": ";
  std::string text = "run " + engine::grouped(failure.run) + " failed, seed " +
                     std::to_string(failure.seed) + '\n';
  text += engine::indented((failure.what.starts_with(kind) ? "" : kind) + failure.what, "  ");
  constexpr std::size_t kShownMost = 4'000;
  text += "  schedule: " + failure.schedule.substr(0, kShownMost) +
          (failure.schedule.size() > kShownMost ? "..." : "") + "\n    " +
          numbers(failure.switches, failure.preemptions);
  const std::string in_runs = engine::grouped(failure.shrink_runs) +
                              (failure.shrink_runs == 1 ? " run" : " runs");
  if (failure.switches < failure.switches_found || failure.preemptions < failure.preemptions_found)
    text += "; made smaller in " + in_runs + " from " +
            numbers(failure.switches_found, failure.preemptions_found);
  else if (failure.shrink_runs != 0)
    text += "; not made smaller in " + in_runs;
  text += "\n";
  if (!failure.log.empty())
    text += "  the last events:\n" + engine::indented(failure.log, "    ");
  return text + "  see it again:\n    " + failure.replay + '\n';
}

std::string to_string(const Report& report) {
  std::string text = "explore" + engine::of_name(report.name) + ": " +
                     engine::grouped(report.runs) + (report.runs == 1 ? " run, " : " runs, ");
  text += report.failures == 0 ? "no failure" : engine::grouped(report.failures) + " failed";
  text += report.distinct < engine::kHashesMax ? ", " : ", over ";
  text += engine::grouped(report.distinct) + " different, " + engine::grouped(report.steps) +
          " steps";
  if (report.complete) text += ", all schedules within the bounds";
  return text + ", " + engine::per_second(report.runs, report.elapsed) + " runs/s";
}

// ── the doors ───────────────────────────────────────────────────────────────────────────────────

namespace {

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text || *text == '\0') return std::nullopt;
  std::uint64_t number = 0;
  const std::string_view all{text};
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (error != std::errc{} || end != all.data() + all.size())
    throw std::invalid_argument{std::string{variable} + '=' + text + ": a number is needed"};
  return number;
}

// What WEFT_REPLAY has for an exploration of that name; empty: nothing.
std::string replay_for(const std::string& name) {
  const char* const text = std::getenv("WEFT_REPLAY");
  if (!text) return {};
  const std::string_view all{text};
  const std::size_t at = all.rfind('@');
  if (at == std::string_view::npos) return std::string{all};
  return all.substr(0, at) == name ? std::string{all.substr(at + 1)} : std::string{};
}

ExploreOptions resolved(ExploreOptions options) {
  if (const auto seed = number_from("WEFT_SEED")) options.seed = *seed;
  if (const auto runs = number_from("WEFT_RUNS")) options.runs = *runs;
  if (const char* const progress = std::getenv("WEFT_PROGRESS")) {
    const std::string_view word{progress};
    if (word == "always") options.progress = Progress::always;
    else if (word == "never") options.progress = Progress::never;
    else if (!word.empty())
      throw std::invalid_argument{"WEFT_PROGRESS=" + std::string{word} + ": always or never"};
  }
  if (options.runs == 0 && options.schedule != Schedule::exhaustive)
    throw std::invalid_argument{"weft::explore(): no runs; only Schedule::exhaustive knows an end"};
  if (options.depth == 0) throw std::invalid_argument{"weft::explore(): a depth of at least 1"};
  return options;
}

}  // namespace

Report detail::explore(const ExploreOptions& asked, const std::function<void()>& f) {
  if (!Fiber::current().is_thread())
    throw std::logic_error{"weft::explore(): it has engines of its own; call it outside of run()"};
  const ExploreOptions options = resolved(asked);
  const std::string schedule = replay_for(options.name);
  engine::Explorer explorer{options, f};
  Report report = schedule.empty() ? explorer.all() : explorer.only(schedule);
  if (options.print) {
    if (report.first)
      std::fprintf(stderr, "weft: explore%s: %s", engine::of_name(options.name).c_str(),
                   to_string(*report.first).c_str());
    std::fprintf(stderr, "weft: %s\n", to_string(report).c_str());
  }
  return report;
}

void detail::for_seeds(std::uint64_t count, const std::function<void(std::uint64_t)>& f) {
  const std::optional<std::uint64_t> only = number_from("WEFT_SEED");
  const std::uint64_t first = only.value_or(0);
  const std::uint64_t end = only ? *only + 1 : count;
  for (std::uint64_t seed = first; seed != end; ++seed) {
    try {
      f(seed);
    } catch (...) {
      std::fprintf(stderr, "weft: for_seeds(): it failed with seed %llu; WEFT_SEED=%llu runs that "
                           "one alone\n",
                   static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed));
      throw;
    }
  }
}

}  // namespace weft
