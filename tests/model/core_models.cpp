#include "core_models.hpp"

#include "engine/inbox.hpp"
#include "engine/root.hpp"
#include "model_engine.hpp"
#include "model_thread.hpp"

#include <weft/core/cancel_scope.hpp>
#include <weft/core/readiness.hpp>
#include <weft/core/use_count.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>

#include <array>

namespace weft::model {
namespace {

// ── park and wake ───────────────────────────────────────────────────────────────────────────────

struct Handover {
  ModelEngine engine;
  Event* event = make<Event>();
  Var<int> data{0};
};

// One fiber, one setter. The event is destroyed as soon as the wait has returned.
void event_wakes_one(Program& p) {
  auto& s = p.make<Handover>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Handover*>(at);
        to.event->wait();
        check(to.data.read() == 7, "the setter's data came along");
        destroy(to.event);
      },
      &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("setter", [&s] {
    s.data.write(7);
    s.event->set();
  });
}

struct TwoSetters {
  ModelEngine engine;
  Event event;
};

void two_setters_one_enqueue(Program& p) {
  auto& s = p.make<TwoSetters>();
  s.engine.fiber([](void* at) { static_cast<TwoSetters*>(at)->event.wait(); }, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("setter 1", [&s] { s.event.set(); });
  p.thread("setter 2", [&s] { s.event.set(); });
}

// Two waits in a row, each by its own event: a late waker of the first must not end the second.
struct TwoRounds {
  ModelEngine engine;
  Event first, second;
  Var<int> data{0};
};

void two_rounds(Program& p) {
  auto& s = p.make<TwoRounds>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<TwoRounds*>(at);
        to.first.wait();
        to.second.wait();
        check(to.data.read() == 2, "both rounds were waited for");
      },
      &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("setter", [&s] {
    s.first.set();
    s.data.write(2);
    s.second.set();
  });
}

struct TwoFibers {
  ModelEngine engine;
  Event event;
};

void one_set_wakes_all(Program& p) {
  auto& s = p.make<TwoFibers>();
  for (int i = 0; i < 2; ++i)
    s.engine.fiber([](void* at) { static_cast<TwoFibers*>(at)->event.wait(); }, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("setter", [&s] { s.event.set(); });
}

// Woken one after the other here, a few hundred at a time elsewhere. Who returns last destroys the
// event, while set() may be busy with it still.
struct LastDestroys {
  static constexpr int kMany = 3;
  ModelEngine engine;
  Event* event = make<Event>();
  Atomic<int> waiting{kMany};
};

void last_one_woken_destroys(Program& p) {
  auto& s = p.make<LastDestroys>();
  for (int i = 0; i < LastDestroys::kMany; ++i)
    s.engine.fiber(
        [](void* at) {
          auto& to = *static_cast<LastDestroys*>(at);
          to.event->wait();
          to.event->set();  // wakes those whom the setter has not come to yet
          if (to.waiting.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(to.event);
        },
        &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("setter", [&s] { s.event->set(); });
}

// Fiber and waker on two workers: the stack must be quiet before the second worker runs it.
void two_workers(Program& p) {
  auto& s = p.make<TwoRounds>();
  s.engine.fiber([](void* at) { static_cast<TwoRounds*>(at)->first.wait(); }, &s);
  s.engine.fiber([](void* at) { static_cast<TwoRounds*>(at)->first.set(); }, &s);
  p.thread("worker 1", [&s] { s.engine.work(); });
  p.thread("worker 2", [&s] { s.engine.work(); });
}

// ── several arms ────────────────────────────────────────────────────────────────────────────────

struct TwoArms {
  ModelEngine engine;
  Event* left = make<Event>();
  Event* right = make<Event>();
};

// Both arms may win; when wait() has returned, nobody can touch the loser.
void one_of_two_arms(Program& p) {
  auto& s = p.make<TwoArms>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<TwoArms*>(at);
        {
          // On the quarantined heap, not on the stack: a touch after the wait is then noticed.
          auto* const left = make<Event::Wait>(*to.left);
          auto* const right = make<Event::Wait>(*to.right);
          Waitable* const arms[] = {left, right};
          const std::size_t winner = wait(arms);
          check((winner == 0 ? to.left : to.right)->is_set(), "the arm that won is ready");
          destroy(left);
          destroy(right);
        }
      },
      &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("left", [&s] { s.left->set(); });
  p.thread("right", [&s] { s.right->set(); });
  p.at_end([&s] {
    destroy(s.left);
    destroy(s.right);
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

struct Cancelling {
  ModelEngine engine;
  CancelScope scope{nullptr};
  CancelScope inner{&scope};
  Event event, never;
  Atomic<int> ended{0};
};

// Waits, in the given scope, for what never comes. Only a cancel ends it.
void wait_until_cancelled(Cancelling& to, CancelScope& scope) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, scope};
    to.never.wait();
    check(false, "nobody sets it");
  } catch (const Cancelled&) {
  }
  to.ended.fetch_add(1, std::memory_order_relaxed);
}

void waits_in_scope(void* at) {
  auto& to = *static_cast<Cancelling*>(at);
  wait_until_cancelled(to, to.scope);
}
void waits_in_inner_scope(void* at) {
  auto& to = *static_cast<Cancelling*>(at);
  wait_until_cancelled(to, to.inner);
}

void cancel_reaches_a_wait(Program& p) {
  auto& s = p.make<Cancelling>();
  s.engine.fiber(&waits_in_scope, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] { check(s.ended.load(std::memory_order_relaxed) == 1, "the fiber ended"); });
}

// Either may win; the fiber ends, and whatever the verdict, no later wait is hit by this cancel.
void cancel_races_a_set(Program& p) {
  auto& s = p.make<Cancelling>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Cancelling*>(at);
        Fiber& self = Fiber::current();
        try {
          const Entered entered{self, to.scope};
          to.event.wait();
        } catch (const Cancelled&) {
        }
        to.event.wait();  // outside the scope: only the set may end it
        check(to.event.is_set(), "a wait outside the cancelled scope was cancelled");
      },
      &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("setter", [&s] { s.event.set(); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// A fiber that its scope knows waits, shielded: the cancel passes by, and meets the wait after it.
void cancel_passes_a_shielded_wait(Program& p) {
  auto& s = p.make<Cancelling>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Cancelling*>(at);
        Fiber& self = Fiber::current();
        try {
          const Entered entered{self, to.scope};
          if (!to.scope.enrol(*self.strand)) return;
          auto arm = to.event.on_set();
          wait_shielded(arm);
          check(to.event.is_set(), "a shielded wait was cancelled");
          to.never.wait();
          check(false, "nobody sets it");
        } catch (const Cancelled&) {
        }
      },
      &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("setter", [&s] { s.event.set(); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// One nudge is a stranger's (its scope does not concern the fiber any more); it must not hide the
// one that counts.
void two_nudges(Program& p) {
  auto& s = p.make<Cancelling>();
  s.engine.fiber(&waits_in_scope, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("stranger", [&s] {
    Fiber& fiber = s.engine.frame(0);
    if (fiber.word.cancel(fiber.attention) == Claim::owned) s.engine.resume(FiberList{fiber});
  });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// A scope one level up is cancelled while the fiber parks in one that nobody has attached yet.
void cancel_reaches_down_the_tree(Program& p) {
  auto& s = p.make<Cancelling>();
  s.engine.fiber(&waits_in_inner_scope, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// The same with two fibers: one may find the scope attached, or half so, by the other.
void cancel_reaches_two_below(Program& p) {
  auto& s = p.make<Cancelling>();
  s.engine.fiber(&waits_in_inner_scope, &s);
  s.engine.fiber(&waits_in_inner_scope, &s);
  p.thread("worker 1", [&s] { s.engine.work(); });
  p.thread("worker 2", [&s] { s.engine.work(); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// Fibers that meet at the lock of their scope get rolls of their own, made while a canceller may be
// on its way: each is found by it, or finds its flag.
struct Enrolling {
  CancelScope scope{nullptr};
  Ground ground;
  Fiber fibers[2];
  Strand strands[2]{{fibers[0], ground}, {fibers[1], ground}};
  Var<bool> enrolled[2]{Var<bool>{false}, Var<bool>{false}};

  void enrol(std::size_t i) {
    fibers[i].word.mark_reborn();
    fibers[i].word.mark_runnable(Actor::spawner);
    fibers[i].word.mark_running();
    Carrier carrier;  // its number chooses the roll
    thread_slot() = &carrier;
    enrolled[i].write(scope.enrol(strands[i]));
    thread_slot() = nullptr;
  }
};

void rolls_race_a_cancel(Program& p) {
  auto& s = p.make<Enrolling>();
  p.thread("fiber 1", [&s] { s.enrol(0); });
  p.thread("fiber 2", [&s] { s.enrol(1); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] {
    for (std::size_t i = 0; i < 2; ++i) {
      const bool told = (s.fibers[i].attention.load(std::memory_order_relaxed) & kAttendScope) != 0;
      check(told || !s.enrolled[i].read(), "neither found nor found the flag");
      CancelScope::withdraw(s.strands[i]);
    }
  });
}

// One leaves while the other comes, and the scope ends with both.
void rolls_race_each_other(Program& p) {
  auto& s = p.make<Enrolling>();
  for (std::size_t i = 0; i < 2; ++i)
    p.thread(i == 0 ? "fiber 1" : "fiber 2", [&s, i] {
      s.enrol(i);
      check(s.enrolled[i].read(), "nobody cancels");
      CancelScope::withdraw(s.strands[i]);
    });
}

// ── the ticket ──────────────────────────────────────────────────────────────────────────────────

// A waker remembers the frame's first wait. It may end that one; it must not end the second, which
// is another fiber's perhaps: the frame has been recycled in between.
struct Recycled {
  ControlWord word;
  Atomic<std::uint64_t> remembered{0};
};

void stale_ticket_is_refused(Program& p) {
  auto& s = p.make<Recycled>();
  p.thread("frame", [&s] {
    const auto live = [&s](bool tell) {
      s.word.mark_reborn();
      s.word.mark_runnable(Actor::spawner);
      s.word.mark_running();
      const auto ticket = s.word.begin_park(Nudges::heed);
      if (tell)  // 0 stands for "nothing yet"
        s.remembered.store(static_cast<std::uint64_t>(ticket) + 1, std::memory_order_release);
      const Verdict verdict = s.word.abort_park();
      s.word.mark_ended(FiberState::done, Actor::fiber);
      return verdict;
    };
    static_cast<void>(live(true));
    check(live(false) == Verdict::none(), "a stale waker ended the next wait");
  });
  p.thread("stale waker", [&s] {
    const std::uint64_t ticket = s.remembered.load(std::memory_order_acquire);
    if (ticket != 0) static_cast<void>(s.word.claim(Ticket{ticket - 1}, Verdict::arm(0)));
  });
}

// Two wakers of one wait: one of them wins, and the fiber is told by that one alone.
struct Winners {
  ControlWord word;
  Atomic<std::uint16_t> attention{0};
  Atomic<std::uint64_t> ticket{0};
  Atomic<unsigned> won{0};
};

void one_winner(Program& p) {
  auto& s = p.make<Winners>();
  s.word.mark_reborn();
  s.word.mark_runnable(Actor::spawner);
  s.word.mark_running();
  s.ticket.store(static_cast<std::uint64_t>(s.word.begin_park(Nudges::heed)),
                 std::memory_order_relaxed);
  for (const char* name : {"waker 1", "waker 2"})
    p.thread(name, [&s] {
      const Ticket ticket{s.ticket.load(std::memory_order_relaxed)};
      if (s.word.claim(ticket, Verdict::arm(0)) != Claim::lost)
        s.won.fetch_add(1, std::memory_order_relaxed);
    });
  p.thread("worker", [&s] { static_cast<void>(s.word.commit_park(s.attention)); });
  p.at_end([&s] {
    check(s.won.load(std::memory_order_relaxed) == 1, "two verdicts for one wait, or none");
  });
}

// ── threads ─────────────────────────────────────────────────────────────────────────────────────

struct Threads {
  Event* event = make<Event>();
  Var<int> data{0};
};

void thread_waits_for_thread(Program& p) {
  auto& s = p.make<Threads>();
  p.thread("waiter", [&s] {
    as_thread(
        [](void* at) {
          auto& to = *static_cast<Threads*>(at);
          to.event->wait();
          check(to.data.read() == 1, "the data came along");
          destroy(to.event);
        },
        &s);
  });
  p.thread("setter", [&s] {
    s.data.write(1);
    s.event->set();
  });
}

// ── the join ────────────────────────────────────────────────────────────────────────────────────

struct Joining {
  ModelEngine engine;
  Atomic<int> ran{0};
};

// The nursery is destroyed right after its join, in the frame of a function that has returned.
void join_one_child(Program& p) {
  auto& s = p.make<Joining>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Joining*>(at);
        nursery([&to](Nursery& n) {
          n.spawn([&to] { to.ran.fetch_add(1, std::memory_order_relaxed); });
        });
        check(to.ran.load(std::memory_order_relaxed) == 1, "the child has ended");
      },
      &s);
  p.thread("worker 1", [&s] { s.engine.work(); });
  p.thread("worker 2", [&s] { s.engine.work(); });
}

void join_two_children(Program& p) {
  auto& s = p.make<Joining>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Joining*>(at);
        nursery([&to](Nursery& n) {
          for (int i = 0; i < 2; ++i)
            n.spawn([&to] { to.ran.fetch_add(1, std::memory_order_relaxed); });
        });
        check(to.ran.load(std::memory_order_relaxed) == 2, "both children have ended");
      },
      &s);
  p.thread("worker 1", [&s] { s.engine.work(); });
  p.thread("worker 2", [&s] { s.engine.work(); });
}

// ── engine ──────────────────────────────────────────────────────────────────────────────────────

struct Mail {
  std::array<Fiber, 2> fibers;
  engine::Inbox inbox;
};

void doze(engine::Inbox& inbox) {
  if (!inbox.lie_down()) return;
  inbox.sleep(nullptr);
  inbox.get_up();
}

// Nothing left in the inbox of a worker that sleeps.
void inbox_wakes_its_worker(Program& p) {
  auto& s = p.make<Mail>();
  p.thread("worker", [&s] {
    for (std::size_t taken = 0; taken < s.fibers.size();) {
      if (s.inbox.empty()) {
        doze(s.inbox);
        continue;
      }
      FiberList all = s.inbox.take_all().fibers;
      while (all.pop_front()) ++taken;
    }
  });
  p.thread("sender 1", [&s] { s.inbox.push(s.fibers[0]); });
  p.thread("sender 2", [&s] { s.inbox.push(s.fibers[1]); });
}

struct Nudging {
  engine::Inbox inbox;
  Atomic<bool> over{false};
};

// A worker that looks, finds nothing, and sleeps: the nudge in between is not slept through.
void nudge_is_not_slept_through(Program& p) {
  auto& s = p.make<Nudging>();
  p.thread("worker", [&s] {
    while (!s.over.load(std::memory_order_relaxed)) {
      doze(s.inbox);
      static_cast<void>(s.inbox.take_all());
    }
  });
  p.thread("nudger", [&s] {
    s.over.store(true, std::memory_order_relaxed);
    s.inbox.nudge();
  });
}

struct Posting {
  engine::RootCount count;
  Var<int> root{1};  // alive while admitted
};

// post() against the end of run(): who is admitted finds the root alive.
void admit_or_refuse(Program& p) {
  auto& s = p.make<Posting>();
  s.count.open();
  p.thread("main", [&s] {
    if (s.count.leave(1)) s.root.write(0);
  });
  for (const char* name : {"poster 1", "poster 2"})
    p.thread(name, [&s] {
      if (!s.count.admit()) return;
      check(s.root.read() == 1, "admitted to a run that is over");
      if (s.count.leave(1)) s.root.write(0);
    });
}

// ── descriptors ─────────────────────────────────────────────────────────────────────────────────

struct Socket {
  ModelEngine engine;
  Atomic<int> bytes{0};
  Readiness in;
};

// Bytes come, and the reactor tells of them, while a reader finds nothing and lies down.
void ready_while_it_drains(Program& p) {
  auto& s = p.make<Socket>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Socket*>(at);
        for (int got = 0; got < 2;) {
          const Readiness::Edges seen = to.in.edges();
          if (!to.in.is_drained(seen)) {
            const int bytes = to.bytes.exchange(0, std::memory_order_relaxed);
            got += bytes;
            if (bytes != 0) continue;
            to.in.drained(seen);
          }
          to.in.wait_after(seen);
        }
      },
      &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("reactor", [&s] {
    for (int i = 0; i < 2; ++i) {
      s.bytes.fetch_add(1, std::memory_order_relaxed);
      FiberList woken;
      s.in.tell(woken);
      resume_all(std::move(woken));
    }
  });
}

struct Closing {
  ModelEngine engine;
  UseCount uses;
  Readiness quiet;
  Var<int> descriptor{1};
};

void leave(Closing& s) {
  if (!s.uses.leave()) return;
  FiberList woken;
  s.quiet.tell(woken);
  resume_all(std::move(woken));
}

// Nobody is inside when the descriptor is closed, and the closer comes to it.
void closed_while_in_use(Program& p) {
  auto& s = p.make<Closing>();
  s.engine.fiber(
      [](void* at) {
        auto& to = *static_cast<Closing*>(at);
        check(to.uses.close(), "nobody else closes it");
        for (;;) {
          const Readiness::Edges seen = to.quiet.edges();
          if (to.uses.is_quiet()) break;
          to.quiet.wait_after(seen);
        }
        to.descriptor.write(0);
      },
      &s);
  p.thread("worker", [&s] { s.engine.work(); });
  for (const char* name : {"reader", "writer"})
    p.thread(name, [&s] {
      if (!s.uses.enter()) return;
      check(s.descriptor.read() == 1, "closed under a call");
      leave(s);
    });
}

// A bed that keeps a wake until it is slept in.
struct ModelBed final : engine::Bed {
  Atomic<std::uint32_t> rung{0};
  void rouse() noexcept override {
    rung.store(1, std::memory_order_release);
    Sync::wake(rung, 1);
  }
};

struct Bedded {
  std::array<Fiber, 1> fibers;
  ModelBed bed;
  engine::Inbox inbox{&bed};
};

// A worker that sleeps elsewhere is found there.
void roused_in_bed(Program& p) {
  auto& s = p.make<Bedded>();
  p.thread("worker", [&s] {
    for (std::size_t taken = 0; taken < s.fibers.size();) {
      if (s.inbox.empty() && s.inbox.lie_down()) {
        if (s.inbox.move_to_bed()) {
          Sync::sleep(s.bed.rung, 0);
          s.bed.rung.store(0, std::memory_order_relaxed);
        }
        s.inbox.move_back();
        s.inbox.get_up();
      }
      FiberList all = s.inbox.take_all().fibers;
      while (all.pop_front()) ++taken;
    }
  });
  p.thread("sender", [&s] { s.inbox.push(s.fibers[0]); });
  p.thread("nudger", [&s] { s.inbox.nudge(); });
}

constexpr std::array kModels{
    CoreModel{"event wakes one", event_wakes_one},
    CoreModel{"two setters, one enqueue", two_setters_one_enqueue},
    CoreModel{"two rounds", two_rounds},
    CoreModel{"one set wakes all", one_set_wakes_all},
    CoreModel{"the last one woken destroys", last_one_woken_destroys},
    CoreModel{"two workers", two_workers},
    CoreModel{"one of two arms", one_of_two_arms},
    CoreModel{"cancel reaches a wait", cancel_reaches_a_wait},
    CoreModel{"cancel races a set", cancel_races_a_set, false},
    CoreModel{"cancel passes a shielded wait", cancel_passes_a_shielded_wait},
    CoreModel{"two nudges", two_nudges, false, Mode::bound, 1},
    CoreModel{"cancel reaches down the tree", cancel_reaches_down_the_tree},
    CoreModel{"cancel reaches two below", cancel_reaches_two_below, false, Mode::bound, 1},
    CoreModel{"rolls race a cancel", rolls_race_a_cancel},
    CoreModel{"rolls race each other", rolls_race_each_other},
    CoreModel{"stale ticket is refused", stale_ticket_is_refused},
    CoreModel{"one winner", one_winner},
    CoreModel{"thread waits for thread", thread_waits_for_thread},
    CoreModel{"join one child", join_one_child, false, Mode::bound, 3},
    CoreModel{"join two children", join_two_children, true, Mode::bound, 2},
    CoreModel{"inbox wakes its worker", inbox_wakes_its_worker},
    CoreModel{"nudge is not slept through", nudge_is_not_slept_through},
    CoreModel{"admit or refuse", admit_or_refuse},
    CoreModel{"ready while it drains", ready_while_it_drains},
    CoreModel{"closed while in use", closed_while_in_use},
    CoreModel{"roused in bed", roused_in_bed, true, Mode::bound, 3},
};

}  // namespace

std::span<const CoreModel> core_models() { return kModels; }

}  // namespace weft::model
