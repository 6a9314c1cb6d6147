// Fibers that change threads: everything that is a fiber's own goes with it.
#include <weft/engine.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/error.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/engines.hpp>
#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::scaled;
using testing::spin_until;

// The thread that runs this line. Not pthread_self(): compilers may remember what that returned.
[[gnu::noinline]] pid_t thread_here() { return ::gettid(); }

// Returns on another thread than it was called on, where there are two workers or more. We wait for
// a fiber that wakes us and then computes until we run: its worker cannot be the one that runs us.
// One at a time, and the others sleep meanwhile: there must be a worker that looks for work.
void migrate() {
  static std::atomic<bool> busy{false};
  const pid_t before = thread_here();
  while (thread_here() == before) {
    while (busy.exchange(true)) sleep_for(1ms);
    Event go;
    std::atomic<bool> arrived{false};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        go.set();
        spin_until(arrived);
      });
      go.wait();
      arrived.store(true);
      // Parked in the join, we could be woken by the child, and so on the thread we have left.
      spin_until([&n] { return n.live() == 0; });
    });
    busy.store(false);
  }
}

class Migration : public ::testing::TestWithParam<unsigned> {
 protected:
  // Several at a time: they also take each other's threads.
  template <class F>
  static void by_several(F f) {
    FiberIo io{{.workers = GetParam()}};
    io.run([&] {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 3; ++i) n.spawn([&f, i] { f(i); });
      });
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, Migration, ::testing::Values(2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

TEST_P(Migration, Happens) {
  FiberIo io{{.workers = GetParam()}};
  io.run([] {
    for (int i = 0; i < scaled(50); ++i) {
      const pid_t before = thread_here();
      migrate();
      EXPECT_NE(thread_here(), before);
    }
  });
}

// Fibers of different lengths: a worker that has run out of its own takes some that have begun.
TEST_P(Migration, ByYieldsAmongManyFibers) {
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> travelled{0};
  io.run([&] {
    while (travelled.load() < 8)
      nursery([&](Nursery& n) {
        for (int i = 0; i < 16; ++i)
          n.spawn([&, i] {
            const pid_t begun_on = thread_here();
            bool elsewhere = false;
            for (int turn = 0; turn < 20 * i; ++turn) {
              for (int spins = 0; spins < 5'000; ++spins)
                std::atomic_signal_fence(std::memory_order_seq_cst);
              this_fiber::yield();
              elsewhere = elsewhere || thread_here() != begun_on;
            }
            travelled.fetch_add(elsewhere);
          });
      });
  });
}

// ── who and where ───────────────────────────────────────────────────────────────────────────────

TEST_P(Migration, TheFiberIsTheSameAndTheCarrierIsThePresentOne) {
  by_several([](int) {
    const Fiber* const self = &Fiber::current();
    const FiberId id = this_fiber::id();
    for (int i = 0; i < 4; ++i) {
      const Carrier* const before = &Carrier::here();
      EXPECT_EQ(before->current, self);
      migrate();
      EXPECT_NE(&Carrier::here(), before);
      EXPECT_EQ(Carrier::here().current, self);
      EXPECT_EQ(&Fiber::current(), self);
      EXPECT_EQ(Carrier::here().engine, self->io);
      EXPECT_EQ(&io(), self->io);
      EXPECT_EQ(this_fiber::id(), id);
    }
  });
}

TEST_P(Migration, NamesGoAlong) {
  by_several([](int i) {
    const std::string name = "fiber " + std::to_string(i);
    this_fiber::set_name(name);
    migrate();
    EXPECT_EQ(this_fiber::name(), name);
    this_fiber::set_name(name + ", renamed");
    migrate();
    EXPECT_EQ(this_fiber::name(), name + ", renamed");
  });
}

TEST_P(Migration, TheStackGoesAlong) {
  by_several([](int i) {
    int local = i;
    int* const at = &local;
    const std::size_t remaining = this_fiber::stack_remaining();
    for (int k = 0; k < 5; ++k) {
      migrate();
      ++*at;
    }
    EXPECT_EQ(local, i + 5);
    EXPECT_NEAR(static_cast<double>(this_fiber::stack_remaining()), static_cast<double>(remaining),
                4'096);
  });
}

// errno and thread_local variables are the thread's: read them before the next wait.
TEST_P(Migration, ErrnoIsRightUntilTheNextWait) {
  by_several([](int) {
    for (int i = 0; i < 2; ++i) {
      migrate();
      EXPECT_EQ(::close(-1), -1);
      EXPECT_EQ(errno, EBADF);
      const int kept = errno;  // by value, what must outlast a wait
      migrate();
      EXPECT_EQ(kept, EBADF);
    }
  });
}

// ── exceptions ──────────────────────────────────────────────────────────────────────────────────

TEST_P(Migration, InsideACatchBlock) {
  by_several([](int i) {
    EXPECT_EQ(std::current_exception(), nullptr);
    try {
      throw std::runtime_error{"of fiber " + std::to_string(i)};
    } catch (const std::runtime_error& error) {
      const std::exception_ptr before = std::current_exception();
      for (int k = 0; k < 3; ++k) {
        migrate();
        EXPECT_EQ(std::current_exception(), before);
        EXPECT_EQ(error.what(), "of fiber " + std::to_string(i));
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      }
      EXPECT_THROW(throw, std::runtime_error);
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  });
}

TEST_P(Migration, InNestedCatchBlocks) {
  by_several([](int i) {
    try {
      throw i;
    } catch (int outer) {
      migrate();
      try {
        throw std::to_string(i);
      } catch (const std::string& inner) {
        migrate();
        EXPECT_EQ(inner, std::to_string(outer));
        EXPECT_THROW(throw, std::string);
      }
      migrate();
      EXPECT_THROW(throw, int);
    }
  });
}

TEST_P(Migration, InADestructorDuringUnwinding) {
  struct Cleanup {
    ~Cleanup() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      migrate();
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      try {
        throw 2;
      } catch (int) {
        migrate();
        EXPECT_EQ(std::uncaught_exceptions(), 1);
      }
      migrate();
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
  };
  by_several([](int i) {
    int caught = -1;
    try {
      const Cleanup first;
      const Cleanup second;
      throw i;
    } catch (int thrown) {
      caught = thrown;
    }
    EXPECT_EQ(caught, i);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  });
}

TEST_P(Migration, ThrownHereCaughtThere) {
  by_several([](int i) {
    struct Travels {
      ~Travels() { migrate(); }
    };
    for (int k = 0; k < 5; ++k) {
      const pid_t before = thread_here();
      try {
        const Travels travels;
        throw std::make_unique<int>(i);
      } catch (const std::unique_ptr<int>& thrown) {
        EXPECT_EQ(*thrown, i);
        EXPECT_NE(thread_here(), before);
      }
    }
  });
}

TEST_P(Migration, AnExceptionPointerIsRethrownElsewhere) {
  by_several([](int i) {
    std::exception_ptr kept;
    try {
      throw std::out_of_range{std::to_string(i)};
    } catch (...) {
      kept = std::current_exception();
    }
    migrate();
    try {
      std::rethrow_exception(kept);
    } catch (const std::out_of_range& error) {
      migrate();
      EXPECT_EQ(error.what(), std::to_string(i));
    }
  });
}

TEST_P(Migration, TheThreadThatIsLeftHasNoExceptionsOfOurs) {
  FiberIo io{{.workers = GetParam()}};
  io.run([] {
    for (int i = 0; i < scaled(2); ++i) {
      std::atomic<int> in_catch{0};
      nursery([&](Nursery& n) {
        for (int k = 0; k < 8; ++k)
          n.spawn([&, k] {
            if (k % 2 == 0) {
              try {
                throw k;
              } catch (int) {
                in_catch.fetch_add(1);
                migrate();
              }
            } else {
              for (int turn = 0; turn < 5; ++turn) {
                EXPECT_EQ(std::current_exception(), nullptr);
                EXPECT_EQ(std::uncaught_exceptions(), 0);
                this_fiber::yield();
              }
            }
          });
      });
      EXPECT_EQ(in_catch.load(), 4);
    }
  });
}

// ── scopes ──────────────────────────────────────────────────────────────────────────────────────

TEST_P(Migration, InNestedNurseries) {
  by_several([](int i) {
    const CancelScope* const scope = Fiber::current().scope;
    std::atomic<int> ran{0};
    nursery({.name = "outer"}, [&](Nursery& outer) {
      migrate();
      EXPECT_EQ(Fiber::current().scope, &outer);
      outer.spawn([&] {
        migrate();
        ++ran;
      });
      nursery({.name = "inner"}, [&](Nursery& inner) {
        migrate();
        EXPECT_EQ(Fiber::current().scope, &inner);
        inner.spawn([&] {
          migrate();
          ++ran;
        });
        outer.spawn([&] { ++ran; });
      });
      EXPECT_EQ(Fiber::current().scope, &outer);
    });
    EXPECT_EQ(Fiber::current().scope, scope);
    EXPECT_EQ(ran.load(), 3) << i;
  });
}

TEST_P(Migration, CancelledAfterwards) {
  FiberIo io{{.workers = GetParam()}};
  io.run([] {
    std::atomic<int> cancelled{0};
    std::atomic<int> migrated{0};
    nursery([&](Nursery& n) {
      for (int k = 0; k < 3; ++k)
        n.spawn([&, k] {
          migrate();
          migrated.fetch_add(1);
          try {
            while (migrated.load() < 3) sleep_for(50us);
            if (k == 0) Event{}.wait();
            if (k == 1) sleep_for(1h);
            for (;;) this_fiber::yield();
          } catch (const Cancelled&) {
            cancelled.fetch_add(1);
            throw;
          }
        });
      while (migrated.load() < 3) sleep_for(50us);
      n.cancel();
    });
    EXPECT_EQ(cancelled.load(), 3);
  });
}

// A timer armed by one thread is disarmed by another.
TEST_P(Migration, WithATimerArmed) {
  FiberIo io{{.workers = GetParam()}};
  io.run([] {
    for (int k = 0; k < scaled(50); ++k) {
      Event go;
      std::atomic<bool> arrived{false};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          go.set();
          spin_until(arrived);
        });
        auto set = go.on_set();
        Alarm late{Clock::now() + 1h};
        Waitable* const arms[] = {&late, &set};
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 1U);
        arrived.store(true);
      });
      sleep_for(1us);
    }
  });
}

