// The specification as data: every state machine of weft is one enum and one table of legal edges.
//
// Read this file first: asserts, tests, inspector labels and the tables of docs/protocol.md come of
// it. Requirements are cited as S0 (fiber lifecycle), S1 (scheduler), S3 (nursery), S4 (channels).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace weft {

// clang-format off

// ---- The machines ------------------------------------------------------------------------------

// A fiber, from its spawn to its end. The value is four bits of the fiber's control word.
//
// A frame taken from the pool again starts a new fiber at `init`: same word, and its ticket goes on
// counting, so nobody who remembers the old fiber can touch the new one.
// A thread is a fiber whose stack the OS owns: it is its own worker, "enqueue" is a kernel wake.
// A child joined in place is called on the stack of the fiber that joins. It has its own frame,
// word and states; the caller stays `running` beneath it, as beneath any function it calls.
enum class FiberState : std::uint8_t {
  // state        stack owned by      in a run queue?   in a wait list?
  init,        // its spawner         no                no
  runnable,    // nobody              exactly one       no
  running,     // one worker          no                no
  parking,     // that same worker    no                visible; stack not claimable
  parked,      // nobody              no                yes
  waking,      // the winning waker   about to be       being unlinked
  done,        // the pool            no                no
  cancelled,   // the pool            no                no
};

// Who moves a fiber (S0 §9's letters).
enum class Actor : std::uint8_t {
  fiber,      // F: the fiber itself, on its own stack
  worker,     // Wk: the worker loop, or the after-switch hook on the far side of a switch
  waker,      // W: whoever completes a wait: a peer, a timer, a reactor, a foreign thread
  spawner,    // S: whoever spawns; nobody else knows the fiber yet
  canceller,  // N: whoever cancels a scope; wakes by the same claim as a waker
};

enum class WorkerState : std::uint8_t {
  // state        runs fibers?   looks for work?      may be woken?
  active,      // yes            its own queues       no
  idle_spin,   // no             every queue          no, it is looking
  sleep,       // no             no                   yes
  draining,    // its last       no, gives it away    no
  dead,        // no             no                   no
};

enum class NurseryState : std::uint8_t {
  // state        accepts children?   children told to stop?   may a child still live?
  open,        // yes                 no                       yes
  closing,     // no                  no                       yes
  cancelling,  // no                  yes                      yes
  closed,      // no                  no                       no
  cancelled,   // no                  yes                      no
};

enum class ChannelState : std::uint8_t {
  // state        admits a send?   delivers what was admitted?   a receive that finds nothing
  open,        // yes              yes                           parks
  closed,      // no               yes: buffered and parked      ends, or throws the closer's error
  hung_up,     // no               no: the last receiver left    nobody is left to receive
  aborted,     // no               no: values are disposed       throws the aborter's error
};

namespace spec {
template <class Enum>
constexpr std::string_view name_of(Enum value, std::initializer_list<std::string_view> names) {
  const auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names.begin()[index] : std::string_view{"invalid"};
}
}  // namespace spec

constexpr std::string_view to_string(FiberState state) {
  return spec::name_of(
      state, {"init", "runnable", "running", "parking", "parked", "waking", "done", "cancelled"});
}
constexpr std::string_view to_string(Actor actor) {
  return spec::name_of(actor, {"fiber", "worker", "waker", "spawner", "canceller"});
}
constexpr std::string_view to_string(WorkerState state) {
  return spec::name_of(state, {"active", "idle_spin", "sleep", "draining", "dead"});
}
constexpr std::string_view to_string(NurseryState state) {
  return spec::name_of(state, {"open", "closing", "cancelling", "closed", "cancelled"});
}
constexpr std::string_view to_string(ChannelState state) {
  return spec::name_of(state, {"open", "closed", "hung_up", "aborted"});
}

