#include "lock_models.hpp"

#include "model_engine.hpp"

#include <weft/barrier.hpp>
#include <weft/cond_var.hpp>
#include <weft/core/cancel_scope.hpp>
#include <weft/core/thread.hpp>
#include <weft/event.hpp>
#include <weft/mutex.hpp>
#include <weft/once.hpp>
#include <weft/semaphore.hpp>
#include <weft/shared_mutex.hpp>

#include <array>
#include <mutex>

namespace weft::model {
namespace locks {  // the models of one program are compiled together
namespace {

// Made once per process, and never destroyed. Made in an execution, it would be that one's leak.
[[maybe_unused]] const ThreadIo& made_before = ThreadIo::get();

// A plain thread that does `body`: ThreadCarrier without its constructor's frame from the pool.
template <class Body>
void thread(Program& p, const char* name, Body body) {
  p.thread(name, [body] {
    Fiber* const frame = make<Fiber>();
    {
      ThreadCarrier carrier{*frame};
      thread_slot() = &carrier;
      body();
      thread_slot() = nullptr;
    }
    destroy(frame);
  });
}

// What a model consists of: fibers of one worker, in a scope that a thread cancels, and threads.
template <class State>
State& stage(Program& p) {
  auto& s = p.make<State>();
  s.engine.fiber([](void* at) { static_cast<State*>(at)->fiber(); }, &s);
  if constexpr (requires { s.second_fiber(); })
    s.engine.fiber([](void* at) { static_cast<State*>(at)->second_fiber(); }, &s);
  if constexpr (requires { s.third_fiber(); })
    s.engine.fiber([](void* at) { static_cast<State*>(at)->third_fiber(); }, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  return s;
}
template <class State>
State& cancelled_stage(Program& p) {
  State& s = stage<State>(p);
  p.thread("canceller", [&s] { s.scope.cancel(); });
  return s;
}

// Runs `f` inside `scope`. False: it was cancelled.
template <class F>
bool runs_in(CancelScope& scope, F f) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, scope};
    f();
    return true;
  } catch (const Cancelled&) {
    return false;
  }
}

// One thread tells another that it has come so far.
class Flag {
 public:
  void raise() { raised_.store(1, std::memory_order_release); }
  void await() const {
    while (raised_.load(std::memory_order_acquire) == 0) Sync::spin();
  }

 private:
  Atomic<std::uint32_t> raised_{0};
};

// ── mutex ───────────────────────────────────────────────────────────────────────────────────────

struct Guarded {
  Mutex mutex;
  Var<int> data{0};
  void add() {
    mutex.lock();
    data.write(data.read() + 1);
    mutex.unlock();
  }
};

// One may find it held, and parks or comes just in time.
void mutex_guards_data(Program& p) {
  auto& s = p.make<Guarded>();
  thread(p, "one", [&s] { s.add(); });
  thread(p, "two", [&s] { s.add(); });
  p.at_end([&s] { check(s.data.read() == 2, "both were alone"); });
}

// One comes again, and may take it from under the nose of the one it has woken; who lost once
// inherits.
void mutex_is_handed_over(Program& p) {
  auto& s = p.make<Guarded>();
  thread(p, "again and again", [&s] {
    s.add();
    s.add();
  });
  thread(p, "once", [&s] { s.add(); });
  p.at_end([&s] { check(s.data.read() == 3, "each was alone"); });
}

// Two fibers wait for what a thread holds.
struct ThreeWantIt : Guarded {
  ModelEngine engine;
  void fiber() { add(); }
  void second_fiber() { add(); }
};

void three_want_a_mutex(Program& p) {
  auto& s = stage<ThreeWantIt>(p);
  thread(p, "thread", [&s] { s.add(); });
  p.at_end([&s] { check(s.data.read() == 3, "each was alone"); });
}

// The last of two destroys it, while the unlock of the first may not have returned.
struct Mortal {
  Mutex* mutex = make<Mutex>();
  Var<int> left{2};
  void use() {
    mutex->lock();
    left.write(left.read() - 1);
    const bool last = left.read() == 0;
    mutex->unlock();
    if (last) destroy(mutex);
  }
};

void mutex_dies_with_its_last_holder(Program& p) {
  auto& s = p.make<Mortal>();
  thread(p, "one", [&s] { s.use(); });
  thread(p, "two", [&s] { s.use(); });
}

// A fiber waits for it as an arm; the thread that holds it unlocks while the fiber is cancelled.
// Whatever comes of that, the mutex is free afterwards.
struct ArmIsCancelled {
  ModelEngine engine;
  CancelScope scope{nullptr};
  Mutex* mutex = make<Mutex>();
  Flag held;
  bool destroys = false;

