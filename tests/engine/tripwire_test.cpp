// Real clocks, real sleeps and locks that would block, in a simulated run: found in checked builds,
// with the place and what to use instead.
#include "arch/tripwire.hpp"

#include <weft/weft.hpp>

#include <support/child_process.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

// Functions whose names are looked for in backtraces.
extern "C" {
[[gnu::noinline]] void weft_test_reads_steady() {
  static_cast<void>(std::chrono::steady_clock::now());
  asm volatile("");
}
[[gnu::noinline]] void weft_test_sleeps() {
  std::this_thread::sleep_for(std::chrono::microseconds{1});
  asm volatile("");
}
[[gnu::noinline]] void weft_test_wants(std::mutex& mutex) {
  mutex.lock();
  asm volatile("");
}
[[gnu::noinline]] void weft_test_keeps(std::mutex& mutex) {
  mutex.lock();
  asm volatile("");
}
}

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Tripwire : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!arch::kHasTripwire)
      GTEST_SKIP() << "there is a tripwire in checked builds, and where no sanitizer is";
    set_held_lock_hook([](const Finding&) {});  // they have tests of their own
    set_tripwire_hook([this](const Finding& finding) {
      names_.emplace_back(finding.name);
      texts_.emplace_back(finding.text);
    });
  }
  void TearDown() override {
    set_tripwire_hook({});
    set_held_lock_hook({});
  }

  // What `body` trips over as the root of a simulated run.
  std::vector<std::string> findings_of(const std::function<void()>& body) {
    texts_.clear();
    names_.clear();
    SimIo io;
    io.run(body);
    return texts_;
  }

  std::vector<std::string> names_, texts_;
};

// ── each kind ───────────────────────────────────────────────────────────────────────────────────

TEST_F(Tripwire, AClockIsNamedWithItsPlaceAndWhatToUse) {
  const auto found = findings_of([] {
    nursery([](Nursery& n) {
      n.spawn("reader", [] {
        this_fiber::yield();
        weft_test_reads_steady();
      });
    });
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(names_[0], "reader");
  EXPECT_THAT(found[0],
              AllOf(HasSubstr("\"reader\" looks at a real clock in a simulated run: "
                              "clock_gettime()\n"),
                    HasSubstr("  spawned at "), HasSubstr("tripwire_test.cpp:"),
                    HasSubstr("use weft::Clock::now()\n"), HasSubstr("weft_test_reads_steady+0x"),
                    HasSubstr("weft::RealWorld")));
}

TEST_F(Tripwire, EveryClockCounts) {
  const struct {
    const char* function;
    std::function<void()> look;
  } clocks[] = {
      {"clock_gettime", [] { static_cast<void>(std::chrono::system_clock::now()); }},
      {"clock_gettime", [] { static_cast<void>(std::chrono::high_resolution_clock::now()); }},
      {"clock_gettime",
       [] {
         timespec at{};
         ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
       }},
      {"gettimeofday",
       [] {
         timeval at{};
         ::gettimeofday(&at, nullptr);
       }},
      {"time", [] { static_cast<void>(std::time(nullptr)); }},
      {"timespec_get",
       [] {
         std::timespec at{};
         static_cast<void>(std::timespec_get(&at, TIME_UTC));
       }},
  };
  for (const auto& clock : clocks) {
    const auto found = findings_of(clock.look);
    ASSERT_EQ(found.size(), 1U) << clock.function;
    EXPECT_THAT(found[0], HasSubstr("looks at a real clock in a simulated run: " +
                                    std::string{clock.function} + "()\n"));
  }
}

TEST_F(Tripwire, EverySleepCounts) {
  const struct {
    const char* function;
    std::function<void()> nap;
  } naps[] = {
      {"nanosleep", &weft_test_sleeps},
      {"clock_nanosleep",
       [] {
         const timespec span{0, 1};
         ::clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
       }},
      {"usleep", [] { ::usleep(1); }},
      {"sleep", [] { ::sleep(0); }},
      {"poll", [] { ::poll(nullptr, 0, 1); }},
      {"ppoll",
       [] {
         const timespec span{0, 1};
         ::ppoll(nullptr, 0, &span, nullptr);
       }},
      {"select",
       [] {
         timeval span{0, 1};
         ::select(0, nullptr, nullptr, nullptr, &span);
       }},
      {"pselect",
       [] {
         const timespec span{0, 1};
         ::pselect(0, nullptr, nullptr, nullptr, &span, nullptr);
       }},
  };
  for (const auto& nap : naps) {
    const auto found = findings_of(nap.nap);
    ASSERT_EQ(found.size(), 1U) << nap.function;
    EXPECT_THAT(found[0], AllOf(HasSubstr("sleeps in earnest in a simulated run: " +
                                          std::string{nap.function} + "()\n"),
                                HasSubstr("use weft::sleep_for\n")));
  }
  EXPECT_THAT(findings_of(&weft_test_sleeps).at(0), HasSubstr("weft_test_sleeps+0x"));
  // Neither waits for anything.
  EXPECT_TRUE(findings_of([] {
                ::poll(nullptr, 0, 0);
                timeval none{};
                ::select(0, nullptr, nullptr, nullptr, &none);
              }).empty());
}

// Held by another thread, which releases it once the fiber has been found out.
TEST_F(Tripwire, ALockThatAnotherThreadHoldsIsReportedAndThenWaitedFor) {
  std::mutex mutex;
  std::atomic<bool> held{false}, found{false};
  set_tripwire_hook([&](const Finding& finding) {
    texts_.emplace_back(finding.text);
    found = true;
  });
  std::thread holder{[&] {
    const std::lock_guard locked{mutex};
    held = true;
    while (!found) std::this_thread::yield();
  }};
  while (!held) std::this_thread::yield();
  const auto texts = findings_of([&] {
    weft_test_wants(mutex);
    mutex.unlock();
  });
  holder.join();
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("would block in a lock that is held in a simulated run: "
                                        "pthread_mutex_lock()\n"),
                              HasSubstr("use weft::Mutex"), HasSubstr("weft_test_wants+0x"),
                              Not(HasSubstr("holds it"))));
}

