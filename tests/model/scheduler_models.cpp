#include "scheduler_models.hpp"

#include "engine/gate.hpp"
#include "engine/inbox.hpp"
#include "engine/injector.hpp"
#include "engine/offload_queue.hpp"
#include "engine/root.hpp"
#include "engine/shared_timers.hpp"
#include "model_engine.hpp"
#include "small_scheduler.hpp"

#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace weft::model {
namespace {

// ── the gate ────────────────────────────────────────────────────────────────────────────────────

struct Gated {
  engine::Gate gate;
  Var<int> queue{0};  // what the gate guards
  Atomic<bool> over{false};

  void touch() { queue.write(queue.read() + 1); }
  // Each in two ways, as pick() and resume() do: the second is for whoever finds it open.
  void enter_and_leave(int times) {
    for (; times > 0; --times) {
      if (times % 2 == 0 || !gate.enter_if_open()) gate.enter();
      touch();
      gate.leave();
    }
  }
};

// How one who visits waits for the owner. Each ends what bar() began.
enum class Manner {
  polite,     // until the owner comes to its gate; gives up when it goes home
  insistent,  // does not wait for it to come, but for it to be outside
  hasty,      // looks once, insists, looks once, gives up
};

void visit(Gated& s, Manner manner) {
  if (!s.gate.bar()) return;
  bool alone = false;
  if (manner == Manner::polite) {
    while (!(alone = s.gate.has_yielded()) && !s.over.load(std::memory_order_relaxed)) Sync::spin();
  } else {
    alone = manner == Manner::hasty && s.gate.has_yielded();
    if (!alone) s.gate.insist();
    while (!alone && !(alone = s.gate.is_outside()) && manner == Manner::insistent) Sync::spin();
  }
  if (alone) s.touch();
  s.gate.open();
}

template <int kEntries, Manner... kManners>
void gate_model(Program& p) {
  auto& s = p.make<Gated>();
  name(&s.queue, "queue");
  p.thread("owner", [&s] {
    s.enter_and_leave(kEntries);
    s.over.store(true, std::memory_order_relaxed);
  });
  (p.thread("visitor", [&s] { visit(s, kManners); }), ...);
}

// A visitor that loses its core while it is alone: the owner stops spinning and sleeps till woken.
void gate_owner_falls_asleep(Program& p) {
  auto& s = p.make<Gated>();
  check(s.gate.bar());
  p.thread("owner", [&s] { s.enter_and_leave(1); });
  p.thread("visitor", [&s] {
    if (s.gate.has_yielded()) s.touch();
    s.over.store(true, std::memory_order_relaxed);  // time passes
    s.gate.open();
  });
}

// ── the inbox ───────────────────────────────────────────────────────────────────────────────────

struct Mailbox {
  std::array<Fiber, 2> fibers;
  engine::Inbox inbox;
  engine::RootCount count;
  Var<int> calls_found{0};
  Atomic<int> calls_made{0};
  Atomic<int> arrived{0};

