#include <weft/core/control_word.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr std::array kStates{FiberState::init,    FiberState::runnable, FiberState::running,
                             FiberState::parking, FiberState::parked,   FiberState::waking,
                             FiberState::done,    FiberState::cancelled};
constexpr std::array kActors{Actor::fiber, Actor::worker, Actor::waker, Actor::spawner,
                             Actor::canceller};

// ── words in a given state, by the operations that lead there ───────────────────────────────────

// Of a fiber that nobody has nudged.
const std::atomic<std::uint16_t> kCalm{0};

void make_running(ControlWord& word) {
  word.mark_runnable(Actor::spawner);
  word.mark_running();
}

Ticket make_parking(ControlWord& word) {
  make_running(word);
  return word.begin_park(Nudges::heed);
}

Ticket make_parked(ControlWord& word) {
  const Ticket ticket = make_parking(word);
  EXPECT_TRUE(word.commit_park(kCalm));
  return ticket;
}

// ── verdicts ────────────────────────────────────────────────────────────────────────────────────

TEST(Verdict, EveryArmSurvivesTheWordAndNothingElseIsAnArm) {
  for (std::size_t arm = 0; arm < Verdict::kArmsMax; ++arm) {
    ControlWord word;
    const Ticket ticket = make_parked(word);
    ASSERT_EQ(word.claim(ticket, Verdict::arm(arm)), Claim::owned);
    ASSERT_TRUE(word.verdict().is_arm());
    ASSERT_EQ(word.verdict().arm(), arm);
  }
  EXPECT_FALSE(Verdict::none().is_arm());
  EXPECT_FALSE(Verdict::cancelled().is_arm());
  EXPECT_FALSE(Verdict::deadlock().is_arm());
  EXPECT_NE(Verdict::cancelled(), Verdict::deadlock());
}

// ── the park and wake protocol ──────────────────────────────────────────────────────────────────

TEST(ControlWord, S0_8_EveryParkHasAFreshTicket) {
  ControlWord word;
  make_running(word);
  const Ticket before = word.ticket();
  const Ticket first = word.begin_park(Nudges::heed);
  EXPECT_EQ(word.ticket(), first);
  EXPECT_NE(first, before);
  EXPECT_EQ(word.abort_park(), Verdict::none());
  const Ticket second = word.begin_park(Nudges::heed);
  EXPECT_NE(second, first);
}

TEST(ControlWord, S0_8_AStaleTicketClaimsNothing) {
  ControlWord word;
  const Ticket old = make_parked(word);
  ASSERT_EQ(word.claim(old, Verdict::arm(0)), Claim::owned);
  word.mark_running();
  const Ticket fresh = word.begin_park(Nudges::heed);
  EXPECT_EQ(word.claim(old, Verdict::arm(1)), Claim::lost) << "while PARKING";
  ASSERT_TRUE(word.commit_park(kCalm));
  EXPECT_EQ(word.claim(old, Verdict::arm(1)), Claim::lost) << "while PARKED";
  EXPECT_EQ(word.verdict(), Verdict::none());
  EXPECT_EQ(word.claim(fresh, Verdict::arm(2)), Claim::owned);
  EXPECT_EQ(word.verdict(), Verdict::arm(2));
}

TEST(ControlWord, S0_8_ARecycledFrameKeepsCountingItsTickets) {
  ControlWord word;
  const Ticket old = make_parked(word);
  ASSERT_EQ(word.claim(old, Verdict::arm(0)), Claim::owned);
  word.mark_running();
  word.mark_ended(FiberState::done, Actor::fiber);

  word.mark_reborn();
  make_running(word);
  EXPECT_EQ(word.claim(old, Verdict::arm(0)), Claim::lost);
  const Ticket fresh = word.begin_park(Nudges::heed);
  EXPECT_NE(fresh, old);
  EXPECT_EQ(word.claim(old, Verdict::arm(0)), Claim::lost);
}

TEST(ControlWord, F3_ARunningFiberCannotBeClaimed) {
  ControlWord word;
  make_running(word);
  EXPECT_EQ(word.claim(word.ticket(), Verdict::arm(0)), Claim::lost);
}

TEST(ControlWord, F4_TwoWakersOneEnqueue) {
  ControlWord word;
  const Ticket ticket = make_parked(word);
  EXPECT_EQ(word.claim(ticket, Verdict::arm(3)), Claim::owned);
  EXPECT_EQ(word.claim(ticket, Verdict::arm(4)), Claim::lost);
  EXPECT_EQ(word.verdict(), Verdict::arm(3)) << "the winner is chosen once";
  EXPECT_EQ(word.state(), FiberState::runnable);
}

