// Engines that are stopped in the middle of everything, at any moment, hundreds of times; nothing
// may be left behind.
#include <weft/blocking.hpp>
#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/mutex.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/semaphore.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <weft/arch/sanitizer.hpp>

#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <support/footprint.hpp>
#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::descriptors_now;
using testing::mappings_now;
using testing::scaled;
using testing::threads_in_the_end;
using testing::threads_now;

constexpr bool kSanitized = arch::kAsan || arch::kTsan;

// Everything that fibers hold, send and leave on their stacks is one of these.
class Thing {
 public:
  Thing() noexcept { ++alive; }
  Thing(Thing&&) noexcept { ++alive; }
  Thing(const Thing&) noexcept { ++alive; }
  Thing& operator=(Thing&&) noexcept = default;
  Thing& operator=(const Thing&) noexcept = default;
  ~Thing() { --alive; }

  static inline std::atomic<std::int64_t> alive{0};
};

struct Trouble : std::runtime_error {
  Trouble() : std::runtime_error{"in flight"} {}
};

// Who stops the run, and after how many steps of the load.
struct Plan {
  enum Who { thread, fiber, failure } who;
  std::uint32_t steps;
};

// What keeps an engine busy: every kind of wait, spawns, timers, calls that block.
class Load {
 public:
  Load(FiberIo& io, const Plan& plan) : io_(io), plan_(plan) {}

  void run() {
    const Thing here;
    Semaphore places{3};
    Mutex mutex;
    Event never{"never"};
    Channel<Thing> full{2};
    Channel<Thing> busy{4};
    Channel<Thing> silent;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&, held = Thing{}] {
          while (full.tx.send(Thing{})) step();
        });
      for (int i = 0; i < 4; ++i) {
        n.spawn([&, held = Thing{}] {
          while (busy.tx.send(Thing{})) step();
        });
        n.spawn([&, held = Thing{}] {
          while (busy.rx.recv()) step();
        });
        n.spawn([&, held = Thing{}] {
          for (;; step()) {
            const std::scoped_lock lock{mutex};
            this_fiber::yield();
          }
        });
        n.spawn([&, i, held = Thing{}] {
          for (;; step()) {
            const Semaphore::Permit permit = places.permit();
            sleep_for(std::chrono::microseconds{i});
          }
        });
        n.spawn([&, held = Thing{}] {
          for (;; step())
            select(silent.rx.on_recv([](std::optional<Thing>) {}),
                   busy.rx.on_recv([](std::optional<Thing>) {}), after(50us, [] {}));
        });
        n.spawn([&, held = Thing{}] {
          for (;; step()) blocking([inner = Thing{}] { std::this_thread::yield(); });
        });
        n.spawn([&, held = Thing{}] {
          for (;; step()) timeout(20us, [&] { never.wait(); });
        });
        n.spawn([&, held = Thing{}] { tree(1'000'000); });
      }
      n.spawn([&, held = Thing{}] { sleep_for(1h); });
      n.spawn([&, held = Thing{}] { shielded([&] { sleep_for(100us); }); });
      never.wait();
    });
  }

  [[nodiscard]] bool reached() const noexcept { return steps_ >= plan_.steps; }

 private:
  // Spawns without end, so that there are always some that have not begun.
  void tree(int depth) {
    step();
    if (depth == 0) return;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i) n.spawn([this, held = Thing{}] { tree(0); });
      this_fiber::yield();
    });
    tree_again(depth - 1);
  }
  void tree_again(int depth) {
    nursery([&](Nursery& n) {
      for (; depth > 0; --depth) {
        n.spawn([this, held = Thing{}] { step(); });
        if (depth % 64 == 0) this_fiber::yield();
      }
    });
  }

  void step() {
    if (++steps_ != plan_.steps) return;
    if (plan_.who == Plan::fiber) {
      EXPECT_TRUE(io_.stop());
    }
    if (plan_.who == Plan::failure) {
      struct Stopper {  // the stop meets an exception in flight
        FiberIo& io;
        ~Stopper() { EXPECT_TRUE(io.stop()); }
      } stopper{io_};
      throw Trouble{};
    }
  }

  FiberIo& io_;
  const Plan plan_;
  std::atomic<std::uint32_t> steps_{0};
};