  void receive(FiberList all) {
    while (all.pop_front()) arrived.fetch_add(1, std::memory_order_relaxed);
  }
  void take_all() {
    engine::Inbox::Arrivals arrivals = inbox.take_all();
    receive(std::move(arrivals.fibers));
    if (arrivals.called) calls_found.write(calls_found.read() + 1);
  }
  // As Worker::rest(): the end of it all is looked for once more after lying down.
  void work() {
    while (!count.over()) {
      if (inbox.lie_down()) {
        if (!count.over()) inbox.sleep(nullptr);
        inbox.get_up();
      }
      take_all();
    }
    take_all();
  }
  void call() {
    if (inbox.call()) calls_made.fetch_add(1, std::memory_order_relaxed);
  }
  void end() {
    if (count.leave(1)) inbox.nudge();
  }
  // Nobody runs any more. What came after the worker went home is still there.
  void settle(int pushed) {
    take_all();
    check(arrived.load(std::memory_order_relaxed) == pushed, "a fiber is lost, or came twice");
    check(calls_found.read() == calls_made.load(std::memory_order_relaxed),
          "a searcher's place is lost, or given twice");
    check(inbox.length() == 0, "the inbox knows how many there are");
  }
};

void call_races_push(Program& p) {
  auto& s = p.make<Mailbox>();
  s.count.open();
  p.thread("worker", [&s] { s.work(); });
  p.thread("caller", [&s] { s.call(); });
  p.thread("sender", [&s] {
    s.inbox.push(s.fibers[0]);
    s.end();
  });
  p.at_end([&s] { s.settle(1); });
}

void call_races_nudge(Program& p) {
  auto& s = p.make<Mailbox>();
  s.count.open();
  p.thread("worker", [&s] { s.work(); });
  for (const char* caller : {"caller 1", "caller 2"}) p.thread(caller, [&s] { s.call(); });
  p.thread("nudger", [&s] { s.end(); });
  p.at_end([&s] { s.settle(0); });
}

// A nudge is forgotten when a fiber comes after it and is taken over: who nudges must have said why
// before, and the worker looks at that once it lies.
void inbox_is_taken_over(Program& p) {
  auto& s = p.make<Mailbox>();
  s.count.open();
  p.thread("worker", [&s] { s.work(); });
  p.thread("sender", [&s] {
    s.inbox.push(s.fibers[0]);
    s.call();
  });
  p.thread("thief", [&s] { s.receive(s.inbox.take_over()); });
  p.thread("nudger", [&s] { s.end(); });
  p.at_end([&s] { s.settle(1); });
}

// Two have a reason each, and say it before they nudge. Whichever nudge the worker takes last, it
// sees both.
struct Reasons {
  engine::Inbox inbox;
  std::array<Atomic<bool>, 2> said;

  bool all_said() const {
    return said[0].load(std::memory_order_relaxed) && said[1].load(std::memory_order_relaxed);
  }
  void work() {
    while (!all_said()) {
      if (inbox.lie_down()) {
        inbox.sleep(nullptr);
        inbox.get_up();
      }
      static_cast<void>(inbox.take_all());
    }
  }
  void say(std::size_t i) {
    said[i].store(true, std::memory_order_relaxed);
    inbox.nudge();
  }
};

void both_reasons_are_seen(Program& p) {
  auto& s = p.make<Reasons>();
  p.thread("worker", [&s] { s.work(); });
  p.thread("nudger 1", [&s] { s.say(0); });
  p.thread("nudger 2", [&s] { s.say(1); });
}

// ── the injector ────────────────────────────────────────────────────────────────────────────────

struct Injected {
  std::array<Fiber, 4> fibers;
  engine::InjectorOf<2> injector;
  std::array<Atomic<int>, 4> out;