// ── children that run in place ──────────────────────────────────────────────────────────────────

bool in_place() { return Fiber::current().strand->beneath != nullptr; }

TEST_P(Migration, AChildInPlaceTakesItsParentAlong) {
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> there{0};
  const int rounds = scaled(25);
  io.run([&] {
    for (int i = 0; i < rounds || (there == 0 && !arch::kTsan); ++i) {
      Fiber* const parent = &Fiber::current();
      Fiber* child = nullptr;
      nursery([&](Nursery& n) {
        n.spawn("child", [&] {
          child = &Fiber::current();
          const bool beneath = in_place();
          there += beneath;
          migrate();
          EXPECT_EQ(&Fiber::current(), child);
          EXPECT_EQ(in_place(), beneath);
          EXPECT_EQ(child->strand->beneath, beneath ? parent : nullptr);
          EXPECT_EQ(this_fiber::name(), "child");
          try {
            throw i;
          } catch (int thrown) {
            migrate();
            EXPECT_EQ(thrown, i);
          }
        });
      });
      EXPECT_EQ(&Fiber::current(), parent);
      EXPECT_EQ(Carrier::here().current, parent);
      EXPECT_EQ(this_fiber::name(), "main");
    }
  });
  EXPECT_EQ(there.load() > 0, !arch::kTsan) << "ThreadSanitizer builds run no child in place";
}

