// Locks of the C library held while a fiber gives way: found in checked builds, both places named.
#include "arch/held_locks.hpp"

#include <weft/weft.hpp>

#include <support/child_process.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

extern "C" {
[[gnu::noinline]] void weft_test_locks(std::mutex& mutex) {
  mutex.lock();
  asm volatile("");
}
[[gnu::noinline]] void weft_test_waits(weft::Event& event) {
  event.wait();
  asm volatile("");
}
}

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class HeldLocks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!arch::kWatchesLocks)
      GTEST_SKIP() << "locks are watched in checked builds, and where no sanitizer watches them";
    set_held_lock_hook([this](const Finding& finding) {
      const std::lock_guard locked{mutex_};
      names_.emplace_back(finding.name);
      texts_.emplace_back(finding.text);
    });
  }
  void TearDown() override { set_held_lock_hook({}); }

  // How many findings `body` makes as the root of an engine in which a second fiber also runs.
  template <class F>
  std::size_t findings_of(F body) {
    const std::size_t before = texts_.size();
    FiberIo io{{.workers = 1}};
    io.run(body);
    return texts_.size() - before;
  }

  std::mutex mutex_;
  std::vector<std::string> names_, texts_;
};

// Waits, and is woken.
void park() { sleep_for(1ms); }

TEST_F(HeldLocks, BothPlacesAreNamed) {
  const auto program = [] {
    std::mutex mutex;
    Event event;
    nursery([&](Nursery& n) {
      n.spawn("holder", [&] {
        weft_test_locks(mutex);
        weft_test_waits(event);
        mutex.unlock();
      });
      this_fiber::yield();
      event.set();
    });
  };
  EXPECT_EQ(findings_of(program), 1U);
  ASSERT_EQ(texts_.size(), 1U);
  EXPECT_EQ(names_[0], "holder");
  const std::string& text = texts_[0];
  EXPECT_THAT(text, AllOf(HasSubstr("\"holder\" waits with a lock held that is not weft's\n"),
                          HasSubstr("weft_test_locks+0x"), HasSubstr("weft_test_waits+0x")));
  EXPECT_LT(text.find("it was locked at"), text.find("weft_test_locks"));
  EXPECT_LT(text.find("weft_test_locks"), text.find("the fiber waits at"));
  EXPECT_LT(text.find("the fiber waits at"), text.find("weft_test_waits"));
}

TEST_F(HeldLocks, TheSimulatorFindsThemToo) {
  std::mutex mutex;
  SimIo io;
  io.run([&] {
    const std::lock_guard locked{mutex};
    sleep_for(1h);
  });
  EXPECT_EQ(texts_.size(), 1U);
}

TEST_F(HeldLocks, APlaceIsNamedOnce) {
  std::mutex mutex;
  EXPECT_EQ(findings_of([&] {
              for (int i = 0; i < 5; ++i) {
                const std::lock_guard locked{mutex};
                park();
                park();
              }
            }),
            1U);
}

TEST_F(HeldLocks, WhatIsReleasedBeforeTheWaitIsFine) {
  std::mutex mutex;
  std::recursive_mutex twice;
  std::timed_mutex timed;
  std::shared_mutex shared;
  EXPECT_EQ(findings_of([&] {
              for (int i = 0; i < 3; ++i) {
                { const std::lock_guard locked{mutex}; }
                park();
                { const std::scoped_lock locked{mutex, twice, timed}; }
                park();
                { const std::shared_lock locked{shared}; }
                if (timed.try_lock_for(1s)) timed.unlock();
                twice.lock(), twice.lock(), twice.unlock(), twice.unlock();
                this_fiber::yield();
              }
            }),
            0U);
}

TEST_F(HeldLocks, TryLockLocksIfItCan) {
  std::mutex mutex;
  EXPECT_EQ(findings_of([&] {
              ASSERT_TRUE(mutex.try_lock());
              park();
              mutex.unlock();
            }),
            1U);
  mutex.lock();
  EXPECT_EQ(findings_of([&] {
              EXPECT_FALSE(std::unique_lock(mutex, std::try_to_lock).owns_lock());
              park();
            }),
            0U);
  mutex.unlock();
}

TEST_F(HeldLocks, ARecursiveMutexIsHeldUntilItsLastUnlock) {
  std::recursive_mutex mutex;
  EXPECT_EQ(findings_of([&] {
              mutex.lock();
              mutex.lock();
              mutex.unlock();
              park();
              mutex.unlock();
              park();
            }),
            1U);
}

TEST_F(HeldLocks, AConditionVariablesMutexIsHeldAfterTheWait) {
  std::mutex mutex;
  std::condition_variable changed;
  EXPECT_EQ(findings_of([&] {
              std::unique_lock locked{mutex};
              changed.wait_for(locked, 1ms);
              locked.unlock();
              park();
            }),
            0U);
  EXPECT_EQ(findings_of([&] {
              std::unique_lock locked{mutex};
              changed.wait_for(locked, 1ms);
              park();
            }),
            1U);
}

TEST_F(HeldLocks, EachOfTwoIsFound) {
  std::mutex a, b;
  EXPECT_EQ(findings_of([&] {
              const std::scoped_lock locked{a, b};
              park();
            }),
            2U);
}