TEST(ControlWord, F4_AParkingFiberIsLatchedAndEnqueuedByItsParker) {
  ControlWord word;
  const Ticket ticket = make_parking(word);
  EXPECT_EQ(word.claim(ticket, Verdict::arm(1)), Claim::latched);
  EXPECT_EQ(word.state(), FiberState::parking) << "its stack is still in use";
  EXPECT_EQ(word.claim(ticket, Verdict::arm(2)), Claim::lost);
  EXPECT_FALSE(word.commit_park(kCalm)) << "the parker finds the verdict, and enqueues";
  EXPECT_EQ(word.state(), FiberState::runnable);
  EXPECT_EQ(word.verdict(), Verdict::arm(1));
  EXPECT_EQ(word.claim(ticket, Verdict::arm(2)), Claim::lost);
}

TEST(ControlWord, AnAbortedParkKeepsTheVerdictThatCameFirst) {
  ControlWord word;
  const Ticket ticket = make_parking(word);
  ASSERT_EQ(word.claim(ticket, Verdict::arm(5)), Claim::latched);
  EXPECT_EQ(word.abort_park(), Verdict::arm(5));
  EXPECT_EQ(word.claim(ticket, Verdict::arm(6)), Claim::lost) << "the ticket has ended";
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

// A word and the attention of its fiber, which a cancel needs.
struct Waiter {
  ControlWord word;
  std::atomic<std::uint16_t> attention{0};

  Claim cancel() { return word.cancel(attention); }
  bool commit() { return word.commit_park(attention); }
  [[nodiscard]] bool nudged() const { return (attention.load() & kAttendScope) != 0; }
};

TEST(ControlWord, CancelOfARunningFiberEndsItsNextParkAsSoonAsItIsOne) {
  Waiter waiter;
  make_running(waiter.word);
  EXPECT_EQ(waiter.cancel(), Claim::lost) << "there is no wait to end";
  EXPECT_TRUE(waiter.nudged());
  const Ticket ticket = waiter.word.begin_park(Nudges::heed);
  EXPECT_FALSE(waiter.commit()) << "the parker finds the nudge, and enqueues";
  EXPECT_EQ(waiter.word.verdict(), Verdict::cancelled());
  EXPECT_EQ(waiter.word.state(), FiberState::runnable);
  EXPECT_EQ(waiter.word.claim(ticket, Verdict::arm(0)), Claim::lost);
  EXPECT_TRUE(waiter.nudged()) << "until the fiber has looked at its scope";
}

TEST(ControlWord, ANudgeDoesNotOverturnALatchedVerdict) {
  Waiter waiter;
  const Ticket ticket = make_parking(waiter.word);
  ASSERT_EQ(waiter.word.claim(ticket, Verdict::arm(3)), Claim::latched);
  ASSERT_EQ(waiter.cancel(), Claim::lost);
  EXPECT_FALSE(waiter.commit());
  EXPECT_EQ(waiter.word.verdict(), Verdict::arm(3));
}

TEST(ControlWord, AShieldedParkPassesTheNudgeAndKeepsIt) {
  Waiter waiter;
  make_running(waiter.word);
  ASSERT_EQ(waiter.cancel(), Claim::lost);
  const Ticket ticket = waiter.word.begin_park(Nudges::pass);
  EXPECT_TRUE(waiter.commit());
  EXPECT_EQ(waiter.word.claim(ticket, Verdict::arm(0)), Claim::owned);
  EXPECT_TRUE(waiter.nudged());
}

TEST(ControlWord, AShieldedWaitIsNotCancelled) {
  Waiter waiter;
  make_running(waiter.word);
  const Ticket ticket = waiter.word.begin_park(Nudges::pass);
  EXPECT_EQ(waiter.cancel(), Claim::lost) << "while PARKING";
  EXPECT_TRUE(waiter.commit());
  EXPECT_EQ(waiter.cancel(), Claim::lost) << "while PARKED";
  EXPECT_EQ(waiter.word.verdict(), Verdict::none());
  EXPECT_EQ(waiter.word.claim(ticket, Verdict::arm(1)), Claim::owned);
  waiter.word.mark_running();
  waiter.attention.store(0);
  static_cast<void>(waiter.word.begin_park(Nudges::heed));
  EXPECT_EQ(waiter.cancel(), Claim::latched) << "the shield ends with its wait";
}

TEST(ControlWord, CancelLatchesAParkingFiber) {
  Waiter waiter;
  make_parking(waiter.word);
  EXPECT_EQ(waiter.cancel(), Claim::latched);
  EXPECT_EQ(waiter.word.abort_park(), Verdict::cancelled());
}

TEST(ControlWord, CancelClaimsAParkedFiberOnce) {
  Waiter waiter;
  const Ticket ticket = make_parked(waiter.word);
  EXPECT_EQ(waiter.cancel(), Claim::owned);
  EXPECT_EQ(waiter.word.verdict(), Verdict::cancelled());
  EXPECT_EQ(waiter.word.claim(ticket, Verdict::arm(0)), Claim::lost);
  EXPECT_EQ(waiter.cancel(), Claim::lost) << "the second only nudges";
}

TEST(ControlWord, CancelDoesNotOverturnAVerdict) {
  Waiter parking;
  ASSERT_EQ(parking.word.claim(make_parking(parking.word), Verdict::arm(7)), Claim::latched);
  EXPECT_EQ(parking.cancel(), Claim::lost);
  EXPECT_TRUE(parking.nudged());
  EXPECT_EQ(parking.word.abort_park(), Verdict::arm(7));

  Waiter parked;
  ASSERT_EQ(parked.word.claim(make_parked(parked.word), Verdict::arm(7)), Claim::owned);
  EXPECT_EQ(parked.cancel(), Claim::lost);
  EXPECT_TRUE(parked.nudged());
  EXPECT_EQ(parked.word.verdict(), Verdict::arm(7));
}

TEST(ControlWord, EveryCancelNudges) {
  for (const FiberState state : {FiberState::running, FiberState::parking, FiberState::parked}) {
    Waiter waiter;
    make_running(waiter.word);
    if (state != FiberState::running) static_cast<void>(waiter.word.begin_park(Nudges::heed));
    if (state == FiberState::parked) static_cast<void>(waiter.commit());
    ASSERT_EQ(waiter.word.state() == FiberState::parked, state == FiberState::parked);
    static_cast<void>(waiter.cancel());
    EXPECT_TRUE(waiter.nudged()) << to_string(state);
  }
}

// ── the legality matrix ─────────────────────────────────────────────────────────────────────────

// How each row of the matrix is made by the operations that engines and wakers use. WAKING is fused
// into the claim or the commit, so those rows are seen by the states on both sides.
struct Step {
  FiberState from, to;
  Actor actor;
  FiberState seen_before, seen_after;
  std::function<void(ControlWord&)> prepare, act;
};

std::vector<Step> steps() {
  using enum FiberState;
  const auto nothing = [](ControlWord&) {};
  const auto to_runnable = [](ControlWord& w) { w.mark_runnable(Actor::spawner); };
  const auto to_parking = [](ControlWord& w) { static_cast<void>(make_parking(w)); };
  const auto to_parked = [](ControlWord& w) { static_cast<void>(make_parked(w)); };
  const auto to_latched = [](ControlWord& w) {
    EXPECT_EQ(w.claim(make_parking(w), Verdict::arm(0)), Claim::latched);
  };
  const auto claim = [](ControlWord& w) {
    EXPECT_EQ(w.claim(w.ticket(), Verdict::arm(0)), Claim::owned);
  };
  const auto cancel = [](ControlWord& w) {
    std::atomic<std::uint16_t> attention{0};
    EXPECT_EQ(w.cancel(attention), Claim::owned);
  };
  const auto commit = [](ControlWord& w) { EXPECT_TRUE(w.commit_park(kCalm)); };
  const auto commit_latched = [](ControlWord& w) { EXPECT_FALSE(w.commit_park(kCalm)); };
  const auto begin = [](ControlWord& w) { static_cast<void>(w.begin_park(Nudges::heed)); };
  const auto abort = [](ControlWord& w) { EXPECT_EQ(w.abort_park(), Verdict::none()); };
  const auto end = [](FiberState state, Actor actor) {
    return [=](ControlWord& w) { w.mark_ended(state, actor); };
  };
  return {
      {init, runnable, Actor::spawner, init, runnable, nothing, to_runnable},
      {runnable, running, Actor::worker, runnable, running, to_runnable,
       [](ControlWord& w) { w.mark_running(); }},
      {runnable, cancelled, Actor::worker, runnable, cancelled, to_runnable,
       end(cancelled, Actor::worker)},
      {running, runnable, Actor::worker, running, runnable, make_running,
       [](ControlWord& w) { w.mark_runnable(Actor::worker); }},
      {running, parking, Actor::fiber, running, parking, make_running, begin},
      {parking, running, Actor::fiber, parking, running, to_parking, abort},
      {parking, parked, Actor::worker, parking, parked, to_parking, commit},
      {parked, waking, Actor::worker, parking, runnable, to_latched, commit_latched},
      {parked, waking, Actor::waker, parked, runnable, to_parked, claim},
      {parked, waking, Actor::canceller, parked, runnable, to_parked, cancel},
      {waking, runnable, Actor::worker, parking, runnable, to_latched, commit_latched},
      {waking, runnable, Actor::waker, parked, runnable, to_parked, claim},
      {waking, runnable, Actor::canceller, parked, runnable, to_parked, cancel},
      {running, done, Actor::fiber, running, done, make_running, end(done, Actor::fiber)},
      {running, cancelled, Actor::fiber, running, cancelled, make_running,
       end(cancelled, Actor::fiber)},
  };
}

TEST(ControlWord, EveryLegalEdgeIsReachedByAnOperation) {
  if constexpr (!spec::kSpecAssert)
    GTEST_SKIP() << "logical states are written in checked builds only";
  const std::vector<Step> all = steps();
  for (const spec::FiberEdge& edge : spec::kFiberMatrix) {
    const auto made_by = std::find_if(all.begin(), all.end(), [&](const Step& step) {
      return step.from == edge.from && step.to == edge.to && step.actor == edge.actor;
    });
    ASSERT_NE(made_by, all.end()) << to_string(edge.from) << " -> " << to_string(edge.to) << " by "
                                  << to_string(edge.actor) << " has no operation here";
    ControlWord word;
    made_by->prepare(word);
    EXPECT_EQ(word.state(), made_by->seen_before);
    made_by->act(word);
    EXPECT_EQ(word.state(), made_by->seen_after);
  }
  EXPECT_EQ(all.size(), spec::kFiberMatrix.size());
}

// Puts a fresh word into `state`, along legal edges only.
void walk_to(ControlWord& word, FiberState state) {
  using enum FiberState;
  switch (state) {
    case init: return;
    case runnable: return word.mark_runnable(Actor::spawner);
    case running: return make_running(word);
    case parking: return static_cast<void>(make_parking(word));
    case parked: return static_cast<void>(make_parked(word));
    case waking: make_parked(word); return word.mark_ended(waking, Actor::waker);
    case done: make_running(word); return word.mark_ended(done, Actor::fiber);
    case cancelled: make_running(word); return word.mark_ended(cancelled, Actor::fiber);
  }
}

struct Outcome {
  bool aborted = false;
  bool returned = false;
  std::string text;
};

// Runs `f` in a child process of its own, which is cheap enough for hundreds of edges.
Outcome in_child(const std::function<void()>& f) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error{"pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(ends[1], STDERR_FILENO);
    f();
    ::_exit(0);
  }
  ::close(ends[1]);
  Outcome outcome;
  std::array<char, 512> buffer;
  for (ssize_t got; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    outcome.text.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  outcome.returned = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return outcome;
}

// All 8 x 8 x 5 edges: the fifteen of the matrix pass, every other one stops the program and says
// which it was. mark_ended() is the operation that can be asked for any of them.
TEST(ControlWordDeathTest, EveryIllegalEdgeTraps) {
  if constexpr (!spec::kSpecAssert) GTEST_SKIP() << "edges are checked in checked builds only";
  int legal_edges = 0;
  int trapped = 0;
  for (const FiberState from : kStates) {
    for (const FiberState to : kStates) {
      for (const Actor actor : kActors) {
        SCOPED_TRACE(std::string{to_string(from)} + " -> " + std::string{to_string(to)} + " by " +
                     std::string{to_string(actor)});
        const bool legal = spec::legal(from, to, actor);
        const Outcome outcome = in_child([&] {
          ControlWord word;
          walk_to(word, from);
          word.mark_ended(to, actor);
        });
        ASSERT_EQ(outcome.returned, legal);
        ASSERT_EQ(outcome.aborted, !legal);
        if (legal) {
          ++legal_edges;
          continue;
        }
        ++trapped;
        ASSERT_THAT(outcome.text, HasSubstr("weft: spec violated: no fiber edge " +
                                            std::string{to_string(from)} + " -> " +
                                            std::string{to_string(to)} + " by " +
                                            std::string{to_string(actor)}));
      }
    }
  }
  EXPECT_EQ(legal_edges, static_cast<int>(spec::kFiberMatrix.size()));
  EXPECT_EQ(trapped, static_cast<int>(kStates.size() * kStates.size() * kActors.size()) -
                         legal_edges);
}

// The same by the operations that engines call, each in every state where it is out of place.
TEST(ControlWordDeathTest, EveryOperationOutOfPlaceTraps) {
  if constexpr (!spec::kSpecAssert) GTEST_SKIP() << "edges are checked in checked builds only";
  struct Operation {
    const char* name;
    FiberState only_in;
    void (*call)(ControlWord&);
  };
  const std::array operations{
      Operation{"begin_park", FiberState::running,
                [](ControlWord& w) { static_cast<void>(w.begin_park(Nudges::heed)); }},
      Operation{"abort_park", FiberState::parking,
                [](ControlWord& w) { static_cast<void>(w.abort_park()); }},
      Operation{"commit_park", FiberState::parking,
                [](ControlWord& w) { static_cast<void>(w.commit_park(kCalm)); }},
      Operation{"mark_running", FiberState::runnable, [](ControlWord& w) { w.mark_running(); }},
      Operation{"mark_runnable by a spawner", FiberState::init,
                [](ControlWord& w) { w.mark_runnable(Actor::spawner); }},
      Operation{"mark_runnable by a worker", FiberState::running,
                [](ControlWord& w) {
                  // WAKING -> RUNNABLE by the worker is legal as a part of commit_park().
                  if (w.state() == FiberState::waking) std::abort();
                  w.mark_runnable(Actor::worker);
                }},
  };
  for (const Operation& operation : operations)
    for (const FiberState from : kStates) {
      SCOPED_TRACE(std::string{operation.name} + " while " + std::string{to_string(from)});
      const Outcome outcome = in_child([&] {
        ControlWord word;
        walk_to(word, from);
        operation.call(word);
      });
      EXPECT_EQ(outcome.returned, from == operation.only_in);
      EXPECT_EQ(outcome.aborted, from != operation.only_in);
    }
}

TEST(ControlWordDeathTest, F5_CommitOfAFiberThatIsNotParkingNamesTheEdge) {
  if constexpr (!spec::kSpecAssert) GTEST_SKIP() << "edges are checked in checked builds only";
  EXPECT_DEATH(
      {
        ControlWord word;
        make_running(word);
        static_cast<void>(word.commit_park(kCalm));
      },
      "spec violated: no fiber edge running -> parked by worker");
}

// ── several threads at one word ─────────────────────────────────────────────────────────────────

TEST(ControlWord, F4_OneOfManyThreadsWinsTheClaim) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 300;
  ControlWord word;
  std::atomic<std::uint16_t> attention{0};
  make_running(word);
  std::atomic<int> round{0};
  std::atomic<int> finished{0};
  std::atomic<int> owned{0};
  std::atomic<int> latched{0};
  std::atomic<Ticket> ticket{};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (int mine = 1; mine <= kRounds; ++mine) {
        while (round.load() < mine) std::this_thread::yield();
        const Claim claim = i == 0 ? word.cancel(attention)
                                   : word.claim(ticket.load(), Verdict::arm(std::size_t(i)));
        if (claim == Claim::owned) owned.fetch_add(1);
        if (claim == Claim::latched) latched.fetch_add(1);
        finished.fetch_add(1);
      }
    });
  for (int now = 1; now <= kRounds; ++now) {
    attention.store(0);
    ticket.store(word.begin_park(Nudges::heed));
    finished.store(0);
    owned.store(0);
    latched.store(0);
    round.store(now);  // the claims race our commit
    const bool committed = word.commit_park(kCalm);
    while (finished.load() != kThreads) std::this_thread::yield();
    // A commit that meets the cancel's nudge before the cancel has looked claims in its stead.
    const bool by_nudge = owned.load() + latched.load() == 0;
    ASSERT_LE(owned.load() + latched.load(), 1) << "exactly one verdict";
    ASSERT_TRUE(!by_nudge || word.verdict() == Verdict::cancelled());
    ASSERT_EQ(committed, owned.load() == 1) << "who enqueues: the claimer or the parker";
    ASSERT_EQ(word.state(), FiberState::runnable);
    ASSERT_NE(word.verdict(), Verdict::none());
    word.mark_running();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