  void push(std::size_t i) { injector.push(fibers[i]); }
  bool pop() {
    Fiber* const fiber = injector.pop();
    if (!fiber) return false;
    out[static_cast<std::size_t>(fiber - fibers.data())].fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void settle(std::size_t pushed) {
    while (pop()) {
    }
    for (std::size_t i = 0; i < fibers.size(); ++i)
      check(out[i].load(std::memory_order_relaxed) == (i < pushed ? 1 : 0),
            "a fiber is lost, or came out twice");
    check(injector.empty() && injector.length() == 0, "nothing is left");
  }
};

void injector_one_each(Program& p) {
  auto& s = p.make<Injected>();
  p.thread("pusher 1", [&s] { s.push(0); });
  p.thread("pusher 2", [&s] { s.push(1); });
  for (const char* popper : {"popper 1", "popper 2"}) p.thread(popper, [&s] { s.pop(); });
  p.at_end([&s] { s.settle(2); });
}

// The second lap: a slot is used again, by another writer, and read by another reader.
void injector_goes_round(Program& p) {
  auto& s = p.make<Injected>();
  p.thread("pusher 1", [&s] {
    s.push(0);
    s.push(1);
  });
  p.thread("pusher 2", [&s] { s.push(2); });
  p.thread("popper", [&s] {
    s.pop();
    s.pop();
  });
  p.at_end([&s] { s.settle(3); });
}

// Full from the start: what does not fit waits behind.
void injector_overflows(Program& p) {
  auto& s = p.make<Injected>();
  s.push(0);
  s.push(1);
  p.thread("pusher 1", [&s] { s.push(2); });
  p.thread("pusher 2", [&s] { s.push(3); });
  for (const char* popper : {"popper 1", "popper 2"})
    p.thread(popper, [&s] {
      s.pop();
      s.pop();
    });
  p.at_end([&s] { s.settle(4); });
}

// Whoever sees "empty" while only others take out has been told the truth: what one thread put in
// before it asked, and nobody but one taker was after, cannot all be gone.
void injector_is_not_empty(Program& p) {
  auto& s = p.make<Injected>();
  s.push(0);
  s.push(1);
  p.thread("popper", [&s] { s.pop(); });
  p.thread("looker", [&s] { check(!s.injector.empty(), "one of two is still there"); });
  p.at_end([&s] { s.settle(2); });
}

// What did not fit into the ring is still there when the ring has run empty.
void injector_overflow_is_seen(Program& p) {
  auto& s = p.make<Injected>();
  for (std::size_t i = 0; i < 3; ++i) s.push(i);
  p.thread("popper", [&s] {
    s.pop();
    s.pop();
  });
  p.thread("looker", [&s] { check(!s.injector.empty(), "the third is still there"); });
  p.at_end([&s] { s.settle(3); });
}

// ── idling ──────────────────────────────────────────────────────────────────────────────────────

using Act = SmallScheduler::Act;

// The last worker lies down while work comes from outside: it is not slept through.
void injection_is_not_slept_through(Program& p) {
  auto& s = p.make<SmallScheduler>(1U);
  s.open(1);
  p.thread("worker", [&s] { s.run(0); });
  p.thread("outside", [&s] { s.inject(0); });
  p.at_end([&s] { s.settle(); });
}

void two_lie_down(Program& p) {
  auto& s = p.make<SmallScheduler>(2U);
  s.open(1);
  p.thread("worker 1", [&s] { s.run(0); });
  p.thread("worker 2", [&s] { s.run(1); });
  p.thread("outside", [&s] { s.inject(0); });
  p.at_end([&s] { s.settle(); });
}

void two_inject_at_once(Program& p) {
  auto& s = p.make<SmallScheduler>(1U);
  s.open(2);
  p.thread("worker", [&s] { s.run(0); });
  p.thread("outside 1", [&s] { s.inject(0); });
  p.thread("outside 2", [&s] { s.inject(1); });
  p.at_end([&s] { s.settle(); });
}

// One worker takes the first of two and computes until the second has run. The other must not
// sleep beside that one.
void nobody_sleeps(Program& p) {
  auto& s = p.make<SmallScheduler>(2U);
  s.open(2);
  p.thread("busy", [&s] { s.look_around(); });
  p.thread("worker", [&s] { s.run(1); });
  p.thread("outside", [&s] {
    s.inject(0);
    s.inject(1);
  });
}

// The last child's end sends everybody home, however far they are on their way to sleep.
void everybody_goes_home(Program& p) {
  auto& s = p.make<SmallScheduler>(2U);
  s.open(1);
  p.thread("worker 1", [&s] { s.run(0); });
  p.thread("worker 2", [&s] { s.run(1); });
  p.thread("last child", [&s] { s.leave(); });
  p.at_end([&s] { s.settle(); });
}

// A worker that is woken through its inbox queues a second fiber and computes until that has run:
// the watch, for good asleep or about to be, is roused or finds one awake.
void watch_is_roused(Program& p) {
  auto& s = p.make<SmallScheduler>(2U);
  s.open(2);
  s.fiber(0, Act::start_and_wait);
  p.thread("worker", [&s] { s.run(0); });
  p.thread("watch", [&s] { s.run(1); });
  p.thread("outside", [&s] { s.send(0, 0); });
  p.at_end([&s] { s.settle(); });
}

// The same with a second fiber that comes through the inbox, too.
void watch_finds_the_second(Program& p) {
  auto& s = p.make<SmallScheduler>(2U);
  s.open(2);
  s.fiber(0, Act::wait);
  p.thread("worker", [&s] { s.run(0); });
  p.thread("watch", [&s] { s.run(1); });
  p.thread("outside", [&s] {
    s.send(0, 0);
    s.send(0, 1);
  });
  p.at_end([&s] { s.settle(); });
}

// Two workers compute until a third fiber has run; the last worker must keep watch.
void two_of_three_compute(Program& p) {
  auto& s = p.make<SmallScheduler>(3U);
  s.open(3);
  s.fiber(0, Act::wait);
  s.fiber(2, Act::wait);
  p.thread("worker 1", [&s] { s.run(0); });
  p.thread("worker 2", [&s] { s.run(1); });
  p.thread("worker 3", [&s] { s.run(2); });
  p.thread("outside", [&s] {
    s.send(0, 0);
    s.send(1, 2);
    s.send(0, 1);
  });
  p.at_end([&s] { s.settle(); });
}

// ── stolen fibers ───────────────────────────────────────────────────────────────────────────────

// The model's engine with a queue per worker, each behind a shipped Gate. New fibers come from the
// plain queue; woken, yielded and spawned ones go to the worker's own, where another takes them.
class StealingEngine final : public ModelEngine {
 public:
  // The tally: one that has ended runs its unborn sibling on its own stack.
  Fiber* adopt(CancelScope& home, Departure how) noexcept override {
    if (how != Departure::finish) return nullptr;
    Queue& own = queues_[worker_index()];
    const engine::Inside inside{own.gate};
    Fiber* const newest = own.length.read() == 0 ? nullptr : own.at(own.length.read() - 1).read();
    if (!newest || newest->strand || newest->scope != &home) return nullptr;
    own.length.write(own.length.read() - 1);
    return newest;
  }

