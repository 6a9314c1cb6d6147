#include <weft/future.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/mutex.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <support/child_process.hpp>
#include <support/engines.hpp>
#include <support/errors.hpp>
#include <support/frames.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::everywhere;
using testing::expect_no_timer_left;
using testing::frames_in_use;
using ::testing::HasSubstr;
using testing::on_seeds;
using testing::on_workers;
using testing::text_of;
using testing::what;

int sleep_and_return(Duration d, int value) {
  sleep_for(d);
  return value;
}

int sleep_and_fail(Duration d, const char* text) {
  sleep_for(d);
  throw std::runtime_error{text};
}

TEST(Future, IsMovedNotCopied) {
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<Future<int>>);
  EXPECT_FALSE(std::is_copy_constructible_v<Future<int>>);
  EXPECT_FALSE(std::is_copy_assignable_v<Future<int>>);
}

// ── async and get ───────────────────────────────────────────────────────────────────────────────

TEST(Future, GetReturnsTheChildsValue) {
  everywhere([] {
    const int sum = nursery([](Nursery& n) {
      Future<int> two = n.async([] { return 2; });
      Future<int> three = n.async([] {
        this_fiber::yield();
        return 3;
      });
      return two.get() + three.get();
    });
    EXPECT_EQ(sum, 5);
  });
}

TEST(Future, WaitsWithoutTakingAndWithoutThrowing) {
  on_seeds([] {
    nursery([](Nursery& n) {
      Future<int> slow = n.async([] {
        sleep_for(10ms);
        return 1;
      });
      EXPECT_TRUE(timeout(5ms, [&] { EXPECT_FALSE(slow.wait(no_throw)); }));
      EXPECT_FALSE(timeout(1ms, [&] { slow.wait(); })) << "the other form throws";
      EXPECT_FALSE(slow.ready());
      EXPECT_TRUE(slow.wait(no_throw));
      slow.wait();
      EXPECT_EQ(slow.get(), 1);
    });
  });
}

TEST(Future, ValuesMayBeVoidOrMoveOnly) {
  everywhere([] {
    nursery([](Nursery& n) {
      std::atomic<bool>& ran = n.make<std::atomic<bool>>(false);
      Future<void> nothing = n.async([&ran] { ran = true; });
      nothing.get();
      EXPECT_TRUE(ran);
      Future<std::unique_ptr<int>> moved = n.async([] { return std::make_unique<int>(7); });
      EXPECT_EQ(*moved.get(), 7);
      Future<std::string> text =
          n.async([held = std::make_unique<int>(8)] { return std::to_string(*held); });
      Future<std::string> elsewhere = std::move(text);
      EXPECT_EQ(elsewhere.get(), "8");
    });
  });
}

TEST(Future, ReadySaysWhetherGetWouldWait) {
  on_seeds([] {
    nursery([](Nursery& n) {
      Future<int> future = n.async([] { return sleep_and_return(1ms, 4); });
      EXPECT_FALSE(future.ready());
      sleep_for(2ms);
      EXPECT_TRUE(future.ready());
      const Instant before = Clock::now();
      EXPECT_EQ(future.get(), 4);
      EXPECT_EQ(Clock::now(), before);
    });
  });
}

TEST(Future, AFutureMayBeDroppedAndTheChildIsJoinedAllTheSame) {
  everywhere([] {
    std::atomic<bool> ran{false};
    nursery([&](Nursery& n) {
      static_cast<void>(n.async([&] {
        this_fiber::yield();
        ran = true;
        return 1;
      }));
    });
    EXPECT_TRUE(ran);
  });
}

// A result that waits when it dies: for a mutex, which somebody may hold.
class Reluctant {
 public:
  Reluctant(Mutex& mutex, int& dead) : mutex_(&mutex), dead_(dead) {}
  Reluctant(Reluctant&& other) noexcept
      : mutex_(std::exchange(other.mutex_, nullptr)), dead_(other.dead_) {}
  ~Reluctant() {
    if (!mutex_) return;
    const std::scoped_lock locked{*mutex_};
    ++dead_;
  }

