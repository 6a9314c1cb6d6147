// The shipped BriefLock under the explorer: mutual exclusion, no lost wake, a lock that the next
// holder may destroy. The mutants here are made in its policy, so that the lock is never copied.
#include <gtest/gtest.h>

#include <weft/base/brief_lock.hpp>
#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>

#include "explorer/expect.hpp"
#include "model_sync.hpp"

namespace weft::model {
namespace {

// The lock's back-off gives up after six rounds; the model must be able to get past it.
constexpr unsigned kBackOffRounds = 6;

// What a model of the lock must find: nothing, or the fault that a mutant build has put in.
constexpr Failure kExpected = mutant::kUnlockForgetsSleeper ? Failure::deadlock
                              : mutant::kUnlockRelaxed      ? Failure::race
                                                            : Failure::none;

// `threads` threads add one to plain data, `rounds` times each.
template <class Policy, unsigned kThreads, int kRounds>
void adders(Program& p) {
  struct State {
    BriefLock<Policy> lock;
    ModelSync::Var<int> sum{0};
  };
  auto& s = p.make<State>();
  name(&s.lock, "lock");
  name(&s.sum, "sum");
  constexpr const char* kNames[] = {"one", "two", "three"};
  for (unsigned i = 0; i < kThreads; ++i)
    p.thread(kNames[i], [&s] {
      for (int round = 0; round < kRounds; ++round) {
        s.lock.lock();
        s.sum.write(s.sum.read() + 1);
        s.lock.unlock();
      }
    });
  p.at_end([&s] { check(s.sum.read() == kRounds * int{kThreads}, "every addition counts"); });
}

void expect_as_built(const Result& result) {
  EXPECT_EQ(result.kind, kExpected) << result.report;
  if (kExpected != Failure::none) return;
  EXPECT_TRUE(result.complete);
  EXPECT_GT(result.sleeps, 0U) << "the contended path was not reached";
}

TEST(BriefLock, TwoThreads) {
  const Result result = explore({.name = "BriefLock, 2 threads", .eager_spins = kBackOffRounds},
                                adders<ModelSync, 2, 1>);
  expect_as_built(result);
  expect_as_built(explore({.name = "BriefLock, 2 threads, spurious wakes",
                           .spurious_wakes = true,
                           .eager_spins = kBackOffRounds},
                          adders<ModelSync, 2, 1>));
}

TEST(BriefLock, TwoThreadsTwice) {
  expect_as_built(explore({.name = "BriefLock, 2 threads x 2", .eager_spins = kBackOffRounds},
                          adders<ModelSync, 2, 2>));
}

TEST(BriefLock, ThreeThreads) {
  const Result result = explore({.name = "BriefLock, 3 threads",
                                 .mode = Mode::bound,
                                 .bound = 2,
                                 .eager_spins = kBackOffRounds},
                                adders<ModelSync, 3, 1>);
  expect_as_built(result);
}

TEST(BriefLock, TryLockNeverWaits) {
  if (kExpected != Failure::none) GTEST_SKIP() << "nobody sleeps here";
  struct State {
    BriefLock<ModelSync> lock;
    ModelSync::Var<int> sum{0};
    ModelSync::Atomic<int> refused{0};
  };
  const Result result = explore({.name = "BriefLock, try_lock"}, [](Program& p) {
    auto& s = p.make<State>();
    for (const char* thread : {"one", "two"})
      p.thread(thread, [&s] {
        if (s.lock.try_lock()) {
          s.sum.write(s.sum.read() + 1);
          s.lock.unlock();
        } else {
          s.refused.fetch_add(1);
        }
      });
    p.at_end([&s] { check(s.sum.read() + s.refused.load() == 2, "each either got it or not"); });
  });
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.sleeps, 0U);
}

// unlock() touches the lock last of all: whoever locks next may destroy it, although the previous
// holder may not yet have told the kernel whom to wake.
TEST(BriefLock, TheNextHolderMayDestroyIt) {
  struct Shared {
    BriefLock<ModelSync> lock;
    ModelSync::Var<bool> last{false};
  };
  const Result result =
      explore({.name = "BriefLock, destroyed by the next holder", .eager_spins = kBackOffRounds},
              [](Program& p) {
                Shared* const shared = make<Shared>();
                for (const char* thread : {"one", "two"})
                  p.thread(thread, [shared] {
                    shared->lock.lock();
                    const bool last = shared->last.read();
                    shared->last.write(true);
                    shared->lock.unlock();
                    if (last) destroy(shared);
                  });
              });
  expect_as_built(result);
}

// ---- mutants by policy --------------------------------------------------------------------------

struct DeafSync : ModelSync {
  template <class T>
  static void wake(const Atomic<T>&, unsigned) noexcept {}
};

// Turns every order of a read-modify-write that matches kFrom into relaxed.
template <std::memory_order kFrom>
struct WeakenedSync : ModelSync {
  template <class T>
  class Atomic : public ModelSync::Atomic<T> {
    using Base = ModelSync::Atomic<T>;
    static constexpr std::memory_order weaken(std::memory_order order) noexcept {
      return order == kFrom ? std::memory_order_relaxed : order;
    }

   public:
    using Base::Base;
    T exchange(T value, std::memory_order order) noexcept {
      return Base::exchange(value, weaken(order));
    }
    bool compare_exchange_strong(T& expected, T value, std::memory_order success,
                                 std::memory_order failure) noexcept {
      return Base::compare_exchange_strong(expected, value, weaken(success), failure);
    }
  };
};

TEST(BriefLockMutants, AnUnlockThatWakesNobodyIsNoticed) {
  if (kExpected != Failure::none) GTEST_SKIP() << "one fault at a time";
  const Options options{.name = "BriefLock without wake", .eager_spins = kBackOffRounds};
  EXPECT_TRUE(expect_bug(options, adders<DeafSync, 2, 1>, Failure::deadlock));
}

TEST(BriefLockMutants, WeakerOrdersAreNoticed) {
  if (kExpected != Failure::none) GTEST_SKIP() << "one fault at a time";
  const Options unlocking{.name = "BriefLock, relaxed unlock", .eager_spins = kBackOffRounds};
  EXPECT_TRUE(
      expect_bug(unlocking, adders<WeakenedSync<std::memory_order_release>, 2, 1>, Failure::race));
  const Options locking{.name = "BriefLock, relaxed lock", .eager_spins = kBackOffRounds};
  EXPECT_TRUE(
      expect_bug(locking, adders<WeakenedSync<std::memory_order_acquire>, 2, 1>, Failure::race));
}

}  // namespace
}  // namespace weft::model
