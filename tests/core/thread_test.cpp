#include <weft/core/thread.hpp>

#include <weft/core/cancel_scope.hpp>
#include <weft/core/closure.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/frames.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::frames_in_use;
using ::testing::HasSubstr;

void on_a_thread(const std::function<void()>& f) { std::thread{f}.join(); }

// Leaves the pool full of frames that have been fibers, with names, ids and scopes of their own.
void use_many_frames() {
  FiberIo io{{.workers = 1}};
  io.run([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 600; ++i)
        n.spawn(std::string{"used"}, [] { this_fiber::yield(); });
    });
  });
}

// ── what a thread knows of itself ───────────────────────────────────────────────────────────────

TEST(Thread, IsAFiberWithoutIdOrName) {
  on_a_thread([] {
    EXPECT_EQ(this_fiber::id(), 0U);
    EXPECT_EQ(this_fiber::name(), "");
    EXPECT_EQ(this_fiber::stack_remaining(), 0U);
    EXPECT_FALSE(this_fiber::cancelled());
    EXPECT_TRUE(Fiber::current().is_thread());
    EXPECT_EQ(Fiber::current().io, &ThreadIo::get());
    EXPECT_EQ(ThreadIo::get().kind(), "a plain thread");
    this_fiber::yield();
    this_fiber::checkpoint();
    this_fiber::set_name("mine");
    EXPECT_EQ(this_fiber::name(), "mine");
    this_fiber::set_name(std::string{"a name of my own"});
    EXPECT_EQ(this_fiber::name(), "a name of my own");
  });
}

TEST(Thread, IdIsZeroOnARecycledFrame) {
  use_many_frames();
  for (int i = 0; i < 20; ++i)
    on_a_thread([] {
      EXPECT_EQ(this_fiber::id(), 0U);
      EXPECT_EQ(this_fiber::name(), "");
      EXPECT_EQ(Fiber::current().scope, nullptr);
      EXPECT_FALSE(this_fiber::cancelled());
    });
}

TEST(Thread, EachHasAFrameOfItsOwnAndGivesItBack) {
  on_a_thread([] { this_fiber::yield(); });
  const std::size_t in_use = frames_in_use();
  const std::uint64_t made = frames_made();
  for (int i = 0; i < 200; ++i)
    on_a_thread([] {
      this_fiber::set_name(std::string{"dies with the thread"});
      Event event;
      event.set();
      event.wait();
    });
  EXPECT_EQ(frames_in_use(), in_use);
  EXPECT_EQ(frames_made(), made);
}

TEST(Thread, MayUseWeftInTheLastDestructorsOfItsLife) {
  static Event* last = nullptr;
  Event event;
  last = &event;
  struct Late {
    ~Late() {
      last->set();
      last->wait();
    }
  };
  const std::size_t in_use = frames_in_use();
  for (int i = 0; i < 3; ++i)
    on_a_thread([] {
      thread_local Late late;  // made before weft knows the thread, so destroyed after
      static_cast<void>(&late);
      EXPECT_EQ(this_fiber::id(), 0U);
    });
  EXPECT_TRUE(event.is_set());
  EXPECT_EQ(frames_in_use(), in_use) << "no frame was lost";
}

TEST(Thread, ClockIsMonotonic) {
  on_a_thread([] {
    const Instant before = Clock::now();
    EXPECT_LE(before, Clock::now());
  });
}

// ── what it must not do ─────────────────────────────────────────────────────────────────────────