TEST_F(Tripwire, ALockWithALimitIsReportedWhoeverHoldsIt) {
  std::timed_mutex timed;
  std::shared_timed_mutex shared;
  const auto texts = findings_of([&] {
    nursery([&](Nursery& n) {
      n.spawn("keeper", [&] {
        timed.lock();
        shared.lock_shared();
        sleep_for(1s);
        shared.unlock_shared();
        timed.unlock();
      });
      sleep_for(1ms);
      const auto now = std::chrono::steady_clock::time_point{};  // long ago
      EXPECT_FALSE(timed.try_lock_until(now));
      EXPECT_FALSE(shared.try_lock_until(now));
    });
  });
  ASSERT_EQ(texts.size(), 2U) << ::testing::PrintToString(texts);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("pthread_mutex_clocklock()"),
                              HasSubstr("\"keeper\" holds it, and locked it at\n")));
  EXPECT_THAT(texts[1], AllOf(HasSubstr("pthread_rwlock_clockwrlock()"),
                              HasSubstr("\"keeper\" holds it, and locked it at\n")));
}

TEST_F(Tripwire, ALockThatChecksItselfReturnsItsError) {
  pthread_mutexattr_t kind;
  ::pthread_mutexattr_init(&kind);
  ::pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_t mutex;
  ::pthread_mutex_init(&mutex, &kind);
  std::shared_mutex shared;
  const auto texts = findings_of([&] {
    EXPECT_EQ(::pthread_mutex_lock(&mutex), 0);
    EXPECT_EQ(::pthread_mutex_lock(&mutex), EDEADLK);
    ::pthread_mutex_unlock(&mutex);
    const std::lock_guard locked{shared};
    EXPECT_THROW(shared.lock(), std::system_error);
  });
  EXPECT_EQ(texts.size(), 2U);
  ::pthread_mutex_destroy(&mutex);
  ::pthread_mutexattr_destroy(&kind);
}