 private:
  Mutex* mutex_;
  int& dead_;
};

// Regression: it died after the join, in the child, which had ended.
TEST(Future, AResultThatNobodyWantsDiesBeforeTheJoin) {
  everywhere([] {
    Mutex mutex;
    int dead = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i)
        static_cast<void>(n.async([&, i] {
          if (i % 2 == 0) this_fiber::yield();
          return Reluctant{mutex, dead};
        }));
      for (int i = 0; i < 20; ++i) {
        const Future<Reluctant> future = n.async([&] { return Reluctant{mutex, dead}; });
        if (i % 2 == 0) this_fiber::yield();
      }
    });
    EXPECT_EQ(dead, 40);
  });
}

// Regression: the child had the owner in hand, who was to run next, and took it along.
TEST(Future, AResultThatNobodyWantsMayWaitForTheOwner) {
  on_workers({1U}, [] {
    Mutex mutex;
    int dead = 0;
    nursery([&](Nursery& n) {
      Event begun;
      mutex.lock();
      static_cast<void>(n.async([&] {
        begun.set();
        return Reluctant{mutex, dead};
      }));
      begun.wait();
      EXPECT_EQ(dead, 0);
      mutex.unlock();
    });
    EXPECT_EQ(dead, 1);
  });
}

// What it threw likewise: nobody but the nursery has it then.
TEST(Future, AnErrorThatNobodyWantsIsTheNurserys) {
  everywhere([] {
    const auto counted = std::make_shared<int>(0);
    struct Error : std::exception {
      explicit Error(std::shared_ptr<int> of) : kept(std::move(of)) {}
      std::shared_ptr<int> kept;
    };
    EXPECT_THROW(nursery([&](Nursery& n) {
                   static_cast<void>(n.async([counted]() -> int { throw Error{counted}; }));
                   this_fiber::yield();
                 }),
                 Error);
    EXPECT_EQ(counted.use_count(), 1);
  });
}

TEST(Future, AResultOutlivesItsNursery) {
  everywhere([] {
    std::optional<Future<std::string>> future;
    nursery([&](Nursery& n) { future.emplace(n.async([] { return std::string{"kept"}; })); });
    EXPECT_TRUE(future->ready());
    EXPECT_EQ(future->get(), "kept");
  });
}

TEST(Future, ASecondGetIsAnError) {
  everywhere([] {
    nursery([](Nursery& n) {
      Future<int> future = n.async([] { return 1; });
      EXPECT_EQ(future.get(), 1);
      EXPECT_THROW(future.get(), std::logic_error);
      EXPECT_TRUE(future.ready());
    });
  });
}

TEST(Future, AnExceptionComesOutOfGetAndFailsTheNursery) {
  everywhere([] {
    std::string got;
    const std::string thrown = text_of<std::exception>([&] {
      nursery([&](Nursery& n) {
        Future<int> future = n.async([]() -> int { throw std::runtime_error{"child"}; });
        // Kept from the nursery's cancellation, which comes at about the same time.
        got = shielded(
            [&] { return text_of<std::exception>([&] { static_cast<void>(future.get()); }); });
      });
    });
    EXPECT_EQ(got, "child");
    EXPECT_EQ(thrown, "child");
  });
}

TEST(Future, ASurvivorOfSuperviseReadsTheException) {
  everywhere([] {
    std::string got;
    EXPECT_THROW(nursery({.on_error = ErrorPolicy::supervise},
                         [&](Nursery& n) {
                           Future<void> future = n.async([] { throw std::runtime_error{"child"}; });
                           got = text_of<std::exception>([&] { future.get(); });
                           this_fiber::checkpoint();
                         }),
                 std::runtime_error);
    EXPECT_EQ(got, "child");
  });
}

