// blocking(): calls that block their thread, made where that hurts nobody.
#include <weft/blocking.hpp>

#include <weft/arch/fault.hpp>
#include <weft/channel.hpp>
#include <weft/core/error.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::let_others_block;
using testing::on_workers;

std::size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks{"/proc/self/task"};
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// Blocks its thread until somebody opens it.
class Door {
 public:
  void open() { latch_.count_down(); }
  void pass() { latch_.wait(); }

 private:
  std::latch latch_{1};
};

// ── what comes back ─────────────────────────────────────────────────────────────────────────────

TEST(Blocking, ReturnsWhatTheCallReturns) {
  on_workers([] {
    EXPECT_EQ(blocking([] { return 42; }), 42);
    EXPECT_EQ(*blocking([] { return std::make_unique<std::string>("moved"); }), "moved");
    int calls = 0;
    blocking([&] { ++calls; });
    EXPECT_EQ(calls, 1);
    // What is given by reference is not copied.
    struct Counter {
      int count = 0;
      int operator()() & { return ++count; }
      int operator()() && { return -1; }
    } counter;
    EXPECT_EQ(blocking(counter), 1);
    EXPECT_EQ(counter.count, 1);
    EXPECT_EQ(blocking(Counter{}), -1) << "an rvalue is called as one";
  });
}

TEST(Blocking, ThrowsWhatTheCallThrows) {
  on_workers([] {
    EXPECT_THROW(blocking([]() -> int { throw std::domain_error("no"); }), std::domain_error);
    EXPECT_EQ(blocking([] { return 1; }), 1) << "and the thread lives on";
  });
}

TEST(Blocking, IsMadeOnAThreadOfItsOwn) {
  FiberIo{{.workers = 1}}.run([] {
    const std::thread::id worker = std::this_thread::get_id();
    EXPECT_NE(blocking([] { return std::this_thread::get_id(); }), worker);
    EXPECT_EQ(std::this_thread::get_id(), worker);
  });
}

TEST(Blocking, WithoutThreadsForItIsMadeHere) {
  EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), std::this_thread::get_id());
  SimIo{}.run([] {
    const std::thread::id here = std::this_thread::get_id();
    EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), here);
    EXPECT_THROW(blocking([] { throw std::domain_error("no"); }), std::domain_error);
  });
}

// ── the others go on ────────────────────────────────────────────────────────────────────────────

// The only worker would wait for ever, if it were the one that is blocked.
TEST(Blocking, TheWorkerRunsOtherFibersMeanwhile) {
  FiberIo{{.workers = 1}}.run([] {
    Door door;
    int steps = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] { blocking([&] { door.pass(); }); });
      n.spawn([&] {
        for (; steps < 100; ++steps) this_fiber::yield();
        door.open();
      });
    });
    EXPECT_EQ(steps, 100);
  });
}

TEST(Blocking, TheCallMayUseChannelsAsAThreadMay) {
  on_workers([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        blocking([&] {
          for (int i = 0; i < 10; ++i) EXPECT_TRUE(ch.tx.send(i));
        });
        ch.tx.close();
      });
      int sum = 0;
      for (int v : ch.rx) sum += v;
      EXPECT_EQ(sum, 45);
    });
  });
}

TEST(Blocking, NoMoreAtATimeThanAllowed) {
  FiberIo{{.workers = 2, .max_blocking = 3}}.run([] {
    std::atomic<int> now = 0;
    std::atomic<int> most = 0;
    std::atomic<int> made = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 200; ++i)
        n.spawn([&] {
          blocking([&] {
            const int here = ++now;
            for (int seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {}
            std::this_thread::yield();
            --now;
            ++made;
          });
        });
    });
    EXPECT_EQ(made, 200);
    EXPECT_LE(most, 3);
  });
}

// Threads are reused, started when needed, and gone with the run.
TEST(Blocking, LeavesNoThreadBehind) {
  const std::size_t before = threads_of_this_process();
  FiberIo io{{.workers = 2, .max_blocking = 8}};
  for (int run = 0; run < 5; ++run) {
    io.run([] {
      nursery([](Nursery& n) {
        for (int i = 0; i < 50; ++i) n.spawn([] { blocking([] { std::this_thread::yield(); }); });
      });
    });
    // The kernel removes a thread's entry a moment after the thread can be joined.
    while (threads_of_this_process() > before) std::this_thread::yield();
  }
}

