// Random trees of nurseries against a model of the rules, on many schedules.
//
// Every node of a tree is a fiber that runs one nursery: it starts its children, sleeps until an
// instant of its own, and then returns, throws, or cancels something. All instants of a tree are
// distinct, so what happens does not depend on the schedule, but for one thing: if a cancel makes
// several children end at one instant with errors they had kept, any of those may be the first. The
// model says which.
#include <weft/cancel.hpp>
#include <weft/nursery.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/event.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <support/frames.hpp>

namespace weft {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kNodesMax = 12;
constexpr int kDepthMax = 4;
constexpr std::uint64_t kSeeds = arch::kTsan ? 4 : 12;  // schedules per tree

// ── trees ───────────────────────────────────────────────────────────────────────────────────────

// What a node's body does at its instant.
enum class Action { returns, throws, cancels, cancels_parent, asks_to_stop };
// What is around a node's nursery.
enum class Wrapper { none, shield, deadline };

// As generated: any values make a tree.
struct Draft {
  int parent = 0;
  int action = 0;
  int wrapper = 0;
  int policy = 0;
  int acts_at = 0;
  int deadline_at = 0;
  int grace_ends_at = 0;
};

std::ostream& operator<<(std::ostream& out, const Draft& draft) {
  return out << '{' << draft.parent << ", " << draft.action << ", " << draft.wrapper << ", "
             << draft.policy << ", " << draft.acts_at << ", " << draft.deadline_at << ", "
             << draft.grace_ends_at << '}';
}

struct Node {
  std::optional<std::size_t> parent;  // none: the root
  std::vector<std::size_t> children;
  int depth = 0;
  Action action = Action::returns;
  Wrapper wrapper = Wrapper::none;
  ErrorPolicy policy = ErrorPolicy::fail_fast;
  int acts_at = 0;        // microseconds, all of these
  int deadline_at = 0;    // with Wrapper::deadline
  int grace_ends_at = 0;  // with Action::asks_to_stop
};

using Tree = std::vector<Node>;

Tree tree_from(const std::vector<Draft>& drafts) {
  Tree tree;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const Draft& draft = drafts[i];
    Node node;
    // Three instants per node, each in a residue class of its own: never two at once.
    const auto instant = [&](int value, int which) {
      return 1 + value * static_cast<int>(3 * kNodesMax) + static_cast<int>(3 * i) + which;
    };
    if (i > 0) {
      std::size_t parent = static_cast<std::size_t>(draft.parent) % i;
      if (tree[parent].depth == kDepthMax) parent = 0;
      node.parent = parent;
      node.depth = tree[parent].depth + 1;
      tree[parent].children.push_back(i);
    }
    node.action = static_cast<Action>(draft.action);
    if (node.action == Action::cancels_parent && !node.parent) node.action = Action::cancels;
    node.wrapper = static_cast<Wrapper>(draft.wrapper);
    node.policy = static_cast<ErrorPolicy>(draft.policy);
    node.acts_at = instant(draft.acts_at, 0);
    node.deadline_at = instant(draft.deadline_at, 1);
    node.grace_ends_at = std::max(instant(draft.grace_ends_at, 2), node.acts_at + 1);
    if (node.grace_ends_at == node.acts_at + 1) node.grace_ends_at = instant(draft.acts_at + 1, 2);
    tree.push_back(node);
  }
  return tree;
}

rc::Gen<std::vector<Draft>> drafts() {
  const auto at = [] { return rc::gen::inRange(0, 20); };
  const auto draft = rc::gen::build<Draft>(
      rc::gen::set(&Draft::parent, rc::gen::inRange(0, static_cast<int>(kNodesMax))),
      rc::gen::set(&Draft::action,
                   rc::gen::weightedElement<int>({{3, 0}, {6, 1}, {2, 2}, {1, 3}, {1, 4}})),
      rc::gen::set(&Draft::wrapper, rc::gen::weightedElement<int>({{3, 0}, {2, 1}, {2, 2}})),
      rc::gen::set(&Draft::policy, rc::gen::weightedElement<int>({{2, 0}, {3, 1}, {2, 2}})),
      rc::gen::set(&Draft::acts_at, at()), rc::gen::set(&Draft::deadline_at, at()),
      rc::gen::set(&Draft::grace_ends_at, at()));
  return rc::gen::mapcat(rc::gen::inRange<std::size_t>(1, kNodesMax + 1), [=](std::size_t count) {
    return rc::gen::container<std::vector<Draft>>(count, draft);
  });
}