TEST(Future, AChildThatWasCancelledHasNoResult) {
  everywhere([] {
    std::optional<Future<int>> parked;
    std::optional<Future<int>> unborn;
    nursery([&](Nursery& n) {
      Event& running = n.make<Event>();
      parked.emplace(n.async([&running] {
        running.set();
        return sleep_and_return(1h, 1);
      }));
      running.wait();
      unborn.emplace(n.async([] { return sleep_and_return(1h, 2); }));
      n.cancel();
    });
    EXPECT_THROW(parked->get(), ChildCancelled);
    EXPECT_THROW(unborn->get(), ChildCancelled);
    EXPECT_THROW(unborn->get(), std::logic_error) << "it was taken";
  });
}

TEST(Future, AsyncIntoAClosedNurseryThrows) {
  everywhere([] {
    const auto captured = std::make_shared<int>(0);
    nursery([&](Nursery& n) {
      n.close();
      EXPECT_THROW(static_cast<void>(n.async([captured] { return 1; })), NurseryClosed);
    });
    EXPECT_EQ(captured.use_count(), 1);
  });
}

TEST(Future, GetIsACancelPointAndTheResultStays) {
  on_seeds([] {
    nursery([](Nursery& n) {
      Future<int> future = n.async([] { return sleep_and_return(10ms, 5); });
      EXPECT_FALSE(timeout(1ms, [&] { static_cast<void>(future.get()); }));
      EXPECT_EQ(future.get(), 5);
    });
    expect_no_timer_left();
  });
}

// ── cancel ──────────────────────────────────────────────────────────────────────────────────────

TEST(Future, CancelStopsTheChildAndWhatItSpawnedButNotItsNursery) {
  on_seeds([] {
    const Instant start = Clock::now();
    int unwound = 0;
    nursery([&](Nursery& n) {
      Future<int> future = n.async([&] {
        nursery([&](Nursery& inner) {
          inner.spawn([&] {
            const std::shared_ptr<void> mark{nullptr, [&](void*) { ++unwound; }};
            sleep_for(1h);
          });
        });
        return 1;
      });
      sleep_for(2ms);
      future.cancel();
      future.cancel();
      EXPECT_THROW(future.get(), ChildCancelled);
      this_fiber::checkpoint();
      EXPECT_EQ(n.state(), NurseryState::open);
    });
    EXPECT_EQ(unwound, 1);
    EXPECT_EQ(Clock::now() - start, 2ms);
    expect_no_timer_left();
  });
}

TEST(Future, AResultInSpiteOfTheCancelIsKept) {
  everywhere([] {
    nursery([](Nursery& n) {
      Future<int> finishes =
          n.async([] { return shielded([] { return sleep_and_return(1us, 4); }); });
      Future<int> waits = n.async([] { return sleep_and_return(1h, 5); });
      finishes.cancel();
      waits.cancel();
      EXPECT_EQ(finishes.get(), 4);
      EXPECT_THROW(waits.get(), ChildCancelled);
      finishes.cancel();  // long over
    });
  });
}

TEST(Future, CancelRacesTheEndOfTheChild) {
  on_workers([] {
    for (int round = 0; round < 200; ++round)
      nursery([](Nursery& n) {
        Future<int> future = n.async([] {
          this_fiber::yield();
          return 6;
        });
        future.cancel();
        try {
          EXPECT_EQ(future.get(), 6);
        } catch (const ChildCancelled&) {
        }
      });
  });
}

// ── on_ready ────────────────────────────────────────────────────────────────────────────────────

TEST(Future, OnReadyIsAnArm) {
  on_seeds([] {
    nursery([](Nursery& n) {
      Future<int> slow = n.async([] { return sleep_and_return(9ms, 1); });
      Future<int> fast = n.async([] { return sleep_and_return(3ms, 2); });
      auto slow_ready = slow.on_ready();
      auto fast_ready = fast.on_ready();
      Alarm alarm = after(1ms);
      const std::array<Waitable*, 3> arms{&slow_ready, &fast_ready, &alarm};
      EXPECT_EQ(wait(arms), 2U);
      EXPECT_EQ(wait(std::span{arms}.first(2)), 1U);
      EXPECT_EQ(fast.get(), 2);
      EXPECT_FALSE(slow.ready());
      EXPECT_EQ(slow.get(), 1);
    });
    expect_no_timer_left();
  });
}