namespace spec {

// ---- The fiber's legality matrix (S0 §9) -------------------------------------------------------
// How a release build makes the edge.
enum class Write : std::uint8_t {
  store,    // by the fiber that runs, whose word nobody else may change
  rmw,      // a read-modify-write of the control word
  fused,    // inside the read-modify-write that made the edge before it
  logical,  // not written; WEFT_SPEC_ASSERT builds do write it, by read-modify-write
};
constexpr std::string_view to_string(Write w) {
  return name_of(w, {"store", "rmw", "fused", "logical"});
}

struct FiberEdge {
  FiberState from, to;
  Actor actor;
  Write write;
  std::string_view trigger;
};

inline constexpr auto kFiberMatrix = [] {
  using enum FiberState; using enum Actor; using enum Write;
  return std::array{
      FiberEdge{init, runnable, spawner, logical, "spawn: counted by its nursery, then queued"},
      FiberEdge{runnable, running, worker, logical, "taken from a run queue by exactly one worker"},
      FiberEdge{runnable, cancelled, worker, logical, "cancelled before its first run: no body"},
      FiberEdge{running, runnable, worker, logical, "yield: requeued once its stack is quiet"},
      FiberEdge{running, parking, fiber, store, "begin_park: new ticket, no verdict"},
      FiberEdge{parking, running, fiber, rmw, "abort_park: an arm is ready, or a verdict came"},
      FiberEdge{parking, parked, worker, rmw, "commit_park, after the switch: its stack is quiet"},
      FiberEdge{parked, waking, worker, fused, "commit_park finds verdict or nudge: self-claim"},
      FiberEdge{parked, waking, waker, rmw, "claim: right ticket, no earlier verdict"},
      FiberEdge{parked, waking, canceller, rmw, "claim with the verdict `cancelled`"},
      FiberEdge{waking, runnable, worker, fused, "after a self-claim: enqueued exactly once"},
      FiberEdge{waking, runnable, waker, fused, "the claim's winner enqueues exactly once"},
      FiberEdge{waking, runnable, canceller, fused, "the claim's winner enqueues exactly once"},
      FiberEdge{running, done, fiber, logical, "its closure returned or threw, and is destroyed"},
      FiberEdge{running, cancelled, fiber, logical, "Cancelled unwound its closure"},
  };
}();

template <class Matrix, class State>
constexpr bool has_edge(const Matrix& matrix, State from, State to) {
  for (const auto& edge : matrix)
    if (edge.from == from && edge.to == to) return true;
  return false;
}
constexpr bool legal(FiberState from, FiberState to) { return has_edge(kFiberMatrix, from, to); }
constexpr bool legal(FiberState from, FiberState to, Actor actor) {
  for (const FiberEdge& edge : kFiberMatrix)
    if (edge.from == from && edge.to == to && edge.actor == actor) return true;
  return false;
}

// One read-modify-write may make several edges of one actor; nobody sees the states between.
// A claim: parked -> waking -> runnable. A commit that finds a verdict: parking -> parked -> those.
constexpr bool legal_fused(FiberState from, FiberState to, Actor actor) {
  using enum FiberState;
  const bool wakes = legal(parked, waking, actor) && legal(waking, runnable, actor);
  const bool starts = from == parked || (from == parking && legal(parking, parked, actor));
  return wakes && starts && to == runnable;
}

constexpr bool can_be_queued(FiberState state) { return state == FiberState::runnable; }
constexpr bool can_be_claimed(FiberState state) { return state == FiberState::parked; }   // stack
constexpr bool can_be_latched(FiberState state) { return state == FiberState::parking; }  // verdict

constexpr void forbidden_fiber_edges() {
  using enum FiberState;
  using enum Actor;
  static_assert(!legal(parked, runnable), "a wake passes the claim, or two wakers enqueue");
  static_assert(!legal(parked, running), "a wake passes a run queue");
  static_assert(!legal(running, parked), "parking cannot be skipped: nobody could latch a verdict");
  static_assert(!legal(parking, parked, fiber), "its stack is live: two workers could run it");
  static_assert(!legal(parked, waking, fiber), "a parked fiber runs nothing, not even a claim");
  static_assert(!legal(parking, waking), "who sees PARKING may leave a verdict, no more");
  static_assert(!legal(parking, running, canceller), "only the parker can unpublish its arms");
  static_assert(!legal(running, runnable, fiber), "its stack is live: a thief could run it");
  static_assert(!legal(parked, cancelled), "a parked fiber is cancelled by waking it");
  static_assert(!legal(runnable, cancelled, canceller), "the queue owns it; its worker finds out");
  static_assert(!legal(done, init) && !legal(cancelled, init), "a recycled frame is a new fiber");
  static_assert(legal_fused(parked, runnable, waker) && legal_fused(parking, runnable, worker));
  static_assert(!legal_fused(parking, runnable, waker), "a waker never enqueues a parking fiber");
}

// ---- The rules every fiber obeys (S0 §2.2), and what nobody may do (S0 §9) ---------------------
enum class Rule : std::uint8_t {
  f1_single_owner, f2_only_runnable_is_queued, f3_only_parked_is_woken, f4_single_enqueue_owner,
  f5_parked_runs_nothing,
};
struct RuleText { Rule rule; std::string_view name, text, checked; };
inline constexpr std::array kRules{
    RuleText{Rule::f1_single_owner, "F1 single_owner",
             "A running or parking fiber is owned by exactly one worker.", "at pick, in the hook"},
    RuleText{Rule::f2_only_runnable_is_queued, "F2 only_runnable_is_queued",
             "Only a runnable fiber is in a run queue, and in one only.", "at each push and pop"},
    RuleText{Rule::f3_only_parked_is_woken, "F3 only_parked_is_woken",
             "Only a parked fiber is taken; a parking one may be left a verdict.", "in claim"},
    RuleText{Rule::f4_single_enqueue_owner, "F4 single_enqueue_owner",
             "Only the winner of the wake claim enqueues the fiber, once.", "in claim and resume"},
    RuleText{Rule::f5_parked_runs_nothing, "F5 parked_runs_nothing",
             "Once parked, a fiber executes nothing until it is resumed.", "in commit_park"},
};
constexpr std::string_view to_string(Rule r) { return kRules[static_cast<std::size_t>(r)].name; }

struct MustNot { std::string_view what, why; };
inline constexpr std::array kMustNot{
    MustNot{"PARKED -> RUNNABLE by the parker", "it is off its stack; only a claim wakes it"},
    MustNot{"a non-RUNNABLE fiber in a run queue", "a dequeuer runs what it finds (F2)"},
    MustNot{"a waker enqueues a fiber it saw PARKING", "its stack is still in use (F1)"},
    MustNot{"PARKED committed on the fiber's own stack", "another worker could run it meanwhile"},
    MustNot{"the ticket compared apart from the claim", "a stale waker would end the next wait"},
    MustNot{"a plain store to the word of a fiber that waits", "it would erase a verdict"},
    MustNot{"a canceller that skips a nudge already set", "its RMW carries the scope to the fiber"},
    MustNot{"a commit that looks for no nudge", "the canceller came before there was a wait"},
    MustNot{"a ticket that restarts with a recycled frame", "stale nodes would match again"},
};

// ---- Workers (S0 §6), nurseries (S3 §2.3), channels (S0 §5, S4) --------------------------------
struct WorkerEdge { WorkerState from, to; std::string_view trigger; };
struct NurseryEdge { NurseryState from, to; std::string_view trigger; };
struct ChannelEdge { ChannelState from, to; std::string_view trigger; };

inline constexpr auto kWorkerMatrix = [] {
  using enum WorkerState;
  return std::array{
      WorkerEdge{active, idle_spin, "its own queues are empty"},
      WorkerEdge{active, draining, "asked to retire: after its current slice"},
      WorkerEdge{idle_spin, active, "found a fiber"},
      WorkerEdge{idle_spin, sleep, "said it stops searching, looked at every queue again: no work"},
      WorkerEdge{idle_spin, draining, "asked to retire, or idle too long"},
      WorkerEdge{sleep, idle_spin, "woken or timed out: it looks before it runs"},
      WorkerEdge{draining, dead, "stole nothing, gave its queues to the injector"},
  };
}();
inline constexpr auto kNurseryMatrix = [] {
  using enum NurseryState;
  return std::array{
      NurseryEdge{open, closing, "close(), or the last child done after the body returned"},
      NurseryEdge{open, cancelling, "cancel(), a child failed, or the parent was cancelled"},
      NurseryEdge{closing, cancelling, "the same, while closing"},
      NurseryEdge{closing, closed, "last child done"},
      NurseryEdge{cancelling, cancelled, "last child done"},
  };
}();
inline constexpr auto kChannelMatrix = [] {
  using enum ChannelState;
  return std::array{
      ChannelEdge{open, closed, "close(), or the last sender's end"},
      ChannelEdge{open, hung_up, "the last receiver's end"},
      ChannelEdge{open, aborted, "abort(error)"},
      ChannelEdge{closed, hung_up, "the last receiver's end"},
      ChannelEdge{closed, aborted, "abort(error) before all was received"},
  };
}();

constexpr bool legal(WorkerState a, WorkerState b) { return has_edge(kWorkerMatrix, a, b); }
constexpr bool legal(NurseryState a, NurseryState b) { return has_edge(kNurseryMatrix, a, b); }
constexpr bool legal(ChannelState a, ChannelState b) { return has_edge(kChannelMatrix, a, b); }

static_assert(!legal(WorkerState::active, WorkerState::sleep), "it must search first");
static_assert(!legal(WorkerState::draining, WorkerState::active), "draining takes no new work");
static_assert(!legal(NurseryState::cancelling, NurseryState::open), "no resurrection");
static_assert(!legal(NurseryState::cancelling, NurseryState::closed), "cancelled is not success");
static_assert(!legal(NurseryState::open, NurseryState::closed), "only by way of closing");
static_assert(!legal(ChannelState::closed, ChannelState::open), "a closed channel stays closed");

// ---- Memory orders at the linearization points (S0 §10) ----------------------------------------
struct OrderRow { std::string_view event, operation, order, anchor, why; };  // anchor: who does it
inline constexpr std::array kMemoryOrders{
    OrderRow{"enqueue RUNNABLE", "link into a run queue", "release", "Io::start",
             "the dequeuer sees closure, context and state"},
    OrderRow{"dequeue to RUNNING", "take from a run queue", "acquire", "Worker::pick",
             "pairs with the enqueue: the stack is handed over whole"},
    OrderRow{"enter PARKING", "store: ticket + 1, no verdict", "release",
             "ControlWord::begin_park", "no claim fits a running fiber; this ticket's come after"},
    OrderRow{"waiter published", "link under its lock", "release", "Waitable::publish",
             "a waker that finds the node sees fiber and ticket"},
    OrderRow{"commit PARKED", "RMW, if no verdict", "seq_cst", "ControlWord::commit_park",
             "who claims the fiber, and who runs it next, sees a quiet stack"},
    OrderRow{"post-commit check", "load: a nudge", "seq_cst", "ControlWord::commit_park",
             "pairs with the canceller's look at the word; a latched verdict is in the RMW"},
    OrderRow{"self-claim", "RMW: PARKING -> RUNNABLE", "acq_rel", "ControlWord::commit_park",
             "takes the latched verdict and the data behind it"},
    OrderRow{"waker sees PARKING", "RMW: latch the verdict", "acq_rel", "ControlWord::claim",
             "the parker's commit or abort sees verdict and data"},
    OrderRow{"wake claim", "RMW: PARKED -> RUNNABLE", "acq_rel", "ControlWord::claim",
             "single winner; takes the stack, gives the data"},
    OrderRow{"wake enqueue", "link into a run queue", "release", "Io::resume",
             "after the claim, so the dequeuer sees RUNNABLE and the verdict"},
    OrderRow{"abort", "RMW: PARKING -> RUNNING", "acq_rel", "ControlWord::abort_park",
             "ends the ticket, or takes the verdict that came first, and its data"},
    OrderRow{"nudge", "RMW, even if already set", "seq_cst", "ControlWord::cancel",
             "before the look at the word; carries the scope to the fiber's next checkpoint"},
    OrderRow{"checkpoint", "RMW: clear the nudge", "acq_rel", "Fiber::attention",
             "before the scopes are read, or a cancel in between is forgotten"},
    OrderRow{"child done", "RMW: one live less", "acq_rel", "Nursery::children_ended",
             "the joiner sees all that the children did"},
    OrderRow{"close a channel", "OPEN -> CLOSED under its lock", "acq_rel", "Channel::close",
             "the same lock orders admission and close"},
};

// Where the requirement documents disagree, and what weft does (src/core/spec.cpp).
struct Decision { std::string_view they_say, we_do, why; };
std::span<const Decision> decisions();

// ---- Checks ------------------------------------------------------------------------------------
#if defined(WEFT_SPEC_ASSERT)
inline constexpr bool kSpecAssert = WEFT_SPEC_ASSERT != 0;
#else
inline constexpr bool kSpecAssert = false;
#endif

// The caller's place; std::source_location needs a newer clang than weft does.
struct Where {
  const char* file;
  unsigned line;
  static constexpr Where here(const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

// Print one line on stderr and abort. A model build may link the explorer's definitions instead.
[[noreturn]] void violated(Rule rule, Where where);
[[noreturn]] void violated(std::string_view machine, std::string_view from, std::string_view to,
                           std::string_view actor, Where where);

// `holds` is a callable: compilers keep unused atomic loads, so a bool would cost in release.
template <class Predicate>
constexpr void check(Rule rule, Predicate&& holds, Where where = Where::here()) {
  if constexpr (kSpecAssert)
    if (!holds()) violated(rule, where);
}
constexpr void check_edge(FiberState from, FiberState to, Actor by, Where where = Where::here()) {
  if constexpr (kSpecAssert)
    if (!legal(from, to, by))
      violated("fiber", to_string(from), to_string(to), to_string(by), where);
}
constexpr void check_edge(WorkerState from, WorkerState to, Where where = Where::here()) {
  if constexpr (kSpecAssert)
    if (!legal(from, to)) violated("worker", to_string(from), to_string(to), {}, where);
}
constexpr void check_edge(NurseryState from, NurseryState to, Where where = Where::here()) {
  if constexpr (kSpecAssert)
    if (!legal(from, to)) violated("nursery", to_string(from), to_string(to), {}, where);
}
constexpr void check_edge(ChannelState from, ChannelState to, Where where = Where::here()) {
  if constexpr (kSpecAssert)
    if (!legal(from, to)) violated("channel", to_string(from), to_string(to), {}, where);
}

}  // namespace spec
}  // namespace weft