  void fiber() {
    held.await();
    const bool won = runs_in(scope, [this] {
      auto* const operation = make<Mutex::Acquire>(*mutex);
      try {
        wait(*operation);
      } catch (...) {
        destroy(operation);
        throw;
      }
      destroy(operation);
    });
    if (!won) mutex->lock();
    mutex->unlock();
    if (destroys) destroy(mutex);
  }
};

void cancel_against_unlock(Program& p) {
  auto& s = cancelled_stage<ArmIsCancelled>(p);
  thread(p, "holder", [&s] {
    s.mutex->lock();
    s.held.raise();
    s.mutex->unlock();
  });
  p.at_end([&s] { destroy(s.mutex); });
}

// Nobody is left in the queue for the unlock to choose, and the mutex dies at the next moment.
void mutex_dies_after_its_waiter_gave_up(Program& p) {
  auto& s = cancelled_stage<ArmIsCancelled>(p);
  s.destroys = true;
  thread(p, "holder", [&s] {
    s.mutex->lock();
    s.held.raise();
    s.mutex->unlock();
  });
}

// A timed lock is woken to try, and cancelled before it does; another waiter stands behind it.
struct WokenIsCancelled {
  ModelEngine engine;
  CancelScope scope{nullptr};
  Mutex mutex;
  Flag held;

  void fiber() {
    held.await();
    static_cast<void>(runs_in(scope, [this] {
      if (mutex.try_lock_until(Instant::max())) mutex.unlock();
    }));
  }
  void second_fiber() {
    mutex.lock();
    mutex.unlock();
  }
};

void woken_lock_is_cancelled(Program& p) {
  auto& s = cancelled_stage<WokenIsCancelled>(p);
  thread(p, "holder", [&s] {
    s.mutex.lock();
    s.held.raise();
    s.mutex.unlock();
  });
}

// ── semaphore ───────────────────────────────────────────────────────────────────────────────────

struct OnePermit {
  Semaphore semaphore{1};
  Var<int> data{0};
  void add() {
    semaphore.acquire();
    data.write(data.read() + 1);
    semaphore.release();
  }
  void add_as_arm() {
    auto acquire = semaphore.on_acquire();
    wait(acquire);
    data.write(data.read() + 1);
    semaphore.release();
  }
};

void permit_is_handed_over(Program& p) {
  auto& s = p.make<OnePermit>();
  thread(p, "twice", [&s] {
    s.add();
    s.add();
  });
  thread(p, "once", [&s] { s.add_as_arm(); });
  p.at_end([&s] {
    check(s.data.read() == 3, "each was alone");
    check(s.semaphore.available() == 1, "the permit is back");
  });
}

// One permit, and a waiter that may be cancelled: it has it, or it can be had.
struct PermitOrCancel {
  ModelEngine engine;
  CancelScope scope{nullptr};
  Semaphore* semaphore = make<Semaphore>(0U);

  void fiber() {
    if (!runs_in(scope, [this] { semaphore->acquire(); })) semaphore->acquire();
    check(semaphore->available() == 0, "there was one");
    destroy(semaphore);
  }
};

void permit_against_cancel(Program& p) {
  auto& s = cancelled_stage<PermitOrCancel>(p);
  p.thread("releaser", [&s] { s.semaphore->release(); });
}

// ── condition variable ──────────────────────────────────────────────────────────────────────────

struct Item {
  Mutex mutex;
  CondVar came;
  Var<bool> here{false};

  void put() {
    {
      const std::scoped_lock lock{mutex};
      here.write(true);
    }
    came.notify_one();
  }
  void take() {
    std::unique_lock lock{mutex};
    came.wait(lock, [this] { return here.read(); });
    here.write(false);
  }
};

void notification_against_wait(Program& p) {
  auto& s = p.make<Item>();
  thread(p, "waiter", [&s] { s.take(); });
  thread(p, "notifier", [&s] { s.put(); });
  p.at_end([&s] { check(!s.here.read(), "it was taken"); });
}

// One notification, and two who wait. Who gets it passes it on, but for the last; so if it is given
// to one that was cancelled, the other waits for ever.
struct NotifyOrCancel {
  ModelEngine engine;
  CancelScope scope{nullptr};
  Mutex mutex;
  CondVar changed;
  Flag both_wait;