TEST(Future, OnReadyCompletesForFailuresAndCancellationsToo) {
  testing::on_calm_seeds([] {  // else the child may be born before it is cancelled
    EXPECT_THROW(nursery({.on_error = ErrorPolicy::supervise},
                         [](Nursery& n) {
                           Future<int> failing = n.async([] { return sleep_and_fail(1ms, "bad"); });
                           auto ready = failing.on_ready();
                           wait(ready);
                           EXPECT_TRUE(failing.ready());
                         }),
                 std::runtime_error);
    nursery([](Nursery& outer) {
      nursery([&](Nursery& n) {
        Future<int>& unborn = outer.make<Future<int>>(n.async([] { return 1; }));
        outer.spawn([&unborn] {
          auto ready = unborn.on_ready();
          wait(ready);
          EXPECT_THROW(unborn.get(), ChildCancelled);
        });
        n.cancel();
      });
    });
  });
}

TEST(Future, SeveralMayWait) {
  everywhere([] {
    std::atomic<int> woken{0};
    nursery([&](Nursery& n) {
      Event& go = n.make<Event>();
      Future<int>& future = n.make<Future<int>>(n.async([&go] {
        go.wait();
        return 6;
      }));
      for (int i = 0; i < 10; ++i)
        n.spawn([&] {
          auto ready = future.on_ready();
          wait(ready);
          ++woken;
        });
      for (int i = 0; i < 20; ++i) this_fiber::yield();
      EXPECT_EQ(woken, 0);
      go.set();
      auto ready = future.on_ready();
      wait(ready);
      EXPECT_EQ(future.get(), 6);
    });
    EXPECT_EQ(woken, 10);
  });
}

// ── got in place ────────────────────────────────────────────────────────────────────────────────

bool in_place() { return Fiber::current().strand->beneath != nullptr; }

constexpr const char* kNeedsOwnStack = "ThreadSanitizer wants a stack for every fiber";

TEST(GetInPlace, TheNewestUnbornChildIsCalledOnTheGettersStack) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    const FiberId body = this_fiber::id();
    nursery([&](Nursery& n) {
      EXPECT_EQ(n.async([] { return Fiber::current().strand->beneath; }).get(), &Fiber::current());
      n.spawn([&n] {
        EXPECT_TRUE(n.async([] { return in_place(); }).get()) << "in a sibling, too";
        EXPECT_EQ(n.live(), 1u);
      });
      EXPECT_EQ(n.live(), 1u) << "those that have ended are not counted";
    });
    EXPECT_EQ(this_fiber::id(), body);
  });
}

TEST(GetInPlace, NobodyElseIs) {
  FiberIo{{.workers = 1}}.run([] {
    nursery([](Nursery& n) {
      bool ran = false;
      auto older = n.async([&ran] { return ran; });
      n.spawn([&ran] {
        EXPECT_FALSE(in_place());
        ran = true;
      });
      EXPECT_TRUE(older.get()) << "the newest first, and it is not what we wait for";
    });
  });
}

TEST(GetInPlace, NotWhereACancelWouldEndOnlyTheGet) {
  FiberIo{{.workers = 1}}.run([] {
    Event go;
    nursery([&](Nursery& n) {
      auto slow = n.async([&go] {
        EXPECT_FALSE(in_place());
        go.wait();
        return 5;
      });
      EXPECT_FALSE(timeout(1ms, [&] { return slow.get(); }));
      go.set();
      EXPECT_EQ(slow.get(), 5);
    });
  });
}