TEST_F(HeldLocks, TimedAndSharedLocksAreFoundToo) {
  std::timed_mutex timed;
  std::shared_mutex shared;
  EXPECT_EQ(findings_of([&] {
              ASSERT_TRUE(timed.try_lock_for(1s));
              park();
              timed.unlock();
            }),
            1U);
  EXPECT_EQ(findings_of([&] {
              const std::shared_lock locked{shared};
              park();
            }),
            1U);
}

TEST_F(HeldLocks, YieldsAndEndsCount) {
  std::mutex mutex;
  EXPECT_EQ(findings_of([&] {
              mutex.lock();
              this_fiber::yield();
              mutex.unlock();
            }),
            1U);
  EXPECT_THAT(texts_.back(), HasSubstr("yields with a lock held"));
  EXPECT_EQ(findings_of([&] {
              nursery([&](Nursery& n) {
                n.spawn([&] {
                  park();  // so that it is not called in place
                  mutex.lock();
                });
              });
            }),
            1U);
  EXPECT_THAT(texts_.back(), HasSubstr("ends with a lock held"));
  mutex.unlock();
}

TEST_F(HeldLocks, AChildRunInPlaceIsNotBlamedForItsParent) {
  std::mutex mutex;
  EXPECT_EQ(findings_of([&] {
              this_fiber::set_name("parent");
              const std::lock_guard locked{mutex};
              nursery([](Nursery& n) { n.spawn("child", &park); });
            }),
            1U);
  EXPECT_EQ(names_.back(), "parent");
}

TEST_F(HeldLocks, TheLocksOfWhoCallsRunAreItsOwn) {
  std::mutex outer, inner;
  const std::lock_guard locked{outer};
  EXPECT_EQ(findings_of([] { park(); }), 0U);
  // Likewise an engine inside a fiber; and the outer fiber is found when it waits itself.
  EXPECT_EQ(findings_of([&] {
              const std::lock_guard holds{inner};
              SimIo{}.run(&park);
              EXPECT_TRUE(texts_.empty());
              park();
            }),
            1U);
}

TEST_F(HeldLocks, ThreadsThatRunNoFibersAreNotWatched) {
  std::mutex mutex, left;
  Event event;
  std::thread thread{[&] {
    left.lock();  // and never unlocked by it
    const std::lock_guard locked{mutex};
    event.wait();
  }};
  FiberIo{}.run([&] { event.set(); });
  thread.join();
  left.unlock();
  EXPECT_TRUE(texts_.empty());
}

TEST_F(HeldLocks, TheyMayBeReleasedOnAnotherWorker) {
  FiberIo io{{.workers = 2}};
  std::atomic<int> done{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 50; ++i)
        n.spawn([&] {
          std::mutex mutex;
          mutex.lock();
          for (int j = 0; j < 5; ++j) this_fiber::yield();
          mutex.unlock();
          done.fetch_add(1);
        });
    });
  });
  EXPECT_EQ(done, 50);
  // A fiber may be called in place or by its worker, which looks like two places.
  EXPECT_GE(texts_.size(), 1U);
  EXPECT_LE(texts_.size(), 4U);
}

TEST_F(HeldLocks, MoreLocksThanAreRememberedAreNoTrouble) {
  std::vector<std::mutex> many(100);
  findings_of([&] {
    for (std::mutex& mutex : many) mutex.lock();
    park();
    for (std::mutex& mutex : many) mutex.unlock();
    park();
  });
  EXPECT_LE(texts_.size(), 100U);
}

// ── what is done about it ───────────────────────────────────────────────────────────────────────

// Each in a process of its own, which runs this same test.
TEST_F(HeldLocks, TheEnvironmentSaysWhatToDo) {
  if (std::getenv("WEFT_TEST_VICTIM") != nullptr) {
    set_held_lock_hook({});
    std::mutex mutex;
    FiberIo{{.workers = 1}}.run([&] {
      const std::lock_guard locked{mutex};
      park();
    });
    return;
  }
  const auto victim = [](const std::string& what) {
    return ::weft::testing::run_child({::weft::testing::sibling_program("stall_test"),
                                       "--gtest_filter=HeldLocks.TheEnvironmentSaysWhatToDo"},
                                      {"WEFT_TEST_VICTIM=1", "WEFT_ON_HELD_LOCK=" + what});
  };
  const auto reported = victim("report");
  EXPECT_EQ(reported.exit_code, 0) << reported.output;
  EXPECT_THAT(reported.output, HasSubstr("weft: fiber #1 \"main\" waits with a lock held"));
  const auto ignored = victim("ignore");
  EXPECT_EQ(ignored.exit_code, 0);
  EXPECT_EQ(ignored.output.find("weft: "), std::string::npos) << ignored.output;
  const auto aborted = victim("abort");
  EXPECT_EQ(aborted.signal, SIGABRT);
  EXPECT_THAT(aborted.output, HasSubstr("it was locked at"));
}

// A program with locks of its own must link and work; its locks are not watched.
TEST_F(HeldLocks, AProgramMayHaveItsOwnFunctions) {
  const auto child =
      ::weft::testing::run_child({::weft::testing::sibling_program("own_lock_victim")});
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

}  // namespace
}  // namespace weft