TEST_F(Tripwire, LocksThatAreFreeAreFine) {
  std::mutex mutex;
  std::recursive_mutex twice;
  std::shared_mutex shared;
  EXPECT_TRUE(findings_of([&] {
                for (int i = 0; i < 3; ++i) {
                  { const std::scoped_lock locked{mutex, twice}; }
                  { const std::shared_lock locked{shared}; }
                  { const std::lock_guard locked{shared}; }
                  twice.lock(), twice.lock(), twice.unlock(), twice.unlock();
                  EXPECT_TRUE(mutex.try_lock());
                  EXPECT_FALSE(std::unique_lock(mutex, std::try_to_lock).owns_lock());
                  mutex.unlock();
                  this_fiber::yield();
                }
              }).empty());
}

TEST_F(Tripwire, ConditionVariablesCount) {
  std::mutex mutex;
  std::condition_variable changed;
  const auto texts = findings_of([&] {
    std::unique_lock locked{mutex};
    changed.wait_until(locked, std::chrono::steady_clock::time_point{});
  });
  ASSERT_FALSE(texts.empty());
  EXPECT_THAT(texts[0],
              AllOf(HasSubstr("would block in a condition variable"), HasSubstr("weft::CondVar")));
  // Another thread may end it.
  bool ready = false;
  set_tripwire_hook([&](const Finding& finding) { texts_.emplace_back(finding.text); });
  std::thread other;
  const auto waited = findings_of([&] {
    std::unique_lock locked{mutex};
    other = std::thread{[&] {
      const std::lock_guard theirs{mutex};
      ready = true;
      changed.notify_one();
    }};
    while (!ready) changed.wait(locked);
  });
  other.join();
  ASSERT_EQ(waited.size(), 1U);
  EXPECT_THAT(waited[0], HasSubstr("pthread_cond_wait()"));
}

// ── how often, and who ──────────────────────────────────────────────────────────────────────────

TEST_F(Tripwire, APlaceIsNamedOnceInARun) {
  const auto program = [] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 5; ++i)
        n.spawn([] {
          for (int k = 0; k < 3; ++k) weft_test_reads_steady();
          this_fiber::yield();
          weft_test_reads_steady();
        });
    });
    weft_test_reads_steady();
  };
  EXPECT_EQ(findings_of(program).size(), 1U);
  EXPECT_EQ(findings_of(program).size(), 1U);  // a run of its own
  EXPECT_EQ(findings_of([] {
              static_cast<void>(std::chrono::steady_clock::now());
              asm volatile("");
              static_cast<void>(std::chrono::steady_clock::now());  // another place
            }).size(),
            2U);
}

TEST_F(Tripwire, OtherEnginesAndThreadsAreInTheRealWorld) {
  FiberIo{{.workers = 1}}.run([] {
    weft_test_reads_steady();
    weft_test_sleeps();
    nursery([](Nursery& n) { n.spawn(&weft_test_sleeps); });
  });
  EXPECT_TRUE(texts_.empty());
  EXPECT_TRUE(findings_of([] {
                std::thread{[] {
                  weft_test_reads_steady();
                  weft_test_sleeps();
                }}.join();
                FiberIo{{.workers = 1}}.run([] {
                  weft_test_sleeps();
                  const RealWorld meant;  // nobody asked
                });
              }).empty());
  // Before a run and after it, too.
  weft_test_reads_steady();
  EXPECT_TRUE(texts_.empty());
}

TEST_F(Tripwire, ASimulationInsideAnEngineHasItsOwn) {
  FiberIo{{.workers = 1}}.run([&] {
    EXPECT_EQ(findings_of(&weft_test_reads_steady).size(), 1U);
    weft_test_reads_steady();
    EXPECT_EQ(texts_.size(), 1U);
  });
  EXPECT_EQ(findings_of([&] {
              SimIo{}.run(&weft_test_sleeps);
              weft_test_reads_steady();
            }).size(),
            2U);
}

// ── what is no finding ──────────────────────────────────────────────────────────────────────────

