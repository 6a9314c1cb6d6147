// Workers that come and go: inboxes that close, temporary workers that retire, newcomers, and the
// watcher's bell.
#include "scheduler_models.hpp"

#include "engine/bell.hpp"
#include "engine/idle.hpp"
#include "engine/inbox.hpp"
#include "engine/injector.hpp"
#include "engine/shared_timers.hpp"
#include "small_scheduler.hpp"

#include <weft/base/mutant.hpp>

#include <array>
#include <cstddef>

namespace weft::model {
namespace {

using Act = SmallScheduler::Act;

// ── an inbox that closes ────────────────────────────────────────────────────────────────────────

struct ClosingBox {
  std::array<Fiber, 2> fibers;
  engine::Inbox inbox;
  std::array<Atomic<int>, 2> received, refused;
  Atomic<int> calls_made{0};
  Var<int> calls_found{0};

  void take_all() {
    engine::Inbox::Arrivals arrivals = inbox.take_all();
    while (Fiber* const fiber = arrivals.fibers.pop_front())
      received[static_cast<std::size_t>(fiber - fibers.data())].fetch_add(
          1, std::memory_order_relaxed);
    if (arrivals.called) calls_found.write(calls_found.read() + 1);
  }
  // It lies down, gets up because its time is over, and goes.
  void go() {
    if (inbox.lie_down()) inbox.get_up();
    do take_all();
    while (!inbox.close());
  }
  void send(std::size_t i) {
    if (!inbox.try_push(fibers[i])) refused[i].fetch_add(1, std::memory_order_relaxed);
  }
  void call() {
    if (inbox.call()) calls_made.fetch_add(1, std::memory_order_relaxed);
  }
  // Whoever comes back finds nothing there.
  void settle(std::size_t sent) {
    for (std::size_t i = 0; i < sent; ++i)
      check(received[i].load(std::memory_order_relaxed) +
                    refused[i].load(std::memory_order_relaxed) == 1,
            "received once, or refused once");
    check(calls_found.read() == calls_made.load(std::memory_order_relaxed),
          "a searcher's place is lost, or given twice");
    check(inbox.empty() && inbox.length() == 0, "a closed inbox is empty");
    inbox.reopen();
    check(inbox.lie_down(), "an inbox that opens is empty");
    inbox.get_up();
  }
};

void senders_race_the_close(Program& p) {
  auto& s = p.make<ClosingBox>();
  p.thread("worker", [&s] { s.go(); });
  p.thread("sender 1", [&s] { s.send(0); });
  p.thread("sender 2", [&s] { s.send(1); });
  p.at_end([&s] { s.settle(2); });
}

void call_and_nudge_race_the_close(Program& p) {
  auto& s = p.make<ClosingBox>();
  p.thread("worker", [&s] { s.go(); });
  p.thread("sender", [&s] { s.send(0); });
  p.thread("caller", [&s] { s.call(); });
  p.thread("nudger", [&s] { s.inbox.nudge(); });
  p.at_end([&s] { s.settle(1); });
}

// ── a temporary worker retires ──────────────────────────────────────────────────────────────────

// While one thread sends it a fiber and another injects one: it is worker 2 of 2.
void sent_to_one_that_retires(Program& p) {
  auto& s = p.make<SmallScheduler>(2U, 1U);
  s.open(2);
  p.thread("worker", [&s] { s.run(0); });
  p.thread("temporary", [&s] { s.run(1); });
  p.thread("sender", [&s] { s.send(1, 0); });
  p.thread("injector", [&s] { s.inject(1); });
  p.at_end([&s] { s.settle(); });
}

// While it keeps watch over one that computes until another fiber, queued behind it, has run.
void retires_with_the_watch(Program& p) {
  auto& s = p.make<SmallScheduler>(3U, 1U);
  s.open(2);
  s.fiber(0, Act::start_and_wait);
  p.thread("busy", [&s] { s.run_from(0, 0); });
  p.thread("worker", [&s] { s.run(1); });
  p.thread("temporary", [&s] { s.run(2); });
  p.at_end([&s] { s.settle(); });
}

// While it is called to search for what was injected.
void retires_when_called(Program& p) {
  auto& s = p.make<SmallScheduler>(2U, 1U);
  s.open(1);
  p.thread("worker", [&s] { s.run(0); });
  p.thread("temporary", [&s] { s.run(1); });
  p.thread("outside", [&s] { s.inject(0); });
  p.at_end([&s] { s.settle(); });
}

// With a queue, an inbox, and a thief who helps itself to both.
void thief_visits_one_that_drains(Program& p) {
  auto& s = p.make<SmallScheduler>(2U, 1U);
  s.open(2);
  s.put(1, 0);
  s.send(1, 1);
  p.thread("thief", [&s] { s.run(0); });
  p.thread("temporary", [&s] { s.retire(1); });
  p.at_end([&s] { s.settle(); });
}

// ── a newcomer ──────────────────────────────────────────────────────────────────────────────────

// The last child's end sends it home, too, however far it is on its way in, or to sleep.
void newcomer_is_told_of_the_end(Program& p) {
  auto& s = p.make<SmallScheduler>(1U);
  s.open(1);
  s.expect_newcomer();
  p.thread("watcher", [&s] { s.hire(); });
  p.thread("newcomer", [&s] { s.run_newcomer(1); });
  p.thread("last child", [&s] {
    s.leave();
    s.retire(0);
  });
  p.at_end([&s] { s.settle(); });
}

// It comes while the other lies down, or sleeps for good. Whoever of them gets the fiber queues
// another, and computes until that has run: the other must not sleep beside it.
void newcomer_meets_a_sleeper(Program& p) {
  auto& s = p.make<SmallScheduler>(1U);
  s.open(2);
  s.fiber(0, Act::start_and_wait);
  s.expect_newcomer();
  p.thread("worker", [&s] { s.run(0); });
  p.thread("newcomer", [&s] { s.run_newcomer(1); });
  p.thread("watcher", [&s] {
    s.hire();
    s.inject(0);
  });
  p.at_end([&s] { s.settle(); });
}

// ── the bell ────────────────────────────────────────────────────────────────────────────────────

// Everybody is asleep for good. The watcher is about to be, too, when a worker gets up; that one
// computes until the watcher has seen it, and then sends the watcher home.
struct Ringing {
  engine::Idle idle{1, 1};
  engine::Bell bell;
  Atomic<bool> stopping{false};
  Atomic<bool> noticed{false};

