// A fiber that goes on under another thread sees that thread's slot. Built twice: with the
// functions that look compiled into the program, and as a shared library with -fPIC.
#include "slot_victim.hpp"

#include <weft/arch/thread_slot.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/event.hpp>

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>

namespace {

using weft::testing::BareFiber;
using weft::testing::begin_bare;
using weft::testing::TwoLooks;
using Look = TwoLooks (*)(BareFiber&, BareFiber&) noexcept;

void on_a_thread(const std::function<void()>& f) { std::thread{f}.join(); }

// ── migration ───────────────────────────────────────────────────────────────────────────────────

// A fiber that is resumed by another thread each time. `home` is whoever resumed it last.
struct Migrant {
  explicit Migrant(Look look_in) : look(look_in), fiber(&run) {}

  static void run(void* who, std::uintptr_t);

  void resume_here() {
    BareFiber here;
    home = &here;
    switch_bare(here, fiber, reinterpret_cast<std::uintptr_t>(this));
  }

  Look look;
  BareFiber fiber;
  BareFiber* home = nullptr;
  TwoLooks seen;
};

void Migrant::run(void* who, std::uintptr_t how) {
  Migrant& self = *reinterpret_cast<Migrant*>(how);
  begin_bare(self.fiber, who);
  for (;;) self.seen = self.look(self.fiber, *self.home);
}

// Resumes the migrant on one thread after another, and compares what it saw with what each had.
void expect_to_follow(Look look, const std::function<const void*()>& own) {
  Migrant one{look};
  const void* before = nullptr;
  for (int round = 0; round < 100; ++round) {
    on_a_thread([&] {
      const void* const mine = own();
      one.resume_here();
      if (round > 0) {
        EXPECT_EQ(one.seen.before, before);
        EXPECT_EQ(one.seen.after, mine);
      }
      before = mine;
      weft::arch::set_thread_slot(nullptr);
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ThreadSlot, IsReadAgainAfterASwitch) {
  int marks[100] = {};
  int* next = marks;
  expect_to_follow(&weft::testing::look_at_slot, [&] {
    weft::arch::set_thread_slot(++next);
    return next;
  });
}

// The two threads live at the same time, so that their variables cannot share an address.
template <class Own>
TwoLooks migrate_once(Look look, Own own, const void*& first, const void*& second) {
  Migrant one{look};
  std::atomic<int> step{0};
  std::thread a{[&] {
    first = own();
    one.resume_here();
    step.store(1);
    step.notify_all();
    step.wait(1);
  }};
  std::thread b{[&] {
    step.wait(0);
    second = own();
    one.resume_here();
    step.store(2);
    step.notify_all();
  }};
  a.join();
  b.join();
  return one.seen;
}

TEST(ThreadSlot, CarrierIsTheNewThreads) {
  const void* first = nullptr;
  const void* second = nullptr;
  const auto own = []() -> const void* { return &weft::Carrier::here(); };
  const TwoLooks seen = migrate_once(&weft::testing::look_at_carrier, own, first, second);
  EXPECT_NE(first, second);
  EXPECT_EQ(seen.before, first);
  EXPECT_EQ(seen.after, second);
}

TEST(ThreadSlot, CurrentFiberIsTheNewThreads) {
  const void* first = nullptr;
  const void* second = nullptr;
  const auto own = []() -> const void* { return &weft::Fiber::current(); };
  const TwoLooks seen = migrate_once(&weft::testing::look_at_fiber, own, first, second);
  EXPECT_NE(first, second);
  EXPECT_EQ(seen.before, first);
  EXPECT_EQ(seen.after, second);
}

// Why all this: an ordinary thread_local is taken for the one of the thread that was left. Not a
// promise of weft's, so a compiler that reads it twice is fine too.
TEST(ThreadSlot, PlainThreadLocalMayBeTheOldThreads) {
  const void* first = nullptr;
  const void* second = nullptr;
  const TwoLooks seen = migrate_once(&weft::testing::look_at_thread_local,
                                     &weft::testing::thread_local_here, first, second);
  EXPECT_NE(first, second);
  if (seen.before == first && seen.after == second)
    GTEST_SKIP() << "built like this, the variable is looked up twice";
  EXPECT_EQ(seen.before, seen.after) << "looked up once, but then it is one thread's";
}

// ── a thread's life ─────────────────────────────────────────────────────────────────────────────

TEST(ThreadSlot, IsEmptyOnANewThread) {
  on_a_thread([] {
    EXPECT_EQ(weft::arch::thread_slot(), nullptr);
    int mark = 0;
    weft::arch::set_thread_slot(&mark);
    EXPECT_EQ(weft::arch::thread_slot(), &mark);
    on_a_thread([] { EXPECT_EQ(weft::arch::thread_slot(), nullptr); });
    EXPECT_EQ(weft::arch::thread_slot(), &mark);
    weft::arch::set_thread_slot(nullptr);
  });
}

TEST(ThreadSlot, ExitFunctionIsCalledOnceAndAtTheEnd) {
  static int calls = 0;
  static void* with = nullptr;
  static std::thread::id by;
  calls = 0;
  int object = 0;
  std::thread::id thread;
  on_a_thread([&] {
    thread = std::this_thread::get_id();
    weft::arch::at_thread_exit(
        [](void* at) {
          ++calls;
          with = at;
          by = std::this_thread::get_id();
        },
        &object);
    EXPECT_EQ(calls, 0) << "the thread has not ended yet";
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(with, &object);
  EXPECT_EQ(by, thread);
}

TEST(ThreadSlot, CarrierStaysTheSameWhileTheThreadLives) {
  on_a_thread([] {
    weft::Carrier& mine = weft::Carrier::here();
    EXPECT_EQ(weft::arch::thread_slot(), &mine);
    weft::Event set;
    set.set();
    set.wait();
    EXPECT_EQ(&weft::Carrier::here(), &mine);
    EXPECT_EQ(mine.current, &weft::Fiber::current());
    EXPECT_TRUE(mine.current->is_thread());
    on_a_thread([&] { EXPECT_NE(&weft::Carrier::here(), &mine); });
  });
}

// Destructors of the program's own may run before and after weft's, and may use weft.
TEST(ThreadSlot, EndingThreadMayMeetWeftAgain) {
  static int met = 0;
  met = 0;
  struct UsesWeft {
    ~UsesWeft() { met += weft::Fiber::current().is_thread(); }
  };
  pthread_key_t key{};
  const auto use_weft = [](void*) { met += weft::Fiber::current().is_thread(); };
  on_a_thread([&] {
    thread_local UsesWeft at_end;
    static_cast<void>(&at_end);
    EXPECT_TRUE(weft::Fiber::current().is_thread());
    ASSERT_EQ(::pthread_key_create(&key, use_weft), 0);
    ::pthread_setspecific(key, &met);
  });
  ::pthread_key_delete(key);
  EXPECT_EQ(met, 2);
}

// A thread's frame goes back to the pool when it ends: else threads that come and go would leak.
TEST(ThreadSlot, FramesOfThreadsThatEndedAreUsedAgain) {
  const auto meet_weft = [] {
    on_a_thread([] { EXPECT_TRUE(weft::Fiber::current().is_thread()); });
  };
  meet_weft();
  const std::uint64_t made = weft::frames_made();
  for (int i = 0; i < 500; ++i) meet_weft();
  EXPECT_LE(weft::frames_made(), made + 256);
}

}  // namespace
