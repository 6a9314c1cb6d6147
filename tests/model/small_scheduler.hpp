// SmallScheduler: the loop of engine/{worker,search,retire,scheduler}.cpp, small enough to be
// explored.
//
// Idle, Inbox, Gate and Injector are the shipped ones; the loop around them is a copy, to be kept
// in step by hand, without clocks, stacks and patience: calls for a worker's own surplus are left
// out, as if they had been in vain too often, so that only the watch finds what waits in a queue.
// The watch sleeps for good as soon as it may. The last workers may be temporary: such a one
// retires as soon as it has lain down, or is hired in the course of the model, and stays.
#pragma once

#include "engine/gate.hpp"
#include "engine/idle.hpp"
#include "engine/inbox.hpp"
#include "engine/injector.hpp"
#include "engine/root.hpp"
#include "explorer/explore.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::model {

class SmallScheduler {
 public:
  static constexpr unsigned kWorkers = 3;

  struct SmallWorker {
    engine::Inbox inbox;
    engine::Gate gate;
    Var<Fiber*> queue{nullptr};      // of one, behind the gate
    Atomic<bool> looks_full{false};  // what others see of it, as a hint
    Fiber* in_hand = nullptr;        // injected or stolen, to be run next
    bool called = false;
    bool temporary = false;
    bool leaving = false;  // asked to retire, or idle for too long
    bool patient = false;  // a temporary one that stays, however long it idles
  };
  // What a fiber does before it ends.
  enum class Act : std::uint8_t {
    end,             // nothing
    wait,            // computes until fiber 1 has run
    start_and_wait,  // queues that one first
  };

  explicit SmallScheduler(unsigned count_in = kWorkers, unsigned temporary = 0)
      : idle(count_in, 1), workers_(count_in - temporary), places_(count_in) {
    for (unsigned i = workers_; i < count_in; ++i) workers[i].temporary = true;
  }

  void fiber(std::size_t i, Act act) { acts_[i] = act; }
  void open(unsigned children) {
    count.open();
    for (; children > 1; --children) static_cast<void>(count.admit());
  }

  // ── by foreign threads ──────────────────────────────────────────────────────────────────────

  void inject(std::size_t i) {
    injector.push(fibers_[i]);
    if (idle.must_be_told()) call_a_searcher();
  }
  void send(unsigned to, std::size_t i) {
    if (workers[to].inbox.try_push(fibers_[i])) return;
    inject(i);
  }
  void leave() {
    if (!count.leave(1)) return;
    // A newcomer opens its inbox, lies down, and looks whether all is over. One of us sees the
    // other.
    if (!mutant::kEndUnfenced) Sync::fence(std::memory_order_seq_cst);
    for (unsigned i = 0; i < worker_count(); ++i) workers[i].inbox.nudge();
  }

  // ── by the watcher ──────────────────────────────────────────────────────────────────────────

  // There is one more temporary worker to come, behind the others.
  void expect_newcomer() {
    SmallWorker& newcomer = workers[worker_count()];
    newcomer.temporary = newcomer.patient = true;
    check(newcomer.inbox.close());
  }
  void hire() {
    const unsigned place = worker_count();
    idle.join();
    if (!mutant::kNewcomerUnlisted) places_.store(place + 1, std::memory_order_release);
    hired_.store(true, std::memory_order_release);  // its thread starts
    if (mutant::kNewcomerUnlisted) places_.store(place + 1, std::memory_order_release);
  }
  void run_newcomer(unsigned me) {
    while (!hired_.load(std::memory_order_acquire)) Sync::spin();
    workers[me].inbox.reopen();
    work(me);
  }

  // ── by workers ──────────────────────────────────────────────────────────────────────────────