TEST(GetInPlace, ACancelReachesTheChildAndThenTheGetter) {
  FiberIo{{.workers = 1}}.run([] {
    bool reached = false;
    bool thrown = false;
    EXPECT_FALSE(timeout(1ms, [&] {
      nursery([&](Nursery& n) {
        auto never = n.async([&reached] {
          try {
            sleep_for(1h);
          } catch (const Cancelled&) {
            reached = true;
          }
          return 5;
        });
        try {
          static_cast<void>(never.get());
        } catch (const Cancelled&) {
          thrown = true;
          throw;
        }
      });
    }));
    EXPECT_TRUE(reached);
    EXPECT_TRUE(thrown) << "though there is a result";
  });
}

TEST(GetInPlace, TheChildMayWaitAndThrow) {
  FiberIo{{.workers = 1}}.run([] {
    const NurseryOptions supervise{.on_error = ErrorPolicy::supervise};
    EXPECT_THROW(nursery(supervise,
                         [](Nursery& n) {
                           auto bad = n.async([]() -> int {
                             this_fiber::yield();
                             sleep_for(1us);
                             throw std::runtime_error{"bad"};
                           });
                           EXPECT_THROW(static_cast<void>(bad.get()), std::runtime_error);
                           EXPECT_EQ(n.async([] { return 7; }).get(), 7);
                         }),
                 std::runtime_error);
  });
}

TEST(GetInPlace, Recursion) {
  FiberIo{{.workers = 2}}.run([] {
    struct Fib {
      static long of(long n) {  // NOLINT(misc-no-recursion)
        if (n < 2) return n;
        return nursery([n](Nursery& both) {
          auto a = both.async([n] { return of(n - 1); });
          auto b = both.async([n] { return of(n - 2); });
          return b.get() + a.get();
        });
      }
    };
    EXPECT_EQ(Fib::of(16), 987);
  });
}

TEST(Future, ThousandsOnManyWorkers) {
  constexpr int kChildren = 2'000;
  on_workers([] {
    const int sum = nursery([](Nursery& n) {
      std::deque<Future<int>> futures;
      for (int i = 0; i < kChildren; ++i)
        futures.push_back(n.async([i] {
          if (i % 3 == 0) this_fiber::yield();
          return i;
        }));
      int total = 0;
      for (Future<int>& future : futures) total += future.get();
      return total;
    });
    EXPECT_EQ(sum, kChildren * (kChildren - 1) / 2);
  });
}

// ── all ─────────────────────────────────────────────────────────────────────────────────────────

TEST(All, ReturnsEveryValue) {
  everywhere([] {
    auto [number, text, nothing, moved] = all([] { return 1; },
                                              [] {
                                                this_fiber::yield();
                                                return std::string{"two"};
                                              },
                                              [] {}, [] { return std::make_unique<int>(4); });
    static_assert(std::is_same_v<decltype(nothing), std::monostate>);
    EXPECT_EQ(number, 1);
    EXPECT_EQ(text, "two");
    EXPECT_EQ(*moved, 4);
    static_cast<void>(all());
  });
}

TEST(All, RunsThemAtOnce) {
  on_seeds([] {
    const Instant start = Clock::now();
    EXPECT_EQ(all([] { return sleep_and_return(5ms, 1); }, [] { return sleep_and_return(7ms, 2); }),
              std::tuple(1, 2));
    EXPECT_EQ(Clock::now() - start, 7ms);
  });
}

TEST(All, TheFirstFailureCancelsTheOthers) {
  on_seeds([] {
    const std::size_t frames = frames_in_use();
    const Instant start = Clock::now();
    bool unwound = false;
    EXPECT_EQ(text_of<std::exception>([&] {
                static_cast<void>(all(
                    [&] {
                      const std::shared_ptr<void> mark{nullptr, [&](void*) { unwound = true; }};
                      sleep_for(1h);
                    },
                    [] { return sleep_and_fail(2ms, "second"); },
                    [] { return sleep_and_fail(3ms, "third"); }));
              }),
              "second");
    EXPECT_TRUE(unwound);
    EXPECT_EQ(Clock::now() - start, 2ms);
    expect_no_timer_left();
    EXPECT_EQ(frames_in_use(), frames);
  });
}