TEST_P(Migration, AFailingChildInPlaceFailsElsewhere) {
  FiberIo io{{.workers = GetParam()}};
  io.run([&] {
    for (int i = 0; i < scaled(50); ++i) {
      try {
        nursery([i](Nursery& n) {
          n.spawn([i] {
            migrate();
            throw std::to_string(i);
          });
        });
        ADD_FAILURE();
      } catch (const std::string& text) {
        EXPECT_EQ(text, std::to_string(i));
        migrate();
        EXPECT_EQ(text, std::to_string(i));
      }
    }
  });
}

int migrating_tree(int depth) {
  if (depth == 0) {
    migrate();
    return 1;
  }
  int left = 0;
  int right = 0;
  nursery([&, depth](Nursery& n) {
    n.spawn([&, depth] { left = migrating_tree(depth - 1); });
    n.spawn([&, depth] { right = migrating_tree(depth - 1); });
  });
  return left + right;
}

TEST_P(Migration, ATreeWhoseLeavesMigrate) {
  FiberIo io{{.workers = GetParam()}};
  const int depth = ::weft::testing::time_scale() > 1 ? 2 : 3;
  EXPECT_EQ(io.run([=] { return migrating_tree(depth); }), 1 << depth);
}

// Memory taken on one thread is given back on another.
TEST_P(Migration, AllocationsCrossThreads) {
  by_several([](int i) {
    std::vector<std::unique_ptr<std::string>> kept;
    for (int k = 0; k < 50; ++k) {
      kept.push_back(std::make_unique<std::string>(std::size_t(k * 37 + i), 'x'));
      if (k % 20 == 0) migrate();
      if (k % 3 == 0) kept.erase(kept.begin());
    }
    migrate();
    for (const auto& text : kept) EXPECT_EQ(*text, std::string(text->size(), 'x'));
  });
}

}  // namespace
}  // namespace weft