// ── how a node ends ─────────────────────────────────────────────────────────────────────────────

enum class Outcome { success, failed, cancelled };

const char* to_text(Outcome outcome) {
  constexpr const char* kNames[] = {"success", "failed", "cancelled"};
  return kNames[static_cast<std::size_t>(outcome)];
}

struct Ending {
  Outcome call = Outcome::success;    // of nursery(): returned, threw an error, threw Cancelled
  Outcome result = Outcome::success;  // Nursery::result()
  std::set<int> first;                // the nodes whose error may be the first; seen: one
  int errors = 0;                     // how many came together: thrown, collected, suppressed
  int at = -1;                        // when
};

// ── the model ───────────────────────────────────────────────────────────────────────────────────

class Model {
 public:
  explicit Model(const Tree& tree) : tree_(tree), states_(tree.size()) {}

  std::vector<Ending> predict() {
    std::map<int, std::pair<std::size_t, int>> agenda;  // instant: node, what
    for (std::size_t i = 0; i < tree_.size(); ++i) {
      agenda[tree_[i].acts_at] = {i, 0};
      if (tree_[i].wrapper == Wrapper::deadline) agenda[tree_[i].deadline_at] = {i, 1};
      if (tree_[i].action == Action::asks_to_stop) agenda[tree_[i].grace_ends_at] = {i, 2};
    }
    for (const auto& [instant, entry] : agenda) {
      now_ = instant;
      const auto [node, what] = entry;
      if (states_[node].ended) continue;
      if (what == 0)
        act(node);
      else if (what == 1)
        states_[node].deadline_passed = true;
      else if (states_[node].body_ended && states_[node].asked)
        states_[node].cancelled = true;
      while (unwind_and_join()) {
      }
    }
    std::vector<Ending> endings;
    for (const State& state : states_) endings.push_back(state.ending);
    return endings;
  }

 private:
  struct State {
    bool body_ended = false;
    bool unwound = false;  // the body, or a child, by cancellation
    bool cancelled = false;
    bool deadline_passed = false;
    bool asked = false;
    bool ended = false;
    int first_at = -1;              // when the first error came
    bool cancelled_before = false;  // the nursery, when it came
    Ending ending;
  };

  // Whether the scope in which the node's fiber was started is cancelled.
  bool around_fiber(std::size_t i) const { return tree_[i].parent && in_nursery(*tree_[i].parent); }
  // Whether the scope around the node's nursery is.
  bool around_nursery(std::size_t i) const {
    if (tree_[i].wrapper == Wrapper::shield) return false;
    return states_[i].deadline_passed || around_fiber(i);
  }
  // Whether body and children of the node's nursery are to stop.
  bool in_nursery(std::size_t i) const { return states_[i].cancelled || around_nursery(i); }

  void act(std::size_t i) {
    State& state = states_[i];
    if (state.body_ended) return;  // unwound before
    state.body_ended = true;
    switch (tree_[i].action) {
      case Action::returns: break;
      case Action::throws: fail(i, {static_cast<int>(i)}); break;
      case Action::cancels: state.cancelled = true; break;
      case Action::cancels_parent: states_[*tree_[i].parent].cancelled = true; break;
      case Action::asks_to_stop: state.asked = true; break;
    }
  }

  // An error of the body or a child arrives at the nursery.
  void fail(std::size_t i, const std::set<int>& first) {
    State& state = states_[i];
    if (state.ending.errors++ == 0) {
      state.ending.first = first;
      state.first_at = now_;
      state.cancelled_before = in_nursery(i);
    } else if (state.first_at == now_ && state.cancelled_before) {
      state.ending.first.insert(first.begin(), first.end());  // a tie: all were cut off together
    }
    if (tree_[i].policy == ErrorPolicy::fail_fast) state.cancelled = true;
  }