TEST(All, AFailureAtOnceOnManyWorkers) {
  on_workers([] {
    for (int round = 0; round < 200; ++round)
      EXPECT_THROW(static_cast<void>(all([] { throw 1; }, [] {}, [] {}, [] {}, [] {}, [] {})), int);
  });
}

// Nobody else failed, so there is nothing to report: neither the one that was thrown, nor that the
// rest could not be started any more.
TEST(All, AFailurePrintsNothing) {
  const weft::testing::ChildResult result =
      weft::testing::run_child({weft::testing::sibling_program("future_test"),
                                "--gtest_filter=All.AFailureAtOnceOnManyWorkers"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("weft:")));
}

TEST(All, AnOuterCancelPasses) {
  on_seeds([] {
    EXPECT_EQ(
        timeout(1ms, [] { return all([] { return sleep_and_return(1h, 1); }, [] { return 2; }); }),
        std::nullopt);
    expect_no_timer_left();
  });
}

// ── race ────────────────────────────────────────────────────────────────────────────────────────

TEST(Race, TheFirstToFinishWinsAndTheLosersAreJoined) {
  on_seeds([] {
    const std::size_t frames = frames_in_use();
    const Instant start = Clock::now();
    int unwound = 0;
    const auto loser = [&] {
      const std::shared_ptr<void> mark{nullptr, [&](void*) { ++unwound; }};
      return sleep_and_return(1h, 0);
    };
    const std::variant<int, std::string, int> result = race(
        loser,
        [] {
          sleep_for(5ms);
          return std::string{"won"};
        },
        loser);
    EXPECT_EQ(unwound, 2);
    ASSERT_EQ(result.index(), 1U);
    EXPECT_EQ(std::get<1>(result), "won");
    EXPECT_EQ(Clock::now() - start, 5ms) << "losers cost no time";
    expect_no_timer_left();
    EXPECT_EQ(frames_in_use(), frames);
  });
}

TEST(Race, ItWaitsForALoserThatTakesItsTime) {
  on_seeds([] {
    const Instant start = Clock::now();
    const auto result = race([] {}, [] { shielded([] { sleep_for(20ms); }); },
                             [] {
                               try {
                                 sleep_for(1h);
                               } catch (const Cancelled&) {
                                 shielded([] { sleep_for(10ms); });
                                 throw;
                               }
                             });
    EXPECT_EQ(result.index() == 1, Clock::now() - start == 30ms) << "who began may finish";
    EXPECT_LE(Clock::now() - start, 30ms);
  });
}

TEST(Race, AnExceptionCountsAsFinishing) {
  on_seeds([] {
    const Instant start = Clock::now();
    EXPECT_EQ(text_of<std::exception>([] {
                static_cast<void>(race([] { return sleep_and_return(5ms, 1); },
                                       [] { return sleep_and_fail(2ms, "first"); }));
              }),
              "first");
    EXPECT_EQ(Clock::now() - start, 2ms);
    EXPECT_EQ(
        race([] { return sleep_and_return(2ms, 1); }, [] { return sleep_and_fail(5ms, "late"); })
            .index(),
        0U);
  });
}

TEST(Race, VoidBecomesMonostateAndMoveOnlyValuesMove) {
  on_seeds([] {
    auto nothing = race([] {}, [] { return sleep_and_return(1h, 1); });
    static_assert(std::is_same_v<decltype(nothing), std::variant<std::monostate, int>>);
    EXPECT_EQ(nothing.index(), 0U);
    auto moved = race([] { return std::make_unique<int>(3); });
    EXPECT_EQ(*std::get<0>(moved), 3);
  });
}