  void wait_once() {
    std::unique_lock lock{mutex};
    changed.wait(lock);
  }
  void fiber() {
    if (runs_in(scope, [this] { wait_once(); })) changed.notify_one();
  }
  void second_fiber() { wait_once(); }
  void third_fiber() { both_wait.raise(); }  // runs when the others have left the one worker
};

void notification_against_cancel(Program& p) {
  auto& s = cancelled_stage<NotifyOrCancel>(p);
  p.thread("notifier", [&s] {
    s.both_wait.await();
    s.changed.notify_one();
  });
}

// ── shared mutex ────────────────────────────────────────────────────────────────────────────────

struct Shared {
  SharedMutex mutex;
  Var<int> data{0};
};

void readers_and_a_writer(Program& p) {
  auto& s = p.make<Shared>();
  for (const char* who : {"reader 1", "reader 2"})
    thread(p, who, [&s] {
      s.mutex.lock_shared();
      static_cast<void>(s.data.read());
      s.mutex.unlock_shared();
    });
  thread(p, "writer", [&s] {
    s.mutex.lock();
    s.data.write(1);
    s.mutex.unlock();
  });
}

// The fiber reads, and then wants to write, which only a cancel can end; a reader stands behind it.
// That one must get in while the fiber goes on reading.
struct WriterGivesUp {
  ModelEngine engine;
  CancelScope scope{nullptr};
  SharedMutex mutex;
  Flag reading;
  Event both;

  void fiber() {
    mutex.lock_shared();
    reading.raise();
    const bool won = runs_in(scope, [this] {
      auto operation = mutex.on_lock();
      wait(operation);
    });
    check(!won, "it is read");
    both.wait();
    mutex.unlock_shared();
  }
};

void writer_gives_up(Program& p) {
  auto& s = cancelled_stage<WriterGivesUp>(p);
  thread(p, "second reader", [&s] {
    s.reading.await();
    s.mutex.lock_shared();
    s.both.set();
    s.mutex.unlock_shared();
  });
}

// ── once, barrier ───────────────────────────────────────────────────────────────────────────────

struct Trouble {};

// The first call fails while the second waits, and may be cancelled.
struct TurnOrCancel {
  ModelEngine engine;
  CancelScope scope{nullptr};
  Once once;
  Atomic<int> runs{0};

  void succeed() {
    once.call([this] { runs.fetch_add(1, std::memory_order_relaxed); });
  }
  void fail() {
    try {
      once.call([] { throw Trouble{}; });
    } catch (const Trouble&) {
    }
  }
  void fiber() {
    if (!runs_in(scope, [this] { succeed(); })) succeed();
    check(once.done(), "this call or another has done it");
  }
};

void turn_against_cancel(Program& p) {
  auto& s = cancelled_stage<TurnOrCancel>(p);
  thread(p, "fails", [&s] { s.fail(); });
  p.at_end([&s] { check(s.runs.load(std::memory_order_relaxed) == 1, "once"); });
}

struct ArrivalOrCancel {
  ModelEngine engine;
  CancelScope scope{nullptr};
  Barrier barrier{2};
  Atomic<int> passed{0};

  void pass() {
    barrier.arrive_and_wait();
    passed.fetch_add(1, std::memory_order_relaxed);
  }
  void fiber() {
    if (!runs_in(scope, [this] { pass(); })) pass();
  }
};

// Who was cancelled comes again; the two meet once.
void arrival_against_cancel(Program& p) {
  auto& s = cancelled_stage<ArrivalOrCancel>(p);
  thread(p, "other", [&s] { s.pass(); });
  p.at_end([&s] { check(s.passed.load(std::memory_order_relaxed) == 2, "both are through"); });
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────

constexpr CoreModel bounded(const char* name, void (*setup)(Program&), unsigned bound = 2) {
  return {name, setup, true, Mode::bound, bound};
}

constexpr std::array kLockModels{
    CoreModel{"mutex guards data", mutex_guards_data},
    bounded("mutex is handed over", mutex_is_handed_over, 3),
    bounded("three want a mutex", three_want_a_mutex),
    CoreModel{"mutex dies with its last holder", mutex_dies_with_its_last_holder},
    bounded("cancel against unlock", cancel_against_unlock),
    bounded("mutex dies after its waiter gave up", mutex_dies_after_its_waiter_gave_up),
    bounded("woken lock is cancelled", woken_lock_is_cancelled),
    bounded("permit is handed over", permit_is_handed_over, 3),
    bounded("permit against cancel", permit_against_cancel),
    bounded("notification against wait", notification_against_wait, 3),
    bounded("notification against cancel", notification_against_cancel, 1),
    bounded("readers and a writer", readers_and_a_writer),
    bounded("writer gives up", writer_gives_up, 1),
    bounded("turn against cancel", turn_against_cancel),
    bounded("arrival against cancel", arrival_against_cancel),
};

}  // namespace
}  // namespace locks

std::span<const CoreModel> lock_models() { return locks::kLockModels; }

}  // namespace weft::model
