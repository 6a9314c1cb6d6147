// Worker: a thread that runs fibers, and the order it runs them in.
#pragma once

#include "gate.hpp"
#include "host.hpp"
#include "inbox.hpp"
#include "local_queue.hpp"
#include "lock_mark.hpp"
#include "near_clock.hpp"
#include "policy.hpp"
#include "shared_timers.hpp"

#include <weft/base/inspected.hpp>
#include <weft/base/splitmix.hpp>

#include <array>
#include <memory>
#include <vector>

namespace weft::engine {

class Scheduler;

class Worker final : public Host, private Bed {
 public:
  Worker(Scheduler& scheduler, Io& io, std::shared_ptr<arch::StackPool> stacks, unsigned index);

  // ── life ────────────────────────────────────────────────────────────────────────────────────

  // Hired to stand in for others: owns nothing but its queues, and can go. The others are there as
  // long as the engine runs.
  [[nodiscard]] bool is_temporary() const noexcept;
  // By the watcher, before its thread starts.
  void hire() noexcept { state_ = WorkerState::active; }
  void not_hired() noexcept { state_ = WorkerState::dead; }
  // By the watcher: after its current slice.
  void ask_to_retire() noexcept { leaving_ = true; }
  [[nodiscard]] WorkerState state() const noexcept { return state_; }

  // ── on the worker's own thread ──────────────────────────────────────────────────────────────

  void take_signals() noexcept;  // as the other workers do
  void run() noexcept;  // until the root count is over, or it retires
  void arm(Timer& timer) noexcept;
  void expect_blocking(bool about_to) noexcept;

  [[gnu::always_inline]] void start(Fiber& fiber);
  // Woken by a fiber of ours: it runs next, beside the one that woke it.
  [[gnu::always_inline]] void resume(Fiber& fiber) noexcept;
  // Woken together, or by time: they queue.
  void resume_all(FiberList fibers) noexcept;
  void requeue(Fiber& fiber) noexcept {
    const Inside inside{gate_};
    queue(fiber);
  }

  // Who runs while `self` is parked or gone. Never unprepared unless `finish`.
  Fiber& successor(Departure how) noexcept {
    return how == Departure::finish ? successor_of_finished() : successor_of_parked();
  }
  // Who runs while `self` waits its turn; `self` if there is nobody else.
  Fiber& turn(Fiber& self) noexcept;
  [[gnu::always_inline]] Fiber* adopt(CancelScope& home, Departure how) noexcept;
  SplitMix chance;
  NearClock near_clock;

  // ── from any thread ─────────────────────────────────────────────────────────────────────────

  [[nodiscard]] unsigned index() const noexcept { return number; }
  alignas(64) Inbox inbox{this};  // others write here; our own things are on other lines
  SharedTimers timers;      // a temporary worker's are those of another, see wheel_

  // Picks so far, as a hint: as long as this stays, the same fiber runs, or nobody.
  [[nodiscard]] std::uint64_t ticks() const noexcept {
    return rounds_ * policy::kFairnessInterval - until_fair_;
  }
  // How far its queues were taken from, by itself or thieves.
  [[nodiscard]] std::uint64_t heads() const noexcept { return fresh_.first() + ready_.first(); }
  // Fibers that wait here and that others could run; signed, for the queues move meanwhile.
  [[nodiscard]] std::int64_t backlog() const noexcept {
    return static_cast<std::int64_t>(fresh_.length()) + static_cast<std::int64_t>(ready_.length()) +
           static_cast<std::int64_t>(ready_.behind()) +
           static_cast<std::int64_t>(inbox.length()) + (next_ ? 1 : 0);
  }
  // It makes no progress: the watcher found out, or its fiber has said so. Over with the next pick.
  [[nodiscard]] bool is_held() const noexcept { return held_at_ == ticks(); }
  void mark_held() noexcept { held_at_ = ticks(); }
  // By the watcher, while it is held: what others could run goes to the injector, some at a time.
  void relieve() noexcept;
  // Who runs here, as a hint. acquire: pairs with the leave() of the pick that brought the fiber:
  // its frame is seen as it was made.
  [[nodiscard]] Fiber* current_from_outside() const noexcept {
    Fiber* const fiber = current;
    static_cast<void>(gate_.is_outside());
    return fiber;
  }
  // Who tells what its thread is doing.
  [[nodiscard]] int thread_id() const noexcept { return thread_id_; }

  // Alone with the queues of a worker until destroyed; asks, waits, and in the end insists.
  class Visit;

 private:
  friend class Inspection;

  // What can be seen of a worker's queues from outside, and when it was seen.
  struct Sight {
    Instant at{};             // of the queues
    Instant ticked_at{};      // when it was seen to do something last
    std::uint64_t ticks = 0;
    std::uint64_t fillings = 0, fresh_first = 0, ready_first = 0, ready_last = 0;
    std::size_t fresh_length = 0;
    bool next = false, inbox = false;

    // It has picked nothing, spawned nothing and woken nobody since.
    [[nodiscard]] bool still_as(const Sight& before) const noexcept {
      return ticks == before.ticks && fresh_first == before.fresh_first &&
             fresh_length == before.fresh_length && ready_last == before.ready_last;
    }
    [[nodiscard]] bool nothing() const noexcept {
      return fresh_length == 0 && ready_first == ready_last && !next && !inbox;
    }
  };
  // What may be taken: oldest unborn, ready ones before a position, a stalled worker's last fiber.
  struct Warrant {
    bool fresh;
    std::uint64_t ready_before;
    bool stalled;
  };