 private:
  struct Queue {
    engine::Gate gate;
    Var<std::size_t> length{0};
    std::array<Var<Fiber*>, kFibersMax> fibers;

    Var<Fiber*>& at(std::size_t i) { return fibers[i]; }
    void push(Fiber& fiber) {
      at(length.read()).write(&fiber);
      length.write(length.read() + 1);
    }
    Fiber* pop_oldest() {
      const std::size_t count = length.read();
      if (count == 0) return nullptr;
      Fiber* const oldest = at(0).read();
      for (std::size_t i = 1; i < count; ++i) at(i - 1).write(at(i).read());
      length.write(count - 1);
      return oldest;
    }
  };

  void put(Fiber& fiber) override {
    Queue& own = queues_[worker_index()];
    const engine::Inside inside{own.gate};
    own.push(fiber);
  }
  Fiber* take(bool& over) override {
    const unsigned me = worker_index();
    {
      const engine::Inside inside{queues_[me].gate};
      if (Fiber* const fiber = queues_[me].pop_oldest()) return fiber;
    }
    if (Fiber* const fiber = ModelEngine::take(over)) return fiber;
    return over ? nullptr : steal(queues_[me], queues_[1 - me]);
  }
  // All there is: what ends here one after another is then told in one go.
  static Fiber* steal(Queue& own, Queue& victim) {
    std::array<Fiber*, kFibersMax> loot;
    std::size_t count = 0;
    if (!victim.gate.bar()) return nullptr;
    victim.gate.insist();
    if (victim.gate.is_outside())
      while (Fiber* const fiber = victim.pop_oldest()) loot[count++] = fiber;
    victim.gate.open();
    if (count == 0) return nullptr;
    const engine::Inside inside{own.gate};
    for (std::size_t i = 1; i < count; ++i) own.push(*loot[i]);
    return loot[0];
  }

  std::array<Queue, 2> queues_;
};

struct Stealing {
  StealingEngine engine;
  Atomic<int> ran{0};

