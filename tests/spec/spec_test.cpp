// The specification against itself, against the requirement documents, and as a trap: each illegal
// edge is driven through the checks in a process of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <weft/base/mutant.hpp>
#include <weft/core/spec.hpp>

namespace weft {
namespace {

using spec::check;
using spec::check_edge;
using spec::kSpecAssert;
using spec::legal;
using spec::Rule;

// ---- what the tests share -----------------------------------------------------------------------

template <class Enum>
std::vector<Enum> up_to(Enum last) {
  std::vector<Enum> all;
  for (unsigned i = 0; i <= static_cast<unsigned>(last); ++i) all.push_back(static_cast<Enum>(i));
  return all;
}
const std::vector<FiberState> kFiberStates = up_to(FiberState::cancelled);
const std::vector<Actor> kActors = up_to(Actor::canceller);
const std::vector<WorkerState> kWorkerStates = up_to(WorkerState::dead);
const std::vector<NurseryState> kNurseryStates = up_to(NurseryState::cancelled);
const std::vector<ChannelState> kChannelStates = up_to(ChannelState::aborted);

template <class State>
std::set<State> reachable(const std::vector<State>& all, State from) {
  std::set<State> found{from};
  for (std::size_t before = 0; before != found.size();) {
    before = found.size();
    for (const State a : all)
      for (const State b : all)
        if (found.contains(a) && legal(a, b)) found.insert(b);
  }
  return found;
}

template <class State>
bool has_exit(const std::vector<State>& all, State from) {
  for (const State to : all)
    if (legal(from, to)) return true;
  return false;
}

// Every state is reachable from the first; those named, and no others, are the end; and from every
// state some end can be reached.
template <class State>
void expect_sound_machine(const std::vector<State>& all, const std::set<State>& ends) {
  EXPECT_EQ(reachable(all, all.front()), std::set<State>(all.begin(), all.end()));
  for (const State state : all) {
    EXPECT_EQ(!has_exit(all, state), ends.contains(state)) << to_string(state);
    EXPECT_FALSE(legal(state, state)) << to_string(state);
    bool can_end = false;
    for (const State end : reachable(all, state)) can_end = can_end || ends.contains(end);
    EXPECT_TRUE(can_end) << to_string(state);
  }
}

struct Outcome {
  bool exited_well = false;
  int signal = 0;
  std::string said;
};

// Runs `act` in a forked process and reports how that ended.
template <class Act>
Outcome in_child(Act&& act) {
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) std::abort();
  std::fflush(stdout);  // or the child may print it again
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(pipe_ends[1], STDERR_FILENO);
    act();
    ::_exit(0);
  }
  ::close(pipe_ends[1]);
  Outcome outcome;
  std::array<char, 512> buffer{};
  for (ssize_t got; (got = ::read(pipe_ends[0], buffer.data(), buffer.size())) > 0;)
    outcome.said.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(pipe_ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  outcome.exited_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

// The one line that a violation prints, `line` being that of the check in this file.
std::string violation(std::string_view what, unsigned line) {
  std::ostringstream text;
  text << "weft: spec violated: " << what << " (" << __FILE__ << ':' << line << ")\n";
  return text.str();
}

void expect_trap(const Outcome& outcome, const std::string& line) {
  if constexpr (kSpecAssert) {
    EXPECT_EQ(outcome.signal, SIGABRT) << line;
    EXPECT_EQ(outcome.said, line);
  } else {  // a build without checks does not look
    EXPECT_TRUE(outcome.exited_well) << line;
    EXPECT_EQ(outcome.said, "");
  }
}

template <class State>
void expect_illegal_edges_trap(std::string_view machine, const std::vector<State>& all,
                               std::size_t illegal) {
  std::size_t driven = 0;
  for (const State from : all)
    for (const State to : all) {
      if (legal(from, to)) {
        EXPECT_TRUE(in_child([&] { check_edge(from, to); }).exited_well);
        continue;
      }
      const unsigned line = __LINE__ + 1;
      const Outcome outcome = in_child([&] { check_edge(from, to); });
      std::ostringstream edge;
      edge << "no " << machine << " edge " << to_string(from) << " -> " << to_string(to);
      expect_trap(outcome, violation(edge.str(), line));
      ++driven;
    }
  EXPECT_EQ(driven, illegal);
}

// ---- the fiber ----------------------------------------------------------------------------------

TEST(FiberMachine, EveryStateIsReachedAndOnlyDoneAndCancelledAreFinal) {
  expect_sound_machine(kFiberStates, {FiberState::done, FiberState::cancelled});
}

TEST(FiberMachine, FitsFourBitsInTheOrderOfTheRequirement) {
  const std::vector<std::string_view> s0{"init",   "runnable", "running", "parking",
                                         "parked", "waking",   "done",    "cancelled"};
  ASSERT_EQ(kFiberStates.size(), s0.size());
  EXPECT_LE(kFiberStates.size(), 16U);
  for (std::size_t i = 0; i < s0.size(); ++i) EXPECT_EQ(to_string(kFiberStates[i]), s0[i]);
}

// S0 §9 row by row, each with the actor that was decided for it.
TEST(FiberMachine, HoldsEveryRowOfTheRequirement) {
  using enum FiberState;
  using enum Actor;
  EXPECT_TRUE(legal(init, runnable, spawner));
  EXPECT_TRUE(legal(runnable, running, worker));
  EXPECT_TRUE(legal(running, runnable, worker));
  EXPECT_TRUE(legal(running, parking, fiber));
  EXPECT_TRUE(legal(parking, running, fiber));
  EXPECT_TRUE(legal(parking, parked, worker));
  EXPECT_TRUE(legal(parked, waking, worker));  // the self-claim
  EXPECT_TRUE(legal(parked, waking, waker));
  EXPECT_TRUE(legal(parked, waking, canceller));  // cancellation uses the same claim
  EXPECT_TRUE(legal(waking, runnable, waker));
  EXPECT_TRUE(legal(running, done, fiber));
  EXPECT_TRUE(legal(running, cancelled, fiber));
  EXPECT_TRUE(legal(runnable, cancelled, worker));  // cancelled before its first run
  EXPECT_EQ(spec::kFiberMatrix.size(), 15U);
}

TEST(FiberMachine, NoEdgeIsListedTwiceAndEachSaysWhy) {
  std::set<std::tuple<FiberState, FiberState, Actor>> seen;
  std::set<Actor> actors;
  for (const spec::FiberEdge& edge : spec::kFiberMatrix) {
    EXPECT_TRUE(seen.insert({edge.from, edge.to, edge.actor}).second)
        << to_string(edge.from) << " -> " << to_string(edge.to);
    EXPECT_FALSE(edge.trigger.empty());
    actors.insert(edge.actor);
  }
  EXPECT_EQ(actors, std::set<Actor>(kActors.begin(), kActors.end())) << "an actor without an edge";
}

TEST(FiberMachine, AFusedStepIsAPathOfLegalEdgesByOneActor) {
  using enum FiberState;
  std::size_t count = 0;
  for (const FiberState from : kFiberStates)
    for (const FiberState to : kFiberStates)
      for (const Actor actor : kActors) {
        if (!spec::legal_fused(from, to, actor)) continue;
        ++count;
        EXPECT_EQ(to, runnable);
        EXPECT_TRUE(from == parked || legal(from, parked, actor));
        EXPECT_TRUE(legal(parked, waking, actor) && legal(waking, runnable, actor));
      }
  EXPECT_EQ(count, 4U);
}

// The writes of a release build: one word, two read-modify-writes for a park and its wake.
TEST(FiberMachine, OnlyWhatOthersDecideByIsWrittenInRelease) {
  std::size_t by_fiber_or_worker = 0;
  for (const spec::FiberEdge& edge : spec::kFiberMatrix) {
    const bool touches_the_wait = edge.from == FiberState::parking ||
                                  edge.from == FiberState::parked ||
                                  edge.from == FiberState::waking || edge.to == FiberState::parking;
    EXPECT_EQ(edge.write != spec::Write::logical, touches_the_wait) << edge.trigger;
    if (edge.write == spec::Write::rmw &&
        (edge.actor == Actor::fiber || edge.actor == Actor::worker))
      ++by_fiber_or_worker;
  }
  EXPECT_EQ(by_fiber_or_worker, 2U) << "abort_park, commit_park";
}

TEST(FiberMachine, WhatOthersMayDoFollowsFromTheEdges) {
  for (const FiberState state : kFiberStates) {
    EXPECT_EQ(spec::can_be_queued(state), legal(state, FiberState::running, Actor::worker));
    EXPECT_EQ(spec::can_be_claimed(state), legal(state, FiberState::waking, Actor::waker));
    EXPECT_EQ(spec::can_be_latched(state), legal(state, FiberState::parked));
  }
}

TEST(FiberMachine, EachLegalEdgePassesTheCheck) {
  for (const spec::FiberEdge& edge : spec::kFiberMatrix) {
    const Outcome outcome = in_child([&] { check_edge(edge.from, edge.to, edge.actor); });
    EXPECT_TRUE(outcome.exited_well) << outcome.said;
    EXPECT_EQ(outcome.said, "");
  }
}

TEST(FiberMachine, EachIllegalEdgeTraps) {
  std::size_t driven = 0;
  for (const FiberState from : kFiberStates)
    for (const FiberState to : kFiberStates)
      for (const Actor actor : kActors) {
        if (legal(from, to, actor)) continue;
        const unsigned line = __LINE__ + 1;
        const Outcome outcome = in_child([&] { check_edge(from, to, actor); });
        std::ostringstream edge;
        edge << "no fiber edge " << to_string(from) << " -> " << to_string(to) << " by "
             << to_string(actor);
        expect_trap(outcome, violation(edge.str(), line));
        ++driven;
      }
  EXPECT_EQ(driven, 8U * 8 * 5 - 15);
}

TEST(FiberMachine, AStateThatNoEnumeratorNamesTrapsToo) {
  const auto corrupt = static_cast<FiberState>(13);
  EXPECT_EQ(to_string(corrupt), "invalid");
  const unsigned line = __LINE__ + 1;
  const Outcome outcome = in_child([&] { check_edge(corrupt, corrupt, Actor::worker); });
  expect_trap(outcome, violation("no fiber edge invalid -> invalid by worker", line));
}

// ---- the other machines -------------------------------------------------------------------------

TEST(WorkerMachine, IsSoundAndSleepsOnlyAfterSearching) {
  expect_sound_machine(kWorkerStates, {WorkerState::dead});
  EXPECT_EQ(spec::kWorkerMatrix.size(), 7U);
  for (const WorkerState from : kWorkerStates)  // S0 §6: no work may be visible
    EXPECT_EQ(legal(from, WorkerState::sleep), from == WorkerState::idle_spin);
  for (const WorkerState to : kWorkerStates)  // S0 §6.2: no stealing, no new work, then exit
    EXPECT_EQ(legal(WorkerState::draining, to), to == WorkerState::dead);
}

TEST(WorkerMachine, EachIllegalEdgeTraps) {
  expect_illegal_edges_trap("worker", kWorkerStates, 5U * 5 - 7);
}

TEST(NurseryMachine, HasExactlyTheEdgesOfTheRequirement) {
  using enum NurseryState;
  expect_sound_machine(kNurseryStates, {closed, NurseryState::cancelled});
  const std::set<std::pair<NurseryState, NurseryState>> s3{{open, closing},
                                                           {open, cancelling},
                                                           {closing, closed},
                                                           {closing, cancelling},
                                                           {cancelling, NurseryState::cancelled}};
  for (const NurseryState from : kNurseryStates)
    for (const NurseryState to : kNurseryStates)
      EXPECT_EQ(legal(from, to), s3.contains({from, to}))
          << to_string(from) << " -> " << to_string(to);
  for (std::size_t code = 0; code < kNurseryStates.size(); ++code)  // S3 §2.2's codes
    EXPECT_EQ(static_cast<std::size_t>(kNurseryStates[code]), code);
}

TEST(NurseryMachine, EachIllegalEdgeTraps) {
  expect_illegal_edges_trap("nursery", kNurseryStates, 5U * 5 - 5);
}

TEST(ChannelMachine, IsSoundAndNeverReopens) {
  expect_sound_machine(kChannelStates, {ChannelState::hung_up, ChannelState::aborted});
  EXPECT_EQ(spec::kChannelMatrix.size(), 5U);
  for (const ChannelState from : kChannelStates) EXPECT_FALSE(legal(from, ChannelState::open));
}

TEST(ChannelMachine, EachIllegalEdgeTraps) {
  expect_illegal_edges_trap("channel", kChannelStates, 4U * 4 - 5);
}

// ---- rules --------------------------------------------------------------------------------------

TEST(Rules, EachIsNamedExplainedAndCheckedSomewhere) {
  ASSERT_EQ(spec::kRules.size(), 5U);
  for (std::size_t i = 0; i < spec::kRules.size(); ++i) {
    const spec::RuleText& rule = spec::kRules[i];
    EXPECT_EQ(static_cast<std::size_t>(rule.rule), i) << "to_string(Rule) counts on the order";
    EXPECT_EQ(rule.name.substr(0, 3), "F" + std::to_string(i + 1) + " ");
    EXPECT_EQ(to_string(rule.rule), rule.name);
    EXPECT_GT(rule.text.size(), 20U);
    EXPECT_FALSE(rule.checked.empty());
  }
}

TEST(Rules, ARuleThatHoldsPasses) {
  int asked = 0;
  for (const spec::RuleText& rule : spec::kRules)
    check(rule.rule, [&] {
      ++asked;
      return true;
    });
  EXPECT_EQ(asked, kSpecAssert ? 5 : 0) << "a build without checks does not even ask";
}

TEST(Rules, ABrokenRuleTrapsWithItsText) {
  for (const spec::RuleText& rule : spec::kRules) {
    const unsigned line = __LINE__ + 1;
    const Outcome outcome = in_child([&] { check(rule.rule, [] { return false; }); });
    expect_trap(outcome, violation(std::string{rule.name} + ": " + std::string{rule.text}, line));
  }
}

TEST(Rules, AViolationDiesBySigabrtInEveryBuild) {
  const Outcome rule = in_child([] { spec::violated(Rule::f4_single_enqueue_owner, {"here", 7}); });
  EXPECT_EQ(rule.signal, SIGABRT);
  EXPECT_EQ(rule.said,
            "weft: spec violated: F4 single_enqueue_owner: Only the winner of the wake claim "
            "enqueues the fiber, once. (here:7)\n");
  const Outcome edge = in_child([] { spec::violated("cup", "full", "empty", {}, {"there", 9}); });
  EXPECT_EQ(edge.signal, SIGABRT);
  EXPECT_EQ(edge.said, "weft: spec violated: no cup edge full -> empty (there:9)\n");
}

// ---- the tables that only people read -----------------------------------------------------------

TEST(Tables, MemoryOrdersCoverEveryRowOfTheRequirement) {
  std::map<std::string_view, std::string_view> order_of;
  for (const spec::OrderRow& row : spec::kMemoryOrders) {
    EXPECT_TRUE(order_of.emplace(row.event, row.order).second) << row.event << " is there twice";
    for (const std::string_view cell : {row.operation, row.order, row.anchor, row.why})
      EXPECT_FALSE(cell.empty()) << row.event;
    EXPECT_NE(row.anchor.find("::"), std::string_view::npos) << row.anchor;
  }
  const std::initializer_list<std::pair<std::string_view, std::string_view>> s0{
      {"enqueue RUNNABLE", "release"}, {"dequeue to RUNNING", "acquire"},
      {"enter PARKING", "release"},    {"waiter published", "release"},
      {"commit PARKED", "seq_cst"},    {"post-commit check", "seq_cst"},
      {"self-claim", "acq_rel"},       {"waker sees PARKING", "acq_rel"},
      {"wake claim", "acq_rel"},       {"wake enqueue", "release"},
      {"close a channel", "acq_rel"}};
  for (const auto& [event, order] : s0) EXPECT_EQ(order_of[event], order) << event;
}

TEST(Tables, NoCellIsEmptyOrBreaksATable) {
  std::vector<std::string_view> cells;
  for (const spec::MustNot& row : spec::kMustNot) cells.insert(cells.end(), {row.what, row.why});
  for (const spec::Decision& row : spec::decisions())
    cells.insert(cells.end(), {row.they_say, row.we_do, row.why});
  for (const auto& row : spec::kWorkerMatrix) cells.push_back(row.trigger);
  for (const auto& row : spec::kNurseryMatrix) cells.push_back(row.trigger);
  for (const auto& row : spec::kChannelMatrix) cells.push_back(row.trigger);
  EXPECT_GE(cells.size(), 60U);
  for (const std::string_view cell : cells) {
    EXPECT_FALSE(cell.empty());
    EXPECT_EQ(cell.find('|'), std::string_view::npos) << cell;
  }
}

TEST(Tables, EnumsPrintDistinctNames) {
  const auto expect_distinct = [](const auto& all) {
    std::set<std::string_view> names;
    for (const auto value : all) {
      EXPECT_NE(to_string(value), "invalid");
      EXPECT_TRUE(names.insert(to_string(value)).second) << to_string(value);
    }
  };
  expect_distinct(kFiberStates);
  expect_distinct(kActors);
  expect_distinct(kWorkerStates);
  expect_distinct(kNurseryStates);
  expect_distinct(kChannelStates);
  expect_distinct(up_to(spec::Write::logical));
  expect_distinct(up_to(Rule::f5_parked_runs_nothing));
  static_assert(to_string(FiberState::parked) == "parked", "names are constants");
  static_assert(to_string(NurseryState::cancelling) == "cancelling");
}

TEST(Mutants, AreNumberedNamedAndAsleep) {
  std::set<std::string_view> names;
  int before = 0;  // ids may have gaps: they are given out in blocks
  for (const mutant::Mutant& each : mutant::kMutants) {
    EXPECT_GT(each.id, std::exchange(before, each.id));
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_TRUE(each.name.starts_with('k')) << each.name;
    EXPECT_FALSE(each.change.empty());
    EXPECT_FALSE(each.noticed_by.empty());
  }
  static_assert(!mutant::kCommitOnOwnStack && !mutant::kRaceLoserRuns, "false where they count");
}

// ---- the document -------------------------------------------------------------------------------

std::vector<std::string> lines_of_document() {
  const char* const path = std::getenv("WEFT_PROTOCOL_PAGE");
  std::ifstream file{path ? path : "docs/protocol.md"};
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(Document, EveryTableIsWellFormed) {
  const std::vector<std::string> lines = lines_of_document();
  ASSERT_GT(lines.size(), 100U) << "docs/protocol.md was not found";
  std::set<std::string> printed;
  std::string inside;
  std::ptrdiff_t width = 0;
  std::size_t rows = 0;
  for (const std::string& line : lines) {
    if (line.starts_with("<!-- table:")) {
      EXPECT_EQ(inside, "") << "a table inside a table";
      inside = line;
      EXPECT_TRUE(printed.insert(line).second) << line << " is there twice";
      rows = 0;
    } else if (line == "<!-- end -->" && !inside.empty()) {
      EXPECT_GE(rows, 3U) << inside << " is empty";
      inside.clear();
    }
    if (!line.starts_with('|')) {
      width = 0;
      continue;
    }
    EXPECT_TRUE(line.ends_with('|')) << line;
    const std::ptrdiff_t cells = std::count(line.begin(), line.end(), '|') - 1;
    EXPECT_TRUE(width == 0 || cells == width) << line;
    width = cells;
    ++rows;
  }
  EXPECT_EQ(inside, "") << "a table without an end";
  EXPECT_EQ(printed.size(), 11U) << "one place for each table that spec-tables prints";
}

TEST(Document, TellsOfEveryStateAndEveryRule) {
  std::string text;
  for (const std::string& line : lines_of_document()) text += line + '\n';
  for (const FiberState state : kFiberStates) {
    std::string name{to_string(state)};
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_NE(text.find("\n| " + name + " | "), std::string::npos) << name;
  }
  for (const spec::RuleText& rule : spec::kRules)
    EXPECT_NE(text.find("| " + std::string{rule.name} + " | "), std::string::npos) << rule.name;
}

}  // namespace
}  // namespace weft
