#include "engine/inbox.hpp"

#include <weft/core/frame_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <map>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Frames with ids, and home again at the end.
class Frames {
 public:
  explicit Frames(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      Fiber& fiber = cache_.take(FrameSize::small);
      fiber.id = i;
      fibers_.push_back(&fiber);
    }
  }
  ~Frames() {
    for (Fiber* fiber : fibers_) {
      fiber->id = 0;
      cache_.give(*fiber);
    }
  }
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;
  Fiber& operator[](std::size_t i) { return *fibers_[i]; }

 private:
  FrameCache cache_;
  std::vector<Fiber*> fibers_;
};

std::vector<FiberId> ids(FiberList list) {
  std::vector<FiberId> all;
  while (const Fiber* fiber = list.pop_front()) all.push_back(fiber->id);
  return all;
}

TEST(Inbox, KeepsTheOrderOfArrival) {
  Frames frames{4};
  Inbox inbox;
  EXPECT_TRUE(inbox.empty());
  EXPECT_THAT(ids(inbox.take_all()), IsEmpty());
  for (std::size_t i = 0; i < 4; ++i) inbox.push(frames[i]);
  EXPECT_FALSE(inbox.empty());
  EXPECT_THAT(ids(inbox.take_all()), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(inbox.empty());
  inbox.push(frames[2]);
  EXPECT_THAT(ids(inbox.take_all()), ElementsAre(2));
}

TEST(Inbox, DoesNotSleepWhileSomethingIsInIt) {
  Frames frames{1};
  Inbox inbox;
  inbox.push(frames[0]);
  inbox.sleep(nullptr);  // would sleep for ever
  EXPECT_THAT(ids(inbox.take_all()), ElementsAre(0));
}

TEST(Inbox, AnUnheardTimeoutLeavesItEmpty) {
  Frames frames{1};
  Inbox inbox;
  const std::timespec moment{0, 100'000};
  inbox.sleep(&moment);
  EXPECT_TRUE(inbox.empty());
  EXPECT_THAT(ids(inbox.take_all()), IsEmpty()) << "no trace of the sleeper";
  inbox.push(frames[0]);
  EXPECT_THAT(ids(inbox.take_all()), ElementsAre(0));
}

TEST(Inbox, ANudgeLosesNoFiber) {
  Frames frames{3};
  Inbox inbox;
  inbox.nudge();
  inbox.nudge();
  EXPECT_THAT(ids(inbox.take_all()), IsEmpty());
  inbox.nudge();
  inbox.push(frames[0]);
  inbox.nudge();
  inbox.push(frames[1]);
  inbox.push(frames[2]);
  inbox.nudge();
  EXPECT_THAT(ids(inbox.take_all()), ElementsAre(0, 1, 2));
  EXPECT_TRUE(inbox.empty());
}

// The worker has looked around, found nothing and is about to sleep: what it would find now counts.
TEST(Inbox, ANudgeBeforeTheSleepIsNotForgotten) {
  Inbox inbox;
  EXPECT_TRUE(inbox.empty());
  inbox.nudge();
  inbox.sleep(nullptr);  // would sleep for ever
  EXPECT_THAT(ids(inbox.take_all()), IsEmpty());
  EXPECT_TRUE(inbox.empty());
  const std::timespec moment{0, 100'000};
  inbox.sleep(&moment);  // once looked, forgotten: this one does sleep
  EXPECT_TRUE(inbox.empty());
}

TEST(Inbox, NudgeWakesASleeper) {
  Inbox inbox;
  std::atomic<bool> woken{false};
  std::thread worker{[&] {
    inbox.sleep(nullptr);
    woken.store(true);
  }};
  inbox.nudge();  // whether it sleeps already or not
  worker.join();
  EXPECT_TRUE(woken.load());
}

TEST(Inbox, NoFiberIsSleptThrough) {
  const std::size_t rounds = static_cast<std::size_t>(20'000 / ::weft::testing::time_scale());
  Frames frames{rounds};
  Inbox inbox;
  std::thread sender{[&] {
    for (std::size_t i = 0; i < rounds; ++i) inbox.push(frames[i]);
  }};
  std::size_t seen = 0;
  while (seen < rounds) {
    FiberList arrived = inbox.take_all();
    if (arrived.empty()) inbox.sleep(nullptr);
    while (const Fiber* fiber = arrived.pop_front()) ASSERT_EQ(fiber->id, seen++);
  }
  sender.join();
}

TEST(Inbox, ManySendersLoseNothingAndEachKeepsItsOrder) {
  constexpr std::size_t kSenders = 4;
  const std::size_t each = static_cast<std::size_t>(5'000 / ::weft::testing::time_scale());
  Frames frames{kSenders * each};
  Inbox inbox;
  std::vector<std::thread> senders;
  for (std::size_t s = 0; s < kSenders; ++s)
    senders.emplace_back([&, s] {
      for (std::size_t i = 0; i < each; ++i) inbox.push(frames[s * each + i]);
    });
  std::map<std::size_t, std::size_t> next;
  std::size_t seen = 0;
  while (seen < kSenders * each) {
    FiberList arrived = inbox.take_all();
    if (arrived.empty()) inbox.sleep(nullptr);
    while (const Fiber* fiber = arrived.pop_front()) {
      const std::size_t sender = fiber->id / each;
      ASSERT_EQ(fiber->id % each, next[sender]++);
      ++seen;
    }
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_TRUE(inbox.empty());
}

}  // namespace
}  // namespace weft::engine