// One of everything that has to do with time and waiting.
void busy_program() {
  Channel<int> numbers{2};
  Mutex mutex;
  Event done;
  std::ostringstream dumped;
  int sum = 0;
  nursery({.name = "all"}, [&](Nursery& n) {
    n.spawn([&, tx = std::move(numbers.tx)] {
      for (int i = 0; i < 10; ++i) {
        sleep_for(1h);
        if (!tx.send(i)) return;
      }
      done.set();
    });
    n.spawn([&] {
      for (const int number : numbers.rx) {
        const std::lock_guard locked{mutex};
        this_fiber::yield();
        sum += number;
      }
    });
    n.spawn([&] {
      EXPECT_EQ(select(done.on_set(), after(100h)), 0U);
      EXPECT_FALSE(timeout(1s, [] { sleep_for(1h); }));
    });
    n.spawn([&] { dump_all(dumped); });
  });
  // An engine in real time, looked at from outside.
  FiberIo real{{.workers = 1}};
  real.run([] { sleep_for(1us); });
  dump_all(dumped);
  static_cast<void>(io().random());
  EXPECT_EQ(sum, 45);
  EXPECT_FALSE(dumped.str().empty());
}

TEST_F(Tripwire, WeftItselfStaysOutOfTheRealWorld) {
  EXPECT_EQ(findings_of(&busy_program), std::vector<std::string>{});
}

// Some of them look at the clock now and then. Under ctest this is run with such ones.
TEST_F(Tripwire, AllocatorsHaveClocksOfTheirOwn) {
  for (int round = 0; round < 20; ++round)
    ASSERT_EQ(findings_of([] {
                std::vector<std::vector<char>> kept;
                for (std::size_t i = 0; i < 20'000; ++i) {
                  kept.emplace_back(i % 5000 + 1);
                  if (i % 3 == 0) kept[i / 4 % kept.size()] = {};
                }
              }),
              std::vector<std::string>{});
}

TEST_F(Tripwire, WhatIsMeantIsNotReported) {
  EXPECT_TRUE(findings_of([] {
                const RealWorld meant;
                weft_test_reads_steady();
                weft_test_sleeps();
                this_fiber::yield();
                const RealWorld twice;
                weft_test_reads_steady();
              }).empty());
  // It is the fiber's own, and ends with its scope.
  const auto texts = findings_of([] {
    nursery([](Nursery& n) {
      n.spawn("meant", [] {
        const RealWorld meant;
        sleep_for(1s);
        weft_test_reads_steady();
        sleep_for(1s);
      });
      n.spawn("other", [] {
        sleep_for(1500ms);
        weft_test_sleeps();
      });
    });
    { const RealWorld meant; }
    weft_test_reads_steady();
  });
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(names_[0], "other");
  EXPECT_EQ(names_[1], "main");
  const RealWorld nowhere;  // on a plain thread there is nothing to mean
}

TEST_F(Tripwire, TheErrorNumberIsTheCalls) {
  findings_of([] {
    errno = 0;
    weft_test_reads_steady();
    EXPECT_EQ(errno, 0);
    const timespec wrong{-1, 0};
    EXPECT_EQ(::nanosleep(&wrong, nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
  });
}

// ── what is done about it ───────────────────────────────────────────────────────────────────────

// Programs that this one runs as children, by name, in WEFT_TEST_VICTIM.
void look_twice() {
  for (std::uint64_t seed = 0; seed < 3; ++seed) SimIo{{.seed = seed}}.run(&weft_test_reads_steady);
}

void lock_over_a_wait() {
  std::mutex mutex;
  SimIo{}.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("keeper", [&] {
        weft_test_keeps(mutex);
        sleep_for(1s);
        mutex.unlock();
      });
      n.spawn("wanter", [&] {
        const RealWorld meant;  // not even then
        sleep_for(1ms);
        weft_test_wants(mutex);
      });
    });
  });
}

void lock_twice() {
  std::mutex mutex;
  SimIo{}.run([&] {
    weft_test_keeps(mutex);
    weft_test_wants(mutex);
  });
}