// The first may win while the others are still being started.
TEST(Race, ManyWhoFinishAtOnceHaveOneWinner) {
  everywhere([] {
    const int rounds = io().kind() == "SimIo" ? 2 : 500;
    const auto runner = [] { return 1; };
    for (int round = 0; round < rounds; ++round)
      EXPECT_EQ(std::visit([](int value) { return value; },
                           race(runner, runner, runner, runner, runner, runner, runner, runner)),
                1);
  });
}

TEST(Race, AnOuterCancelPasses) {
  on_seeds([] {
    EXPECT_FALSE(timeout(1ms, [] {
      static_cast<void>(race([] { sleep_for(1h); }, [] { sleep_for(2h); }));
      ADD_FAILURE();
    }));
    this_fiber::checkpoint();
    expect_no_timer_left();
  });
}

TEST(Race, ALoserThatFailsIsNotHeard) {
  on_seeds([] {
    const auto result = race([] { return sleep_and_return(1ms, 1); },
                             [] {
                               try {
                                 sleep_for(1h);
                               } catch (const Cancelled&) {
                               }
                               throw std::runtime_error{"too late"};
                             });
    EXPECT_EQ(result.index(), 0U);
  });
}

// ── any ─────────────────────────────────────────────────────────────────────────────────────────

TEST(Any, TheFirstSuccessWins) {
  on_seeds([] {
    const Instant start = Clock::now();
    const auto result =
        any([] { return sleep_and_fail(1ms, "one"); }, [] { return sleep_and_return(6ms, 2); },
            [] { return sleep_and_return(4ms, 3); }, [] { return sleep_and_return(1h, 4); });
    EXPECT_EQ(result.index(), 2U);
    EXPECT_EQ(std::get<2>(result), 3);
    EXPECT_EQ(Clock::now() - start, 4ms);
    expect_no_timer_left();
  });
}

TEST(Any, IfAllFailTheErrorsComeInOrder) {
  on_seeds([] {
    std::vector<std::string> errors;
    try {
      static_cast<void>(any([] { return sleep_and_fail(3ms, "third"); },
                            [] { return sleep_and_fail(1ms, "first"); },
                            [] { return sleep_and_fail(2ms, "second"); }));
    } catch (const AllFailed& failed) {
      for (const std::exception_ptr& error : failed.errors()) errors.push_back(what(error));
      EXPECT_THAT(failed.what(), HasSubstr("first"));
    }
    EXPECT_THAT(errors, ElementsAre("first", "second", "third"));
  });
}

TEST(Any, OnManyWorkers) {
  on_workers([] {
    const auto succeed = [] { return 1; };
    const auto failing = []() -> int { throw 1; };
    for (int round = 0; round < 300; ++round) {
      EXPECT_GE(any(failing, failing, succeed, failing, succeed, succeed).index(), 2U);
      EXPECT_THROW(static_cast<void>(any(failing, failing, failing)), AllFailed);
    }
  });
}

TEST(Any, AnOuterCancelPasses) {
  on_seeds([] {
    EXPECT_FALSE(timeout(2ms, [] {
      static_cast<void>(
          any([] { return sleep_and_fail(1ms, "one"); }, [] { return sleep_and_return(1h, 2); }));
      ADD_FAILURE();
    }));
  });
}

// ── all_settled ─────────────────────────────────────────────────────────────────────────────────

TEST(AllSettled, TellsWhatCameOfEach) {
  everywhere([] {
    auto [good, bad, nothing] =
        all_settled([] { return 1; }, []() -> int { throw std::runtime_error{"bad"}; },
                    [] { this_fiber::yield(); });
    EXPECT_TRUE(good);
    EXPECT_EQ(good.value(), 1);
    EXPECT_EQ(good.error(), nullptr);
    EXPECT_FALSE(bad);
    EXPECT_EQ(what(bad.error()), "bad");
    EXPECT_THROW(bad.value(), std::runtime_error);
    EXPECT_TRUE(nothing);
  });
}