template <class F>
std::string logic_error_of(F f) {
  try {
    f();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "no std::logic_error";
}

TEST(Thread, UseOutsideAnEngineSaysWhatToDo) {
  on_a_thread([] {
    const auto tells = AllOf(HasSubstr("weft"), HasSubstr("not inside an engine"),
                             HasSubstr("call weft::run() or FiberIo::run() first"));
    EXPECT_THAT(logic_error_of([] { static_cast<void>(io()); }), tells);
    EXPECT_THAT(logic_error_of([] { nursery([](Nursery&) {}); }), tells);
    EXPECT_THAT(logic_error_of([] { nursery([](Nursery&) { return 1; }); }), tells);
    EXPECT_THAT(logic_error_of([] { settle(); }), tells);
  });
}

class Lonely final : public Home {
 public:
  Lonely() : Home(nullptr, nullptr) {}
  void child_failed(Fiber&, std::exception_ptr) noexcept override {}
  void child_cancelled() noexcept override {}
  void children_ended(std::size_t) noexcept override {}
  [[nodiscard]] std::string_view name() const noexcept override { return "lonely"; }
  [[nodiscard]] NurseryState state() const noexcept override { return NurseryState::open; }
};

TEST(Thread, AFiberOnAThreadIsRefusedAndGivenBack) {
  on_a_thread([] {
    const std::size_t in_use = frames_in_use();
    Lonely home;
    const auto captured = std::make_shared<int>(1);
    Fiber& fiber = make_fiber(ThreadIo::get(), home, [captured] {}, Site{});
    EXPECT_THAT(logic_error_of([&] { ThreadIo::get().start(fiber); }),
                HasSubstr("call weft::run() or FiberIo::run() first"));
    discard_fiber(fiber);
    EXPECT_EQ(captured.use_count(), 1);
    EXPECT_LE(frames_in_use(), in_use + 1) << "the thread's own";
  });
}

// ── waiting ─────────────────────────────────────────────────────────────────────────────────────

TEST(Thread, WaitsForAThread) {
  Event ping, pong;
  std::thread other{[&] {
    for (int i = 0; i < 200; ++i) {
      ping.wait();
      ping.reset();
      pong.set();
    }
  }};
  for (int i = 0; i < 200; ++i) {
    ping.set();
    pong.wait();
    pong.reset();
  }
  other.join();
}

TEST(Thread, WaitsForAFiberAndWakesOne) {
  Event to_fiber, to_thread;
  std::thread thread{[&] {
    to_fiber.set();
    to_thread.wait();
  }};
  FiberIo io{{.workers = 4}};
  io.run([&] {
    to_fiber.wait();
    to_thread.set();
  });
  thread.join();
}

TEST(Thread, WaitsWithSeveralArms) {
  Event a, b, c;
  std::thread thread{[&] {
    for (int i = 0; i < 3; ++i) {
      auto on_a = a.on_set();
      auto on_b = b.on_set();
      auto on_c = c.on_set();
      Waitable* const arms[] = {&on_a, &on_b, &on_c};
      const std::size_t won = wait(std::span<Waitable* const>{arms});
      EXPECT_EQ(won, 1U);
      b.reset();
      c.set();
      a.wait();
      a.reset();
      c.reset();
    }
  }};
  for (int i = 0; i < 3; ++i) {
    b.set();
    c.wait();
    a.set();
    while (c.is_set()) std::this_thread::yield();
  }
  thread.join();
}

TEST(Thread, SleepsAtLeastAsLongAsAsked) {
  on_a_thread([] {
    const Instant before = Clock::now();
    sleep_for(2ms);
    EXPECT_GE(Clock::now() - before, 2ms);
    sleep_for(0ms);
    sleep_for(-5h);
    sleep_until(Instant::min());
  });
}

TEST(Thread, TheSoonestOfItsTimersEndsTheWait) {
  on_a_thread([] {
    const Instant now = Clock::now();
    Alarm late{now + 1h}, soon{now + 1ms}, later{now + 2h}, endless{Instant::max()};
    Waitable* const arms[] = {&late, &soon, &later, &endless};
    EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 1U);
    EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 1U) << "and it stays over";
    Alarm equal_a{now}, equal_b{now};
    Waitable* const equal[] = {&equal_a, &equal_b};
    EXPECT_EQ(wait(std::span<Waitable* const>{equal}), 0U);
  });
}

TEST(Thread, AnEventBeatsATimerThatIsFarAway) {
  Event event;
  std::thread thread{[&] {
    auto on_event = event.on_set();
    Alarm far{Clock::now() + 1h};
    Waitable* const arms[] = {&far, &on_event};
    EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 1U);
  }};
  event.set();
  thread.join();
}

TEST(Thread, CanBeCancelledInAScopeOfItsOwn) {
  CancelScope scope{nullptr};
  Event entered_scope;
  std::vector<std::string> order;
  std::thread thread{[&] {
    {
      const Entered entered{Fiber::current(), scope};
      entered_scope.set();
      EXPECT_THROW(Event{}.wait(), Cancelled);
      EXPECT_THROW(Event{}.wait(), Cancelled) << "level-triggered";
      EXPECT_THROW(this_fiber::checkpoint(), Cancelled);
      EXPECT_TRUE(this_fiber::cancelled());
      order.emplace_back("cancelled");
    }
    EXPECT_FALSE(this_fiber::cancelled());
    Event event;
    event.set();
    event.wait();
    order.emplace_back("free again");
  }};
  entered_scope.wait();
  scope.cancel();
  thread.join();
  EXPECT_THAT(order, ElementsAre("cancelled", "free again"));
}

TEST(Thread, CatchesAndWaitsInAnyOrder) {
  Event event;
  std::thread thread{[&] {
    try {
      throw 5;
    } catch (int) {
      event.wait();
      EXPECT_THROW(throw, int);
      EXPECT_NE(std::current_exception(), nullptr);
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  }};
  event.set();
  thread.join();
}

TEST(Thread, ManyWaitForOneEvent) {
  constexpr int kThreads = 16;
  Event event;
  std::vector<std::thread> threads;
  std::vector<int> woken(kThreads, 0);
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      event.wait();
      woken[std::size_t(i)] = 1;
    });
  event.set();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(woken, ::testing::Each(1));
}

// The thread that runs an engine is a plain thread again when run() returns.
TEST(Thread, IsItselfAgainAfterRun) {
  on_a_thread([] {
    this_fiber::set_name("thread");
    Fiber& before = Fiber::current();
    FiberIo io{{.workers = 4}};
    io.run([&] {
      EXPECT_EQ(this_fiber::name(), "main");
      EXPECT_NE(&Fiber::current(), &before);
    });
    EXPECT_EQ(&Fiber::current(), &before);
    EXPECT_EQ(this_fiber::name(), "thread");
    EXPECT_THROW(io.run([] { throw 1; }), int);
    EXPECT_EQ(&Fiber::current(), &before);
    EXPECT_THROW(static_cast<void>(weft::io()), std::logic_error);
  });
}

TEST(Thread, HasRandomNumbersOfItsOwn) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 3; ++i)
    on_a_thread([&] {
      for (int k = 0; k < 100; ++k) seen.insert(Fiber::current().io->random());
    });
  EXPECT_EQ(seen.size(), 300U);
}

}  // namespace
}  // namespace weft