  // From where it has found nothing to do.
  void run(unsigned me) {
    rest(me);
    work(me);
  }
  void work(unsigned me) {
    SmallWorker& self = workers[me];
    while (!count.over()) {
      if (self.leaving) break;
      if (Fiber* const fiber = pick(self)) {
        if (self.called) leave_the_search(self);
        keep_watch(me);
        run_fiber(self, *fiber);
      } else {
        look_for_work(me);
      }
    }
    retire(me);
  }
  // As a temporary worker goes, from where it has fibers left, and others may send more.
  void retire(unsigned me) {
    SmallWorker& self = workers[me];
    do {
      if (self.temporary) give_all_away(self);
      else self.called = self.inbox.take_all().called || self.called;
      if (self.called && !mutant::kRetiresUncounted) leave_the_search(self);
    } while (self.temporary && !self.inbox.close());
    if (!self.temporary) return;
    if (!mutant::kRetiresWithTheWatch) keep_watch(me);
    idle.leave();
  }
  // From where it has just taken a fiber.
  void run_from(unsigned me, std::size_t i) {
    keep_watch(me);
    run_fiber(workers[me], fibers_[i]);
    work(me);
  }
  void put(unsigned where, std::size_t i) { put(workers[where], fibers_[i]); }
  // By one that has enough to do: takes one of two and computes until the other has run.
  void look_around() {
    Fiber* const fiber = injector.pop();
    if (!fiber) return;
    wait_for(fiber == &fibers_[0] ? 1 : 0);
    end(*fiber);
  }
  void settle() const {
    check(idle.count().searching() == 0, "somebody still counts as a searcher");
    check(idle.count().asleep() == 0, "somebody still counts as asleep");
    check(idle.count().workers() == workers_, "one who has gone still counts as a worker");
    const std::uint32_t watch = watch_.load(std::memory_order_relaxed);
    check(watch == kNobody || !workers[watch].temporary, "one who has gone keeps the watch");
  }

  engine::RootCount count;
  engine::InjectorOf<2> injector;
  engine::Idle idle;
  std::array<SmallWorker, kWorkers> workers;

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  void run_fiber(SmallWorker& self, Fiber& fiber) {
    const auto i = static_cast<std::size_t>(&fiber - fibers_.data());
    if (acts_[i] == Act::start_and_wait) {
      put(self, fibers_[1]);
      if (idle.count().deep()) rouse_the_watch();  // advertise()
    }
    if (acts_[i] != Act::end) wait_for(1);
    end(fiber);
  }
  void wait_for(std::size_t other) {
    while (!has_run_[other].load(std::memory_order_relaxed)) Sync::spin();
  }
  void end(Fiber& fiber) {
    const auto i = static_cast<std::size_t>(&fiber - fibers_.data());
    check(!has_run_[i].exchange(true, std::memory_order_relaxed), "a fiber ran twice");
    leave();
  }

  void give_all_away(SmallWorker& self) {
    bool any = false;
    const auto give = [&](Fiber* fiber) {
      if (!fiber) return false;
      injector.push(*fiber);
      return any = true;
    };
    give(std::exchange(self.in_hand, nullptr));
    {
      const engine::Inside inside{self.gate};
      give(take(self));
    }
    engine::Inbox::Arrivals arrivals = self.inbox.take_all();
    while (give(arrivals.fibers.pop_front())) {}
    self.called = self.called || arrivals.called;
    if (any && idle.must_be_told()) call_a_searcher();
  }

  static void put(SmallWorker& self, Fiber& fiber) {
    const engine::Inside inside{self.gate};
    self.queue.write(&fiber);
    self.looks_full.store(true, std::memory_order_relaxed);
  }
  static Fiber* take(SmallWorker& from) {
    Fiber* const fiber = from.queue.read();
    if (!fiber) return nullptr;
    from.queue.write(nullptr);
    from.looks_full.store(false, std::memory_order_relaxed);
    return fiber;
  }
  static Fiber* pick(SmallWorker& self) {
    if (Fiber* const fiber = std::exchange(self.in_hand, nullptr)) return fiber;
    if (self.looks_full.load(std::memory_order_relaxed)) {
      const engine::Inside inside{self.gate};
      if (Fiber* const fiber = take(self)) return fiber;
    }
    if (self.inbox.empty()) return nullptr;
    engine::Inbox::Arrivals arrivals = self.inbox.take_all();
    self.called = self.called || arrivals.called;
    Fiber* const first = arrivals.fibers.pop_front();
    if (Fiber* const second = arrivals.fibers.pop_front()) put(self, *second);
    return first;
  }
  bool take_injected(SmallWorker& self) {
    if (injector.empty()) return false;
    self.in_hand = injector.pop();
    return self.in_hand != nullptr;
  }
  void look_for_work(unsigned me) {
    SmallWorker& self = workers[me];
    if (count.over() || take_injected(self)) return;
    if (std::exchange(self.called, false) || idle.begin_search()) idle.end_search();  // in vain
    rest(me);
  }
  void leave_the_search(SmallWorker& self) {
    self.called = false;
    idle.end_search();
    if (!injector.empty()) call_a_searcher();
  }