TEST(Blocking, ManyCallsFromManyWorkers) {
  on_workers({1U, 4U, 16U}, [] {
    std::atomic<long> sum = 0;
    nursery([&](Nursery& n) {
      for (long i = 0; i < 500; ++i)
        n.spawn([&sum, i] {
          for (int k = 0; k < 4; ++k) sum += blocking([i] { return i; });
        });
    });
    EXPECT_EQ(sum, 4 * (499L * 500 / 2));
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

// One thread, and it is taken: the second call is dropped when its caller is cancelled.
TEST(Blocking, CancelledBeforeItBeganItIsNotMade) {
  FiberIo{{.workers = 1, .max_blocking = 1}}.run([] {
    Door door;
    std::atomic<bool> made = false;
    bool unwound = false;
    nursery([&](Nursery& outer) {
      outer.spawn([&] { blocking([&] { door.pass(); }); });
      let_others_block();
      nursery([&](Nursery& n) {
        n.spawn([&] {
          try {
            blocking([&] { made = true; });
          } catch (const Cancelled&) {
            unwound = true;
            throw;
          }
        });
        let_others_block();
        n.cancel();
      });
      door.open();
    });
    EXPECT_TRUE(unwound);
    EXPECT_FALSE(made);
  });
}

// It refers to what the caller owns: the caller stays, and has the result. The next wait throws.
TEST(Blocking, CancelledWhileItRunsItIsWaitedFor) {
  on_workers([] {
    Door began;
    Door door;
    std::atomic<int> result = 0;
    std::atomic<bool> went_on = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        int local = 0;
        result = blocking([&] {
          began.open();
          door.pass();
          return local += 7;
        });
        went_on = true;
        this_fiber::checkpoint();
        ADD_FAILURE() << "the cancel was lost";
      });
      blocking([&] { began.pass(); });
      n.cancel();
      shielded([] { let_others_block(); });
      EXPECT_FALSE(went_on) << "the call is not over";
      door.open();
    });
    EXPECT_EQ(result, 7);
  });
}

TEST(Blocking, InACancelledScopeNothingIsMade) {
  on_workers([] {
    bool made = false;
    nursery([&](Nursery& n) {
      n.cancel();
      blocking([&] { made = true; });
    });
    EXPECT_FALSE(made);
  });
}

// Timeouts and calls of all lengths, against each other: nothing is made twice, nobody is lost.
TEST(Blocking, TimeoutsRaceCalls) {
  FiberIo{{.workers = 4, .max_blocking = 2}}.run([] {
    std::atomic<int> made = 0;
    std::atomic<int> returned = 0;
    std::atomic<int> given_up = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 300; ++i)
        n.spawn([&, i] {
          const auto in_time = timeout(1us * (i % 50), [&] {
            blocking([&] { ++made; });
            ++returned;
            return true;
          });
          if (!in_time) ++given_up;
        });
    });
    EXPECT_EQ(made, returned);
    EXPECT_EQ(made + given_up, 300);
  });
}

// ── deadlocks ───────────────────────────────────────────────────────────────────────────────────

// Everybody waits, but a call is under way: that is no deadlock. When it is over, it is one.
TEST(Blocking, ACallUnderWayIsNoDeadlockAndItsEndMayBe) {
  for (const unsigned workers : {1U, 2U}) {
    FiberIo io{{.workers = workers, .on_deadlock = OnDeadlock::raise}};
    io.run([] {
      nursery([](Nursery& n) {
        n.spawn([] {
          EXPECT_EQ(blocking([] {
                      std::this_thread::sleep_for(30ms);  // longer than the engine looks twice
                      return 3;
                    }),
                    3);
        });
        EXPECT_THROW(Event{}.wait(), Deadlock);
      });
    });
  }
}

// ── no thread to be had ─────────────────────────────────────────────────────────────────────────

TEST(Blocking, WithoutAThreadTheWorkerIsBlockedInstead) {
  using arch::fault::Site;
  FiberIo io{{.workers = 1}};
  io.run([] {
    const arch::fault::Scoped refused{Site::pthread_create, {.every = 1, .error = EAGAIN}};
    const std::thread::id worker = std::this_thread::get_id();
    EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), worker);
    std::atomic<int> made = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 10; ++i) n.spawn([&] { blocking([&] { ++made; }); });
    });
    EXPECT_EQ(made, 10);
  });
}

}  // namespace
}  // namespace weft
