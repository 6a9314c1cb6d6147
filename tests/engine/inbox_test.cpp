#include "engine/inbox.hpp"

#include <weft/core/frame_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <map>
#include <thread>
#include <vector>

#include <support/frames.hpp>
#include <support/watchdog.hpp>

namespace weft::engine {
namespace {

using ::testing::ElementsAre;
using testing::Frames;
using ::testing::IsEmpty;

std::vector<FiberId> ids(FiberList list) {
  std::vector<FiberId> all;
  while (const Fiber* fiber = list.pop_front()) all.push_back(fiber->id);
  return all;
}

// As a worker does it that finds nothing else to do in between.
void doze(Inbox& inbox, const std::timespec* timeout) {
  if (!inbox.lie_down()) return;
  inbox.sleep(timeout);
  inbox.get_up();
}

TEST(Inbox, KeepsTheOrderOfArrival) {
  Frames frames{4};
  Inbox inbox;
  EXPECT_TRUE(inbox.empty());
  EXPECT_THAT(ids(inbox.take_all().fibers), IsEmpty());
  for (std::size_t i = 0; i < 4; ++i) inbox.push(frames[i]);
  EXPECT_FALSE(inbox.empty());
  EXPECT_THAT(ids(inbox.take_all().fibers), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(inbox.empty());
  inbox.push(frames[2]);
  EXPECT_THAT(ids(inbox.take_all().fibers), ElementsAre(2));
}

TEST(Inbox, DoesNotSleepWhileSomethingIsInIt) {
  Frames frames{1};
  Inbox inbox;
  inbox.push(frames[0]);
  doze(inbox, nullptr);  // would sleep for ever
  EXPECT_THAT(ids(inbox.take_all().fibers), ElementsAre(0));
}

TEST(Inbox, AnUnheardTimeoutLeavesItEmpty) {
  Frames frames{1};
  Inbox inbox;
  const std::timespec moment{0, 100'000};
  doze(inbox, &moment);
  EXPECT_TRUE(inbox.empty());
  EXPECT_THAT(ids(inbox.take_all().fibers), IsEmpty()) << "no trace of the sleeper";
  inbox.push(frames[0]);
  EXPECT_THAT(ids(inbox.take_all().fibers), ElementsAre(0));
}

TEST(Inbox, ANudgeLosesNoFiber) {
  Frames frames{3};
  Inbox inbox;
  inbox.nudge();
  inbox.nudge();
  EXPECT_THAT(ids(inbox.take_all().fibers), IsEmpty());
  inbox.nudge();
  inbox.push(frames[0]);
  inbox.nudge();
  inbox.push(frames[1]);
  inbox.push(frames[2]);
  inbox.nudge();
  EXPECT_THAT(ids(inbox.take_all().fibers), ElementsAre(0, 1, 2));
  EXPECT_TRUE(inbox.empty());
}

// The worker has looked around, found nothing and is about to sleep: what it would find now counts.
TEST(Inbox, ANudgeBeforeTheSleepIsNotForgotten) {
  Inbox inbox;
  EXPECT_TRUE(inbox.empty());
  inbox.nudge();
  doze(inbox, nullptr);  // would sleep for ever
  EXPECT_THAT(ids(inbox.take_all().fibers), IsEmpty());
  EXPECT_TRUE(inbox.empty());
  const std::timespec moment{0, 100'000};
  doze(inbox, &moment);  // once looked, forgotten: this one does sleep
  EXPECT_TRUE(inbox.empty());
}

TEST(Inbox, NudgeWakesASleeper) {
  Inbox inbox;
  std::atomic<bool> woken{false};
  std::thread worker{[&] {
    doze(inbox, nullptr);
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
    FiberList arrived = inbox.take_all().fibers;
    if (arrived.empty()) doze(inbox, nullptr);
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
    FiberList arrived = inbox.take_all().fibers;
    if (arrived.empty()) doze(inbox, nullptr);
    while (const Fiber* fiber = arrived.pop_front()) {
      const std::size_t sender = fiber->id / each;
      ASSERT_EQ(fiber->id % each, next[sender]++);
      ++seen;
    }
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_TRUE(inbox.empty());
}

// ── calls, and what others may do ───────────────────────────────────────────────────────────────

TEST(Inbox, OnlyASleeperIsCalled) {
  Frames frames{1};
  Inbox inbox;
  EXPECT_FALSE(inbox.call()) << "awake";
  inbox.nudge();
  EXPECT_FALSE(inbox.call()) << "awake, and told to look around";
  static_cast<void>(inbox.take_all());
  inbox.push(frames[0]);
  EXPECT_FALSE(inbox.call()) << "awake, with something to do";
  static_cast<void>(inbox.take_all());
  ASSERT_TRUE(inbox.lie_down());
  EXPECT_TRUE(inbox.is_asleep());
  EXPECT_TRUE(inbox.call());
  EXPECT_FALSE(inbox.is_asleep());
  EXPECT_FALSE(inbox.empty());
  EXPECT_FALSE(inbox.call()) << "called already";
  inbox.sleep(nullptr);  // would sleep for ever
  inbox.get_up();
  EXPECT_TRUE(inbox.take_all().called) << "told once,";
  EXPECT_FALSE(inbox.take_all().called) << "and not again";
  EXPECT_TRUE(inbox.empty());
}

TEST(Inbox, ACallSurvivesWhatComesAfterIt) {
  Frames frames{2};
  Inbox inbox;
  ASSERT_TRUE(inbox.lie_down());
  ASSERT_TRUE(inbox.call());
  inbox.push(frames[0]);
  inbox.nudge();
  inbox.push(frames[1]);
  EXPECT_FALSE(inbox.lie_down());
  Inbox::Arrivals arrivals = inbox.take_all();
  EXPECT_TRUE(arrivals.called);
  EXPECT_THAT(ids(std::move(arrivals.fibers)), ElementsAre(0, 1));
}

TEST(Inbox, OfManyCallersOneWakesTheSleeper) {
  for (int round = 0; round < 200; ++round) {
    Inbox inbox;
    ASSERT_TRUE(inbox.lie_down());
    std::atomic<int> calls{0};
    std::vector<std::thread> callers;
    for (int t = 0; t < 3; ++t) callers.emplace_back([&] { calls.fetch_add(inbox.call()); });
    inbox.sleep(nullptr);
    for (std::thread& caller : callers) caller.join();
    ASSERT_EQ(calls.load(), 1);
    ASSERT_TRUE(inbox.take_all().called);
  }
}

TEST(Inbox, APushWakesASleeper) {
  Frames frames{1};
  Inbox inbox;
  ASSERT_TRUE(inbox.lie_down());
  inbox.push(frames[0]);
  EXPECT_FALSE(inbox.is_asleep());
  inbox.sleep(nullptr);  // would sleep for ever
  inbox.get_up();
  EXPECT_THAT(ids(inbox.take_all().fibers), ElementsAre(0));
}

TEST(Inbox, KnowsItsLength) {
  Frames frames{5};
  Inbox inbox;
  EXPECT_EQ(inbox.length(), 0U);
  for (std::size_t i = 0; i < 5; ++i) {
    inbox.push(frames[i]);
    EXPECT_EQ(inbox.length(), i + 1);
  }
  inbox.nudge();
  EXPECT_EQ(inbox.length(), 5U) << "fibers are counted";
  static_cast<void>(inbox.take_all());
  EXPECT_EQ(inbox.length(), 0U);
  inbox.push(frames[0]);
  static_cast<void>(inbox.take_over());
  EXPECT_EQ(inbox.length(), 0U);
}

TEST(Inbox, TakenOverInOrder) {
  Frames frames{4};
  Inbox inbox;
  EXPECT_THAT(ids(inbox.take_over()), IsEmpty());
  for (std::size_t i = 0; i < 4; ++i) inbox.push(frames[i]);
  EXPECT_THAT(ids(inbox.take_over()), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(inbox.empty());
  EXPECT_THAT(ids(inbox.take_all().fibers), IsEmpty());
}

TEST(Inbox, ACallIsNotTakenOver) {
  Frames frames{1};
  Inbox inbox;
  ASSERT_TRUE(inbox.lie_down());
  ASSERT_TRUE(inbox.call());
  inbox.push(frames[0]);
  EXPECT_THAT(ids(inbox.take_over()), ElementsAre(0));
  EXPECT_FALSE(inbox.empty());
  EXPECT_TRUE(inbox.take_all().called) << "it is the worker's own";
}

TEST(Inbox, ASleeperIsNotDisturbedByATakeOver) {
  Inbox inbox;
  ASSERT_TRUE(inbox.lie_down());
  EXPECT_THAT(ids(inbox.take_over()), IsEmpty());
  EXPECT_TRUE(inbox.is_asleep());
  inbox.get_up();
}

TEST(Inbox, OwnerAndTakerShareWithoutLoss) {
  const std::size_t count = static_cast<std::size_t>(30'000 / ::weft::testing::time_scale());
  Frames frames{count};
  Inbox inbox;
  std::vector<std::atomic<int>> seen(count);
  std::atomic<std::size_t> left{count};
  const auto note = [&](FiberList fibers) {
    while (const Fiber* fiber = fibers.pop_front()) {
      seen[fiber->id].fetch_add(1);
      left.fetch_sub(1);
    }
  };
  std::thread sender{[&] {
    for (std::size_t i = 0; i < count; ++i) inbox.push(frames[i]);
  }};
  std::thread taker{[&] {
    while (left.load() != 0) note(inbox.take_over());
  }};
  while (left.load() != 0) note(inbox.take_all().fibers);
  sender.join();
  taker.join();
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(seen[i].load(), 1) << i;
  EXPECT_EQ(inbox.length(), 0U);
}

}  // namespace
}  // namespace weft::engine