  void rest(unsigned me) {
    SmallWorker& self = workers[me];
    if (!self.inbox.lie_down()) return;
    idle.begin_sleep();
    if (injector.empty() && !count.over()) sleep_till_called(me);
    self.inbox.get_up();
    idle.end_sleep();
  }
  void sleep_till_called(unsigned me) {
    SmallWorker& self = workers[me];
    const bool watching = take_the_watch(me);
    for (;;) {
      const bool deep = watching && idle.deepen();
      if (self.temporary && !self.patient) {
        self.leaving = true;
        break;
      }
      if (watching && !deep) Sync::spin();  // the time-out: whatever was written is seen by then
      else self.inbox.sleep(nullptr);
      if (!self.inbox.is_asleep()) break;
      if (watching && watch_round(me)) break;
    }
    if (watching) idle.surface();
  }
  bool watch_round(unsigned me) {
    SmallWorker& self = workers[me];
    if (take_injected(self)) return true;
    for (unsigned i = 0; i < worker_count(); ++i)
      if (i != me && steal(self, workers[i])) return true;
    return false;
  }
  // From a worker that does not come to its gate: its queue, else its inbox.
  static bool steal(SmallWorker& self, SmallWorker& victim) {
    const bool full = victim.looks_full.load(std::memory_order_relaxed);
    if ((!full && (victim.inbox.empty() || victim.inbox.is_asleep())) || !victim.gate.bar())
      return false;
    victim.gate.insist();
    FiberList stranded;
    if (victim.gate.is_outside()) {
      self.in_hand = take(victim);
      if (!self.in_hand) stranded = victim.inbox.take_over();
    }
    victim.gate.open();
    if (!self.in_hand) self.in_hand = stranded.pop_front();
    if (Fiber* const second = stranded.pop_front()) put(self, *second);
    return self.in_hand != nullptr;
  }

  void call_a_searcher() {
    if (!idle.begin_search_for_another()) return;
    const std::uint32_t watch = watch_.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < worker_count(); ++i)
      if (i != watch && workers[i].inbox.call()) return;
    if (watch != kNobody && workers[watch].inbox.call()) return;
    idle.end_search();
    // Another thread may have seen our place taken, and told nobody.
    Sync::fence(std::memory_order_seq_cst);
    if (injector.empty()) return;
    for (unsigned i = 0; i < worker_count(); ++i) workers[i].inbox.nudge();
  }
  bool take_the_watch(unsigned who) {
    std::uint32_t keeper = kNobody;
    return watch_.compare_exchange_strong(keeper, who, std::memory_order_seq_cst) || keeper == who;
  }
  void rouse_the_watch() {
    if (!idle.surface()) return;
    const std::uint32_t watch = watch_.load(std::memory_order_seq_cst);
    if (watch != kNobody) workers[watch].inbox.nudge();
  }
  void keep_watch(unsigned me) {
    if (watch_.load(std::memory_order_relaxed) == me) {
      watch_.store(kNobody, std::memory_order_seq_cst);
      Sync::fence(std::memory_order_seq_cst);
    }
    const engine::Idle::Count others = idle.count();
    if (others.deep()) return rouse_the_watch();
    if (others.asleep() == 0 || watch_.load(std::memory_order_relaxed) != kNobody) return;
    for (unsigned i = 0; i < worker_count(); ++i) {
      if (!workers[i].inbox.is_asleep()) continue;
      if (!take_the_watch(i) || workers[i].inbox.rouse()) return;
      // It got up meanwhile, and may be past its own look; and who lay down meanwhile believed us.
      std::uint32_t keeper = i;
      if (!watch_.compare_exchange_strong(keeper, kNobody, std::memory_order_seq_cst)) return;
      Sync::fence(std::memory_order_seq_cst);
      i = ~0U;
    }
  }

  [[nodiscard]] unsigned worker_count() const { return places_.load(std::memory_order_acquire); }

  const unsigned workers_;  // that are not temporary
  Atomic<unsigned> places_;
  Atomic<bool> hired_{false};
  Atomic<std::uint32_t> watch_{kNobody};
  std::array<Fiber, 3> fibers_;
  std::array<Act, 3> acts_{};
  std::array<Atomic<bool>, 3> has_run_;
};

}  // namespace weft::model