  [[gnu::always_inline]] Fiber* pick(Departure how) noexcept;
  // Counts a pick. True: now and then, for the sake of whom the usual order could starve.
  [[gnu::always_inline]] bool is_fair_turn() noexcept {
    const std::uint32_t left = until_fair_ - 1;
    until_fair_ = left;
    if (left != 0) [[likely]] return false;
    look_around();
    return true;
  }
  [[gnu::cold, gnu::noinline]] void look_around() noexcept;
  [[gnu::cold, gnu::noinline]] void empty_inbox() noexcept;
  Fiber& successor_of_parked() noexcept;
  [[gnu::noinline]] Fiber& any_successor() noexcept;
  Fiber& successor_of_finished() noexcept;
  [[nodiscard]] bool living_wait() const noexcept {
    return next_ || !ready_.empty() || !inbox.empty() || !pinned_.empty();
  }
  // Inside the gate.
  void queue(Fiber& fiber) noexcept {
    if (fiber.is_pinned()) [[unlikely]] return resume_pinned(fiber);
    ready_.push(fiber);
  }
  [[gnu::noinline]] void resume_displacing(Fiber& fiber) noexcept;
  [[gnu::noinline]] void start_with_care(Fiber& fiber);
  [[gnu::always_inline]] Fiber* next_if_owner(const Home& home) noexcept;
  [[gnu::noinline]] Fiber* adopt_unborn(CancelScope& home, Departure how) noexcept;
  [[gnu::cold, gnu::noinline]] void start_pinned(Fiber& fiber) noexcept;
  [[gnu::cold, gnu::noinline]] void resume_pinned(Fiber& fiber) noexcept;
  void advertise(std::size_t queued_before) noexcept;
  [[gnu::cold, gnu::noinline]] void leave_the_search() noexcept;
  [[gnu::cold, gnu::noinline]] void consider_a_call(std::size_t queued_before) noexcept;
  FiberId next_id() noexcept {
    if (next_id_ == ids_end_) [[unlikely]] take_ids();
    return next_id_++;
  }
  [[gnu::cold]] void take_ids() noexcept;
  void name_newcomer(Fiber& fiber) noexcept {
    if (fiber.id == 0) fiber.id = next_id();
  }
  bool fire_timers(Instant now) noexcept;

  // ── search.cpp: when there is nothing of our own to run ─────────────────────────────────────
  void idle() noexcept;
  void look_for_work() noexcept;
  // By a search. What is our own would have woken us, called or not.
  enum class Found : std::uint8_t { nothing, our_own, work_of_others };
  Found search(Duration span) noexcept;
  bool take_injected(std::size_t most) noexcept;
  bool take_stolen(std::size_t count) noexcept;
  bool steal_from(Worker& victim, Instant now) noexcept;
  [[nodiscard]] Sight look_at(const Worker& victim, Instant now) const noexcept;
  std::size_t take_from(Worker& victim, const Warrant& warrant, bool silent) noexcept;
  std::size_t give_loot(Worker& thief, const Warrant& warrant) noexcept;
  void judge_last_steal(Instant now) noexcept;
  // The wheel we keep an eye on: our own, or that of the worker our timers are with.
  [[nodiscard]] SharedTimers& wheel() noexcept { return *wheel_; }
  bool hear_from_outside() noexcept;
  void rouse() noexcept override;
  bool sleep(bool watching, const std::timespec* timeout) noexcept;
  void rest() noexcept;
  void sleep_till_called() noexcept;
  bool watch_round() noexcept;

  // ── retire.cpp: how a temporary worker goes ─────────────────────────────────────────────────
  void arrive() noexcept;
  // Gives up what waits here. Every fiber remains findable: in the injector, or in our hands.
  void give_all_away() noexcept;
  bool empty_queues(std::size_t most) noexcept;
  void retire() noexcept;
  [[nodiscard]] bool may_retire() const noexcept { return leaving_ && !has_pinned; }

  void become(WorkerState to) noexcept {
    spec::check_edge(state_, to);
    state_ = to;
  }

  Scheduler& shared_;
  const LockMark mark_;
  Inspected<WorkerState> state_ = WorkerState::active;

  // Just woken: coupled fibers take turns without a queue.
  alignas(64) Inspected<Fiber*> next_ = nullptr;
  std::uint32_t turns_ = 0;           // taken in a row from next_
  Inspected<std::uint32_t> until_fair_ = policy::kFairnessInterval;  // picks, and then
  Inspected<std::uint64_t> rounds_ = 0;                               // look_around()
  Gate gate_;                         // to next_, fresh_ and ready_
  FreshQueue fresh_;
  ReadyQueue ready_;
  Inspected<bool> leaving_ = false;   // asked to retire, or idle for too long
  FiberList pinned_;                  // ours alone, and outside the gate
  bool unborn_due_ = false;           // the oldest of fresh_ has the next fair pick
  Instant unborn_due_at_{};           // when it was last so
  bool pinned_first_ = false;         // they and the others take turns
  FiberId next_id_ = 0;               // of those set aside for us,
  FiberId ids_end_ = 0;               // up to here
  std::uint32_t edges_ = 0;           // of surplus, since the last call
  bool called_ = false;               // we count as a searcher, and have not searched yet
  bool woken_by_event_ = false;       // what we had to run last, a timer or a socket brought
  bool back_soon_ = false;            // we keep the watch, though we run something
  bool has_run_ = false;              // a fiber, since we began to idle
  Instant idle_since_{};              // of a temporary worker
  SharedTimers* const wheel_;
  Inspected<std::uint64_t> held_at_ = ~std::uint64_t{0};  // ticks
  Inspected<int> thread_id_ = 0;

  // As a thief.
  std::vector<Sight> sights_;
  Duration age_ = policy::kAge;
  Instant stole_at_{};
  std::size_t stole_ = 0;
  bool stole_for_a_call_ = false;
  std::unique_ptr<std::array<Fiber*, policy::kLootMax>> loot_;
};

}  // namespace weft::engine