// A run from beginning to end.
void run_and_stop(FiberIo& io, const Plan& plan) {
  Load load{io, plan};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  if (plan.who == Plan::thread)
    threads.emplace_back([&] {
      while (!load.reached()) std::this_thread::yield();
      EXPECT_TRUE(io.stop());
    });
  threads.emplace_back([&] {  // posts, before, during and after
    while (!over) {
      io.post([held = Thing{}] { sleep_for(10us); });
      std::this_thread::yield();
    }
  });
  bool thrown = false;
  try {
    io.run([&load, held = Thing{}] { load.run(); });
  } catch (const Trouble&) {
    thrown = true;
  }
  EXPECT_EQ(thrown, plan.who == Plan::failure);
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(io.stop());
}

class ShutdownStress : public ::testing::TestWithParam<unsigned> {
 protected:
  static Plan plan(std::mt19937& random) {
    const auto who = static_cast<Plan::Who>(random() % 3);
    const std::uint32_t scale = 1U << random() % 12;
    return {who, 1 + static_cast<std::uint32_t>(random() % scale)};
  }
  static int rounds(int count) {
    return scaled(std::max(30, count / static_cast<int>(GetParam())));
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, ShutdownStress, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

TEST_P(ShutdownStress, AnEngineIsStoppedAgainAndAgain) {
  std::mt19937 random{GetParam()};
  FiberIo io{{.workers = GetParam(), .max_blocking = 4}};
  const std::size_t threads = threads_now();
  const std::size_t descriptors = descriptors_now();
  for (int round = 0; round < rounds(300); ++round) {
    run_and_stop(io, plan(random));
    ASSERT_EQ(Thing::alive, 0) << "round " << round;
  }
  EXPECT_EQ(threads_in_the_end(threads), threads);
  EXPECT_EQ(descriptors_now(), descriptors);
  EXPECT_EQ(io.run([] { return 7; }), 7);
}

TEST_P(ShutdownStress, ManyEnginesLeaveNothingBehind) {
  std::mt19937 random{100 + GetParam()};
  const auto one = [&] {
    FiberIo io{{.workers = GetParam(), .max_blocking = 4}};
    run_and_stop(io, plan(random));
  };
  ::mallopt(M_ARENA_MAX, 1);  // else each thread may map one, now or later
  // The pool of frames and the C library's cache of stacks grow to their size.
  for (int round = 0; round < rounds(40); ++round) one();
  const std::size_t threads = threads_now();
  const std::size_t descriptors = descriptors_now();
  const std::size_t mappings = mappings_now();
  const int more = rounds(200);
  for (int round = 0; round < more; ++round) {
    one();
    ASSERT_EQ(Thing::alive, 0) << "round " << round;
  }
  EXPECT_EQ(threads_in_the_end(threads), threads);
  EXPECT_EQ(descriptors_now(), descriptors);
  // One that is lost in every round would be more than chance moves.
  if constexpr (!kSanitized) {
    EXPECT_LE(mappings_now(), mappings + 8 + 2 * GetParam());
  }
}

// stop() at any moment of a run that is shorter than its start, or not much longer.
TEST_P(ShutdownStress, StopsMeetBeginningsAndEnds) {
  FiberIo io{{.workers = GetParam()}};
  std::atomic<bool> over{false};
  std::atomic<int> stopped{0};
  std::vector<std::thread> stoppers;
  for (int i = 0; i < 2; ++i)
    stoppers.emplace_back([&] {
      while (!over) {
        stopped += io.stop() ? 1 : 0;
        std::this_thread::yield();
      }
    });
  int cancelled = 0;
  for (int round = 0; round < rounds(2'000); ++round) {
    try {
      EXPECT_EQ(io.run([round] {
        if (round % 2 == 0) this_fiber::yield();
        nursery([](Nursery& n) { n.spawn([held = Thing{}] { this_fiber::yield(); }); });
        return round;
      }),
                round);
    } catch (const RunCancelled&) {
      ++cancelled;
    }
    ASSERT_EQ(Thing::alive, 0);
  }
  over = true;
  for (std::thread& stopper : stoppers) stopper.join();
  EXPECT_LE(cancelled, stopped) << "nobody is cancelled unless somebody said so";
}

}  // namespace
}  // namespace weft