  void two_workers(Program& p) {
    p.thread("worker 1", [this] { engine.work(); });
    p.thread("worker 2", [this] { engine.work(); });
  }
};

// F1: a fiber that yields is taken by the other worker only when its stack is quiet.
void yielded_fiber_is_stolen(Program& p) {
  auto& s = p.make<Stealing>();
  s.engine.fiber(
      [](void*) {
        give_way(Fiber::current());
        give_way(Fiber::current());
      },
      &s);
  s.two_workers(p);
}

// A child that has been stolen ends while its parent goes to wait for it, or is not there yet.
void stolen_child_is_joined(Program& p) {
  auto& s = p.make<Stealing>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Stealing*>(at);
        nursery([&to](Nursery& n) {
          n.spawn([&to] { to.ran.fetch_add(1, std::memory_order_relaxed); });
        });
        check(to.ran.load(std::memory_order_relaxed) == 1, "the child has ended");
      },
      &s);
  s.two_workers(p);
}

// Two children, that may be stolen both: if they end one after another, they are told together.
void told_together(Program& p) {
  auto& s = p.make<Stealing>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Stealing*>(at);
        nursery([&to](Nursery& n) {
          for (int i = 0; i < 2; ++i)
            n.spawn([&to] { to.ran.fetch_add(1, std::memory_order_relaxed); });
        });
        check(to.ran.load(std::memory_order_relaxed) == 2, "all children have ended");
      },
      &s);
  s.two_workers(p);
}

// A frame is used again where its fiber ended, be it another worker than where it was spawned.
void frames_change_hands(Program& p) {
  auto& s = p.make<Stealing>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Stealing*>(at);
        for (int round = 1; round <= 2; ++round) {
          nursery([&to](Nursery& n) {
            n.spawn([&to] { to.ran.fetch_add(1, std::memory_order_relaxed); });
          });
          check(to.ran.load(std::memory_order_relaxed) == round, "this round's child has ended");
        }
      },
      &s);
  s.two_workers(p);
}

// The tally against the join, without an engine: two told at once, one apart, and the owner.
struct Tally {
  engine::RootCount count;
  Var<int> root{1};  // alive until the last has left
};

void tally_against_the_last(Program& p) {
  auto& s = p.make<Tally>();
  s.count.open();
  for (int i = 0; i < 3; ++i) static_cast<void>(s.count.admit());
  const auto leaves = [&s](std::size_t count) {
    check(s.root.read() == 1, "the root outlives its children");
    if (s.count.leave(count)) s.root.write(0);
  };
  p.thread("two at once", [leaves] { leaves(2); });
  p.thread("one", [leaves] { leaves(1); });
  p.thread("main", [leaves] { leaves(1); });
  p.at_end([&s] { check(s.root.read() == 0 && s.count.over(), "exactly one was the last"); });
}

// ── stopping ────────────────────────────────────────────────────────────────────────────────────

// Runs of an engine that end by themselves, one after the other; a root each.
struct Runs {
  engine::RootCount count;
  Var<int>* root = nullptr;

  void run() {
    root = make<Var<int>>(0);
    count.begin();
    count.open();
    leave();
    while (!count.over()) Sync::spin();
    destroy(root);
  }
  void leave() { static_cast<void>(count.leave(1)); }
  bool stop() {
    if (!count.stop()) return false;
    check(root->read() == 0, "there is something to cancel");
    leave();
    return true;
  }
  bool post() {
    if (!count.admit()) return false;
    check(root->read() == 0, "the child has a home");
    leave();
    return true;
  }
};

void stop_against_the_end(Program& p) {
  auto& s = p.make<Runs>();
  p.thread("main", [&s] {
    s.run();
    s.run();
  });
  p.thread("stopper", [&s] { static_cast<void>(s.stop()); });
  p.thread("another", [&s] { static_cast<void>(s.stop()); });
}

// A run that lasts until it is stopped.
void stop_against_a_post(Program& p) {
  auto& s = p.make<Runs>();
  s.root = make<Var<int>>(0);
  s.count.open();
  p.thread("main", [&s] {
    s.leave();
    while (!s.count.over()) Sync::spin();
    destroy(s.root);
  });
  p.thread("poster", [&s] { static_cast<void>(s.post()); });
  p.thread("stopper", [&s] {
    if (s.stop()) check(!s.post(), "accepted after the stop");
  });
}