  // What follows at this instant. False: nothing more.
  bool unwind_and_join() {
    bool changed = false;
    for (std::size_t i = tree_.size(); i-- > 0;) {
      State& state = states_[i];
      if (!state.body_ended && in_nursery(i)) {
        state.body_ended = true;
        state.unwound = true;
        changed = true;
      }
      const bool joined =
          state.body_ended && std::all_of(tree_[i].children.begin(), tree_[i].children.end(),
                                          [&](std::size_t child) { return states_[child].ended; });
      if (!joined || state.ended) continue;
      end(i);
      changed = true;
    }
    return changed;
  }

  void end(std::size_t i) {
    State& state = states_[i];
    Ending& ending = state.ending;
    state.ended = true;
    ending.at = now_;
    if (ending.errors > 0) {  // an error beats a cancellation
      ending.call = ending.result = Outcome::failed;
      if (tree_[i].parent) fail(*tree_[i].parent, ending.first);
      return;
    }
    if (in_nursery(i)) ending.result = Outcome::cancelled;
    // Its own cancel never leaves a nursery; what came from outside goes on.
    if (state.unwound && around_nursery(i)) ending.call = Outcome::cancelled;
    if (ending.call == Outcome::cancelled && around_fiber(i))
      states_[*tree_[i].parent].unwound = true;
  }

  const Tree& tree_;
  std::vector<State> states_;
  int now_ = 0;
};

// ── the real thing ──────────────────────────────────────────────────────────────────────────────

struct Failure {
  int node;
};

// The node whose error it was, at the bottom of however many ChildErrors.
int origin_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Failure& failure) {
    return failure.node;
  } catch (const ChildErrors& errors) {
    return origin_of(errors.errors().front());
  } catch (...) {
    return -1;
  }
}

class Run {
 public:
  explicit Run(const Tree& tree) : tree_(tree), endings_(tree.size()), ended_(tree.size()) {}

  // What was seen; the complaints are about rules that need no model.
  std::vector<Ending> play(std::uint64_t seed) {
    SimIo{{.seed = seed}}.run([&] {
      const std::size_t frames = testing::frames_in_use();
      start_ = Clock::now();
      try {
        run_wrapped(0, nullptr);
      } catch (const Cancelled&) {
        complain("Cancelled left the root");
      } catch (...) {
      }
      if (testing::frames_in_use() != frames) complain("frames were left behind");
      const Instant end = Clock::now();
      try {
        Event{}.wait();
      } catch (const Deadlock&) {
      }
      if (Clock::now() != end) complain("a timer was left behind");
    });
    return endings_;
  }

  [[nodiscard]] const std::string& complaints() const { return complaints_; }

 private:
  struct Probe {
    Nursery& nursery;
    Ending& ending;
    Probe(Nursery& nursery_in, Ending& ending_in) : nursery(nursery_in), ending(ending_in) {}
    ~Probe() {
      const std::optional<NurseryResult> result = nursery.result();
      if (!result) return;
      ending.result = static_cast<Outcome>(result->kind);
      static_assert(static_cast<int>(NurseryResult::Kind::child_failed) ==
                    static_cast<int>(Outcome::failed));
    }
  };

  void run_wrapped(std::size_t i, Nursery* parent) {
    switch (tree_[i].wrapper) {
      case Wrapper::none: return run_nursery(i, parent);
      case Wrapper::shield: return shielded([&] { run_nursery(i, parent); });
      case Wrapper::deadline:
        static_cast<void>(
            deadline(start_ + microseconds{tree_[i].deadline_at}, [&] { run_nursery(i, parent); }));
    }
  }

  void run_nursery(std::size_t i, Nursery* parent) {
    Ending& ending = endings_[i];
    int suppressed = 0;
    try {
      const auto on_suppressed = [&](std::exception_ptr, FiberId) { ++suppressed; };
      nursery({.on_error = tree_[i].policy, .on_suppressed = on_suppressed}, [&](Nursery& n) {
        n.make<Probe>(n, ending);
        for (const std::size_t child : tree_[i].children)
          n.spawn([this, child, &n] { run_wrapped(child, &n); });
        run_body(i, n, parent);
      });
      ending.call = Outcome::success;
    } catch (const Cancelled&) {
      note_end(i, Outcome::cancelled);
      throw;
    } catch (const ChildErrors& errors) {
      // A child's, or our own: that depends on the policy.
      ending.errors = tree_[i].policy == ErrorPolicy::collect
                          ? static_cast<int>(errors.errors().size())
                          : 1 + suppressed;
      ending.first = {origin_of(std::current_exception())};
      note_end(i, Outcome::failed);
      throw;
    } catch (...) {
      ending.errors = 1 + suppressed;
      ending.first = {origin_of(std::current_exception())};
      note_end(i, Outcome::failed);
      throw;
    }
    note_end(i, Outcome::success);
  }