void read_and_write() {
  std::shared_mutex shared;
  SimIo{}.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("reader", [&] {
        const std::shared_lock locked{shared};
        sleep_for(1s);
      });
      sleep_for(1ms);
      const std::lock_guard locked{shared};
    });
  });
}

void lock_of_the_caller() {
  std::mutex mutex;
  weft_test_keeps(mutex);
  SimIo{}.run([&] { weft_test_wants(mutex); });
}

const struct {
  std::string_view name;
  void (*run)();
} kVictims[] = {{"look_twice", &look_twice},
                {"lock_over_a_wait", &lock_over_a_wait},
                {"lock_twice", &lock_twice},
                {"read_and_write", &read_and_write},
                {"lock_of_the_caller", &lock_of_the_caller}};

class TripwireVictim : public Tripwire {
 protected:
  void SetUp() override {
    Tripwire::SetUp();
    set_tripwire_hook({});
  }
  static ::weft::testing::ChildResult victim(const std::string& name,
                                             const std::string& what = "report") {
    return ::weft::testing::run_child(
        {::weft::testing::sibling_program("tripwire_test"), "--gtest_filter=TripwireVictim.Itself"},
        {"WEFT_TEST_VICTIM=" + name, "WEFT_ON_TRIPWIRE=" + what});
  }
};

TEST_F(TripwireVictim, Itself) {
  const char* const name = std::getenv("WEFT_TEST_VICTIM");
  if (!name) return;  // for the tests below
  for (const auto& each : kVictims)
    if (each.name == name) return each.run();
  FAIL() << name;
}

TEST_F(TripwireVictim, TheEnvironmentSaysWhatToDo) {
  const auto reported = victim("look_twice");
  EXPECT_EQ(reported.exit_code, 0) << reported.output;
  const std::string words = "weft: fiber #1 \"main\" looks at a real clock";
  EXPECT_THAT(reported.output, HasSubstr(words));
  // On standard error once for all runs.
  EXPECT_EQ(reported.output.find(words), reported.output.rfind(words)) << reported.output;
  const auto ignored = victim("look_twice", "ignore");
  EXPECT_EQ(ignored.exit_code, 0);
  EXPECT_THAT(ignored.output, Not(HasSubstr("weft: ")));
  const auto aborted = victim("look_twice", "abort");
  EXPECT_EQ(aborted.signal, SIGABRT);
  EXPECT_THAT(aborted.output, HasSubstr(words));
}

TEST_F(TripwireVictim, ALockOfAnotherFiberIsTheEnd) {
  for (const char* what : {"report", "ignore"}) {
    const auto result = victim("lock_over_a_wait", what);
    EXPECT_EQ(result.signal, SIGABRT) << result.output;
    EXPECT_THAT(
        result.output,
        AllOf(HasSubstr("\"wanter\" would block in a lock that is held"),
              HasSubstr("weft_test_wants+0x"), HasSubstr("\"keeper\" holds it, and locked it at\n"),
              HasSubstr("weft_test_keeps+0x"),
              HasSubstr("nobody can ever end that wait, so the program ends here\n")));
  }
}

TEST_F(TripwireVictim, SoIsOnesOwnOrTheCallers) {
  const auto own = victim("lock_twice");
  EXPECT_EQ(own.signal, SIGABRT) << own.output;
  EXPECT_THAT(own.output, AllOf(HasSubstr("the same fiber holds it, and locked it at\n"),
                                HasSubstr("weft_test_keeps+0x")));
  const auto readers = victim("read_and_write");
  EXPECT_EQ(readers.signal, SIGABRT) << readers.output;
  EXPECT_THAT(readers.output, HasSubstr("\"reader\" holds it, and locked it at\n"));
  const auto callers = victim("lock_of_the_caller");
  EXPECT_EQ(callers.signal, SIGABRT) << callers.output;
  EXPECT_THAT(callers.output, HasSubstr("the calling thread itself holds it\n"));
}

}  // namespace
}  // namespace weft
