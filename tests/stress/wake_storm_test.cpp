// A million wakes across workers: none is lost, and none enqueues a fiber twice.
//
// On each worker stands a captain whose crew stays there with it. A captain wakes the crew of the
// next, so that every wake comes from another thread. A wake that is lost stops the test; one too
// many leaves a permit over, or breaks the count; a fiber that is queued twice breaks rule F2.
#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

// Not pthread_self(): compilers may remember what that returned.
[[gnu::noinline]] pid_t thread_here() { return ::gettid(); }

constexpr long kCrew = 64;

struct Hand {
  Semaphore call{0}, other_call{0};
  long woken = 0;
};

struct Crew {
  explicit Crew() : hands(static_cast<std::size_t>(kCrew)) {}
  std::deque<Hand> hands;
  std::atomic<pid_t> home{0};
  std::atomic<long> to_go{0};
  Semaphore all_ran{0};
};

class Storm {
 public:
  Storm(unsigned workers, long wakes)
      : crews_(workers), rounds_(std::max(1L, wakes / (static_cast<long>(workers) * kCrew))) {}

  // `lead(mine)` is what a captain does; `serve(crew, hand)` what a hand does.
  template <class Lead, class Serve>
  void run(Lead lead, Serve serve) {
    nursery({.migration = Migration::until_started}, [&](Nursery& n) {
      for (std::size_t i = 0; i < crews_.size(); ++i)
        n.spawn([&, i] {
          // Nobody goes on before there is one on each worker: whoever stands here keeps it.
          started_.fetch_add(1);
          while (started_ < crews_.size()) std::this_thread::yield();
          crews_[i].home = thread_here();
          nursery({.migration = Migration::pinned}, [&](Nursery& crew) {
            for (Hand& hand : crews_[i].hands)
              crew.spawn([&, i] {
                EXPECT_EQ(thread_here(), crews_[i].home);
                serve(crews_[i], hand);
                EXPECT_EQ(thread_here(), crews_[i].home);
              });
            if (ready_.fetch_add(1) + 1 == crews_.size()) all_ready_.set();
            all_ready_.wait();
            lead(i);
          });
        });
    });
  }

  [[nodiscard]] long rounds() const { return rounds_; }
  [[nodiscard]] std::deque<Crew>& crews() { return crews_; }
  [[nodiscard]] Crew& crew(std::size_t i) { return crews_[i % crews_.size()]; }

 private:
  std::deque<Crew> crews_;
  const long rounds_;
  std::atomic<std::size_t> started_{0}, ready_{0};
  Event all_ready_;
};

class WakeStorm : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Of, WakeStorm, ::testing::Values(2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

TEST_P(WakeStorm, AMillionWakesFromOtherWorkers) {
  const unsigned workers = GetParam();
  Storm storm{workers, testing::scaled(1'000'000)};
  std::atomic<long> across{0};
  FiberIo{{.workers = workers}}.run([&] {
    storm.run(
        [&](std::size_t mine) {
          Crew& next = storm.crew(mine + 1);
          if (thread_here() != next.home) across.fetch_add(storm.rounds() * kCrew);
          for (long round = 0; round < storm.rounds(); ++round) {
            next.to_go = kCrew;
            for (Hand& hand : next.hands) hand.call.release();
            next.all_ran.acquire();
          }
        },
        [&](Crew& own, Hand& hand) {
          while (hand.woken < storm.rounds()) {
            hand.call.acquire();
            ++hand.woken;
            if (own.to_go.fetch_sub(1) == 1) own.all_ran.release();
          }
        });
  });
  long woken = 0;
  for (Crew& crew : storm.crews()) {
    EXPECT_EQ(crew.all_ran.available(), 0U);
    for (Hand& hand : crew.hands) {
      EXPECT_EQ(hand.call.available(), 0U);
      woken += hand.woken;
    }
  }
  EXPECT_EQ(woken, storm.rounds() * kCrew * workers);
  EXPECT_EQ(across.load(), woken);
}

// Two captains at a time want to wake the same hand, each through a semaphore of its own. One wins;
// the other's permit waits for the next time.
TEST_P(WakeStorm, TwoWakersForEachSleeper) {
  const unsigned workers = GetParam();
  Storm storm{workers, testing::scaled(300'000)};
  FiberIo{{.workers = workers}}.run([&] {
    storm.run(
        [&](std::size_t mine) {
          for (long round = 0; round < storm.rounds(); ++round) {
            for (Hand& hand : storm.crew(mine + 1).hands) hand.call.release();
            for (Hand& hand : storm.crew(mine + 2).hands) hand.other_call.release();
            storm.crew(mine).all_ran.acquire();  // mostly they are parked again by then
          }
        },
        [&](Crew& own, Hand& hand) {
          while (hand.woken < 2 * storm.rounds()) {
            auto one = hand.call.on_acquire();
            auto other = hand.other_call.on_acquire();
            Waitable* const arms[] = {&one, &other};
            ASSERT_LT(wait(std::span<Waitable* const>{arms},
                           static_cast<std::size_t>(hand.woken % 2)),
                      2U);
            ++hand.woken;
            if (own.to_go.fetch_add(1) % (2 * kCrew) == 2 * kCrew - 1) own.all_ran.release();
          }
        });
  });
  for (Crew& crew : storm.crews()) {
    EXPECT_EQ(crew.all_ran.available(), 0U);
    for (Hand& hand : crew.hands) {
      EXPECT_EQ(hand.woken, 2 * storm.rounds());
      EXPECT_EQ(hand.call.available() + hand.other_call.available(), 0U);
    }
  }
}

}  // namespace
}  // namespace weft