  void run_body(std::size_t i, Nursery& n, Nursery* parent) {
    const Node& node = tree_[i];
    sleep_until(start_ + microseconds{node.acts_at});
    switch (node.action) {
      case Action::returns: return;
      case Action::throws: throw Failure{static_cast<int>(i)};
      case Action::cancels: return n.cancel();
      case Action::cancels_parent: return parent->cancel();
      case Action::asks_to_stop: return n.cancel(microseconds{node.grace_ends_at - node.acts_at});
    }
  }

  void note_end(std::size_t i, Outcome call) {
    endings_[i].call = call;
    endings_[i].at = static_cast<int>((Clock::now() - start_) / microseconds{1});
    ended_[i] = true;
    for (const std::size_t child : tree_[i].children)
      if (!ended_[child]) complain("node " + std::to_string(i) + " ended before its child");
  }

  void complain(const std::string& what) { complaints_ += what + "\n"; }

  const Tree& tree_;
  std::vector<Ending> endings_;
  std::vector<bool> ended_;
  Instant start_{};
  std::string complaints_;
};

// ── the property ────────────────────────────────────────────────────────────────────────────────

std::string differences(const std::vector<Ending>& predicted, const std::vector<Ending>& seen) {
  std::ostringstream out;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const Ending& expected = predicted[i];
    const Ending& got = seen[i];
    const auto differ = [&](const char* what, const auto& want, const auto& have) {
      out << "node " << i << ": " << what << " should be " << want << ", is " << have << '\n';
    };
    if (got.call != expected.call) differ("call", to_text(expected.call), to_text(got.call));
    if (got.result != expected.result)
      differ("result", to_text(expected.result), to_text(got.result));
    if (got.errors != expected.errors) differ("errors", expected.errors, got.errors);
    if (got.at != expected.at) differ("end", expected.at, got.at);
    for (const int first : got.first)
      if (!expected.first.contains(first)) differ("first", *expected.first.begin(), first);
  }
  return out.str();
}

// Empty: the tree behaves as the model says, on every schedule tried.
std::string verdict(const std::vector<Draft>& draft) {
  const Tree tree = tree_from(draft);
  const std::vector<Ending> predicted = Model{tree}.predict();
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Run run{tree};
    const std::vector<Ending> seen = run.play(seed);
    const std::string wrong = run.complaints() + differences(predicted, seen);
    if (!wrong.empty()) return "seed " + std::to_string(seed) + "\n" + wrong;
  }
  return {};
}

TEST(StructureProperty, RandomTreesEndAsTheModelSays) {
  EXPECT_TRUE(rc::check("every node ends as predicted, before its parent", [] {
    const std::vector<Draft> tree = *drafts();
    const std::string wrong = verdict(tree);
    RC_LOG(wrong);
    RC_ASSERT(wrong.empty());
  }));
}

// That the model is not trivially content: each outcome comes up, and ties among errors do.
TEST(StructureProperty, TheTreesAreInteresting) {
  std::map<Outcome, int> calls;
  int ties = 0;
  int late = 0;  // ended later than their own instant
  const rc::Gen<std::vector<Draft>> generator = drafts();
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    const std::vector<Draft> draft = generator(rc::Random{seed}, 100).value();
    const Tree tree = tree_from(draft);
    const std::vector<Ending> endings = Model{tree}.predict();
    for (std::size_t i = 0; i < tree.size(); ++i) {
      ++calls[endings[i].call];
      ties += endings[i].first.size() > 1;
      late += endings[i].at > tree[i].acts_at;
    }
  }
  for (const Outcome outcome : {Outcome::success, Outcome::failed, Outcome::cancelled})
    EXPECT_GT(calls[outcome], 100) << to_text(outcome);
  EXPECT_GT(ties, 0);
  EXPECT_GT(late, 100);
}

}  // namespace
}  // namespace weft