// The threads cannot be started: whoever came meanwhile would never be run.
void post_against_a_start_that_fails(Program& p) {
  auto& s = p.make<Runs>();
  p.thread("main", [&s] {
    s.count.begin();
    s.leave();
    check(s.count.over(), "accepted by a run that never was");
  });
  p.thread("poster", [&s] { static_cast<void>(s.count.admit()); });
  p.thread("stopper", [&s] { static_cast<void>(s.count.stop()); });
}

// ── timers ──────────────────────────────────────────────────────────────────────────────────────

class CheckedTimer final : public Timer {
 public:
  explicit CheckedTimer(Atomic<int>& fired) : fired_(fired) {}

 private:
  void fire(Fired&) noexcept override {
    touched_.write(touched_.read() + 1);  // gone: a use after free
    fired_.fetch_add(1, std::memory_order_relaxed);
  }

  Var<int> touched_{0};
  Atomic<int>& fired_;
};

struct Timing {
  std::array<engine::SharedTimers, 2> timers;
  Atomic<int> fired{0};
  CheckedTimer* timer = make<CheckedTimer>(fired);

  void fire(std::size_t where) {
    Fired outcome;
    static_cast<void>(timers[where].fire_due(Instant{}, outcome));
  }
};

// The timer dies as soon as disarm() has returned, while two others fire.
void timer_dies_when_disarmed(Program& p) {
  auto& s = p.make<Timing>();
  s.timers[0].arm(*s.timer);
  for (const char* who : {"worker 1", "worker 2"}) p.thread(who, [&s] { s.fire(0); });
  p.thread("fiber", [&s] {
    engine::SharedTimers::disarm(*s.timer);
    destroy(s.timer);
  });
  p.at_end([&s] { check(s.fired.load(std::memory_order_relaxed) <= 1, "it fired twice"); });
}

// Armed on one worker, disarmed there or elsewhere, armed anew on another.
void timer_moves_to_another_worker(Program& p) {
  auto& s = p.make<Timing>();
  p.thread("worker 1", [&s] { s.fire(0); });
  p.thread("worker 2", [&s] { s.fire(1); });
  p.thread("fiber", [&s] {
    for (engine::SharedTimers& where : s.timers) {
      where.arm(*s.timer);
      engine::SharedTimers::disarm(*s.timer);
    }
    destroy(s.timer);
  });
  p.at_end([&s] { check(s.fired.load(std::memory_order_relaxed) <= 2, "once per arming"); });
}

constexpr Mode kBound = Mode::bound;
// ── calls that block ────────────────────────────────────────────────────────────────────────────

struct Calls {
  struct Call final : OffloadJob {
    void run() noexcept override { runs.fetch_add(1, std::memory_order_relaxed); }
    Atomic<int> runs{0};
  };
  std::array<Call, 2> calls;
  engine::OffloadQueue queue{1};
  Atomic<bool> thread_wanted{false};

  // Starts the one thread there may be, if that is to be done.
  void call(Call& call) {
    if (!queue.push(call)) return;
    check(!thread_wanted.load(std::memory_order_relaxed), "two threads, where one is allowed");
    thread_wanted.store(true, std::memory_order_release);
  }
  void work() {
    while (!thread_wanted.load(std::memory_order_acquire)) Sync::spin();
    while (OffloadJob* const job = queue.pop(nullptr)) {
      job->run();
      queue.made();
    }
  }
};

// Each call is made once, however far the thread is on its way to sleep.
void call_against_a_thread_that_lies_down(Program& p) {
  auto& s = p.make<Calls>();
  p.thread("thread", [&s] { s.work(); });
  p.thread("caller", [&s] {
    s.call(s.calls[0]);
    s.call(s.calls[1]);
    s.queue.stop();
  });
  p.at_end([&s] {
    for (auto& call : s.calls)
      check(call.runs.load(std::memory_order_relaxed) == 1, "a call is lost, or made twice");
    check(s.queue.in_flight() == 0 && s.queue.threads() == 0);
  });
}