TEST(AllSettled, AFailureStopsNobody) {
  on_seeds([] {
    const Instant start = Clock::now();
    auto [bad, good] = all_settled([] { return sleep_and_fail(1ms, "bad"); },
                                   [] { return sleep_and_return(9ms, 2); });
    EXPECT_FALSE(bad);
    EXPECT_EQ(good.value(), 2);
    EXPECT_EQ(Clock::now() - start, 9ms);
  });
}

TEST(AllSettled, AnOuterCancelPasses) {
  on_seeds([] {
    EXPECT_FALSE(timeout(1ms, [] {
      static_cast<void>(all_settled([] { sleep_for(1h); }, [] {}));
      ADD_FAILURE();
    }));
  });
}

// ── parallel_for ────────────────────────────────────────────────────────────────────────────────

TEST(ParallelFor, CallsEachIndexOnce) {
  everywhere([] {
    for (const std::size_t count : {0U, 1U, 2U, 3U, 255U, 256U, 257U, 1'000U}) {
      std::vector<std::atomic<int>> calls(count);
      parallel_for(count, [&](std::size_t i) { ++calls[i]; });
      for (const std::atomic<int>& called : calls) EXPECT_EQ(called, 1);
    }
  });
}

TEST(ParallelFor, SumsOnManyWorkers) {
  constexpr std::size_t kCount = 200'000;
  on_workers([] {
    std::atomic<std::uint64_t> sum{0};
    parallel_for(kCount, [&](std::size_t i) { sum.fetch_add(i, std::memory_order_relaxed); });
    EXPECT_EQ(sum, std::uint64_t{kCount} * (kCount - 1) / 2);
  });
}

TEST(ParallelFor, TakesRanges) {
  everywhere([] {
    std::vector<int> numbers(500);
    std::iota(numbers.begin(), numbers.end(), 0);
    parallel_for(numbers, [](int& number) { number *= 2; });
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int>(2 * i));
    std::array<int, 3> three{1, 2, 3};
    parallel_for(three, [](int& number) { number = 7; });
    EXPECT_THAT(three, Each(7));
    std::vector<int> empty;
    parallel_for(empty, [](int) { ADD_FAILURE(); });
    std::atomic<int> sum{0};
    parallel_for(std::deque<int>{1, 2, 3, 39}, [&](int number) { sum += number; });
    EXPECT_EQ(sum, 45);
  });
}

TEST(ParallelFor, TheFirstFailureIsThrownAndStopsTheRest) {
  everywhere([] {
    std::atomic<std::size_t> calls{0};
    EXPECT_THROW(parallel_for(std::size_t{5'000},
                              [&](std::size_t i) {
                                ++calls;
                                if (i == 17) throw std::out_of_range{"17"};
                                if (i % 64 == 0) this_fiber::yield();
                              }),
                 std::out_of_range);
    EXPECT_GE(calls, 1U);
    EXPECT_LE(calls, 5'000U);
  });
}

TEST(ParallelFor, IsCancelled) {
  on_seeds([] {
    int calls = 0;
    EXPECT_FALSE(timeout(3500us, [&] {
      parallel_for(std::size_t{1'000'000'000}, [&](std::size_t) {
        ++calls;
        sleep_for(1ms);
      });
      ADD_FAILURE();
    }));
    EXPECT_GT(calls, 0);
    expect_no_timer_left();
  });
}

TEST(ParallelFor, InACancelledScopeCallsNobody) {
  everywhere([] {
    EXPECT_FALSE(cancel_scope([](CancelScope& scope) {
      scope.cancel();
      parallel_for(std::size_t{10}, [](std::size_t) { ADD_FAILURE(); });
    }));
  });
}

TEST(ParallelFor, BodiesMayWaitAndNest) {
  everywhere([] {
    std::atomic<int> sum{0};
    parallel_for(std::size_t{8}, [&](std::size_t) {
      this_fiber::yield();
      parallel_for(std::size_t{8}, [&](std::size_t) { ++sum; });
    });
    EXPECT_EQ(sum, 64);
  });
}

}  // namespace
}  // namespace weft