  Ringing() {
    idle.begin_sleep();
    check(idle.deepen());
  }
  void watch() {
    while (!stopping.load(std::memory_order_acquire)) {
      if (idle.count().deep()) {
        bell.sleep([this] {
          return idle.count().deep() && !stopping.load(std::memory_order_relaxed);
        });
      } else {
        noticed.store(true, std::memory_order_relaxed);
        bell.doze({0, 1});
      }
    }
  }
  void get_up() {
    if (idle.surface()) bell.rouse();
    idle.end_sleep();
  }
  void stop() {
    stopping.store(true, std::memory_order_release);
    bell.ring();
  }
};

void watcher_is_roused(Program& p) {
  auto& s = p.make<Ringing>();
  p.thread("watcher", [&s] { s.watch(); });
  p.thread("worker", [&s] {
    s.get_up();
    while (!s.noticed.load(std::memory_order_relaxed)) Sync::spin();
    s.stop();
  });
}

// Stopped while a worker gets up, and while nobody does.
void watcher_is_stopped(Program& p) {
  auto& s = p.make<Ringing>();
  p.thread("watcher", [&s] { s.watch(); });
  p.thread("worker", [&s] { s.get_up(); });
  p.thread("main", [&s] { s.stop(); });
}

// ── a deadlock that is none ─────────────────────────────────────────────────────────────────────

// The watcher fires the last timer and gives the fiber to anybody, while the watch looks whether
// there is a deadlock: as Sysmon::fire_late_timers() and Scheduler::raise_if_deadlocked().
struct LastTimer {
  class Due final : public Timer {
    void fire(Fired&) noexcept override {}
  };
  engine::SharedTimers timers;
  Due timer;
  Fiber fiber;
  engine::InjectorOf<2> injector;
  Atomic<bool> firing{false};

  LastTimer() { timers.arm(timer); }
  void fire() {
    if (!mutant::kFiringUnannounced) firing.store(true, std::memory_order_seq_cst);
    Fired fired;
    static_cast<void>(timers.fire_due(Instant{}, fired));
    injector.push(fiber);
    firing.store(false, std::memory_order_seq_cst);
  }
  void look() {
    if (timers.soonest() != Instant::max()) return;
    Sync::fence(std::memory_order_seq_cst);
    if (firing.load(std::memory_order_seq_cst)) return;
    check(!injector.empty(), "a deadlock, although a fiber is about to run");
  }
};

void last_timer_is_fired(Program& p) {
  auto& s = p.make<LastTimer>();
  p.thread("watcher", [&s] { s.fire(); });
  p.thread("watch", [&s] { s.look(); });
}

constexpr unsigned kDraws = 50'000;  // for what is too large to search

constexpr SchedulerModel within(unsigned bound, const char* name, void (*setup)(Program&),
                                unsigned samples = 0) {
  return {{name, setup, true, Mode::bound, bound}, samples};
}

constexpr std::array kElasticModels{
    within(3, "senders race the close", senders_race_the_close),
    within(2, "call and nudge race the close", call_and_nudge_race_the_close),
    SchedulerModel{{"sent to one that retires", sent_to_one_that_retires, true, Mode::pct}, kDraws},
    within(0, "retires with the watch", retires_with_the_watch, kDraws),
    within(0, "retires when called", retires_when_called, kDraws),
    within(2, "thief visits one that drains", thief_visits_one_that_drains),
    within(2, "newcomer is told of the end", newcomer_is_told_of_the_end),
    SchedulerModel{{"newcomer meets a sleeper", newcomer_meets_a_sleeper, true, Mode::pct}, kDraws},
    within(3, "watcher is roused", watcher_is_roused),
    within(3, "watcher is stopped", watcher_is_stopped),
    SchedulerModel{{"last timer is fired", last_timer_is_fired}},
};

}  // namespace

std::span<const SchedulerModel> elastic_models() { return kElasticModels; }

}  // namespace weft::model