void call_is_withdrawn(Program& p) {
  auto& s = p.make<Calls>();
  p.thread("thread", [&s] { s.work(); });
  p.thread("caller", [&s] {
    s.call(s.calls[0]);
    const bool withdrawn = s.queue.withdraw(s.calls[0]);
    s.queue.stop();
    if (withdrawn)
      check(s.calls[0].runs.load(std::memory_order_relaxed) == 0, "it was made all the same");
    s.calls[1].runs.store(withdrawn ? 0 : 1, std::memory_order_relaxed);
  });
  p.at_end([&s] {
    check(s.calls[0].runs.load(std::memory_order_relaxed) ==
              s.calls[1].runs.load(std::memory_order_relaxed),
          "made or withdrawn, and not both");
  });
}

constexpr unsigned kSamples = 100'000;

constexpr std::array kSchedulerModels{
    SchedulerModel{{"gate, polite visitor", gate_model<2, Manner::polite>}},
    SchedulerModel{{"gate, insistent visitor", gate_model<2, Manner::insistent>}},
    SchedulerModel{{"gate, hasty visitor", gate_model<2, Manner::hasty>}},
    SchedulerModel{{"gate, two visitors", gate_model<1, Manner::insistent, Manner::hasty>}},
    SchedulerModel{{"gate, owner falls asleep", gate_owner_falls_asleep, true, kBound, 2}, 0, 199},
    SchedulerModel{{"call races push", call_races_push, true, kBound, 2}},
    SchedulerModel{{"call races nudge", call_races_nudge, true, kBound, 2}},
    SchedulerModel{{"inbox is taken over", inbox_is_taken_over, true, kBound, 1}, kSamples},
    SchedulerModel{{"both reasons are seen", both_reasons_are_seen, true, kBound, 2}},
    SchedulerModel{{"injector, one each", injector_one_each}},
    SchedulerModel{{"injector goes round", injector_goes_round, true, kBound, 2}},
    SchedulerModel{{"injector overflows", injector_overflows, true, kBound, 1}, kSamples},
    SchedulerModel{{"injector is not empty", injector_is_not_empty}},
    SchedulerModel{{"injector's overflow is seen", injector_overflow_is_seen}},
    SchedulerModel{{"injection is not slept through", injection_is_not_slept_through}},
    SchedulerModel{{"two inject at once", two_inject_at_once, true, kBound, 2}},
    SchedulerModel{{"two lie down, one injection", two_lie_down, true, kBound, 0}, kSamples},
    SchedulerModel{{"nobody sleeps beside the injector", nobody_sleeps, true, kBound, 0}, kSamples},
    SchedulerModel{{"everybody goes home", everybody_goes_home, true, kBound, 1}, kSamples},
    SchedulerModel{{"watch is roused", watch_is_roused, true, kBound, 0}, kSamples},
    SchedulerModel{{"watch finds the second", watch_finds_the_second, true, kBound, 0}, kSamples},
    SchedulerModel{{"two of three compute", two_of_three_compute, true, Mode::pct}, kSamples},
    SchedulerModel{{"yielded fiber is stolen", yielded_fiber_is_stolen, true, kBound, 2}},
    SchedulerModel{{"stolen child is joined", stolen_child_is_joined, true, kBound, 2}},
    SchedulerModel{{"children are told together", told_together, true, kBound, 1}, kSamples},
    SchedulerModel{{"frames change hands", frames_change_hands, true, kBound, 1}, kSamples},
    SchedulerModel{{"tally against the last", tally_against_the_last}},
    SchedulerModel{{"stop against the end", stop_against_the_end}},
    SchedulerModel{{"stop against a post", stop_against_a_post}},
    SchedulerModel{{"post against a start that fails", post_against_a_start_that_fails}},
    SchedulerModel{{"call against a thread that lies down", call_against_a_thread_that_lies_down}},
    SchedulerModel{{"call is withdrawn", call_is_withdrawn}},
    SchedulerModel{{"timer dies when disarmed", timer_dies_when_disarmed}},
    SchedulerModel{{"timer moves to another worker", timer_moves_to_another_worker}},
};

}  // namespace

std::span<const SchedulerModel> scheduler_models() { return kSchedulerModels; }

}  // namespace weft::model
