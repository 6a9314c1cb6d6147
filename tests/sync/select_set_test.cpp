#include <weft/select.hpp>

#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::expect_no_timer_left;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

constexpr auto kIgnore = [](std::optional<int>) {};

TEST(SelectSet, AnEmptyOneReturnsAtOnce) {
  on_both_engines([] {
    SelectSet set;
    EXPECT_EQ(set.wait(), SelectSet::npos);
    EXPECT_EQ(set.wait_first(), set.npos);
    EXPECT_EQ(set.enabled(), 0U);
  });
}

TEST(SelectSet, EveryAdderReturnsTheNextIndex) {
  SimIo{}.run([] {
    Channel<int> in{1};
    Channel<int> out{1};
    Event event;
    std::vector<int> ran;
    SelectSet set;
    EXPECT_EQ(set.recv(in.rx, [&](std::optional<int> v) { ran.push_back(*v); }), 0U);
    EXPECT_EQ(set.send(out.tx, 20, [&](bool sent) { ran.push_back(sent ? 21 : 22); }), 1U);
    EXPECT_EQ(set.after(1ms, [&] { ran.push_back(30); }), 2U);
    auto on_set = event.on_set([&] { ran.push_back(40); });
    EXPECT_EQ(set.add(on_set), 3U);
    EXPECT_EQ(set.enabled(), 4U);
    EXPECT_EQ(set.wait(), 1U) << "the only one that is ready";
    EXPECT_EQ(set.wait(), 2U) << "and then time passes";
    EXPECT_EQ(set.wait(), 2U) << "counted anew";
    EXPECT_TRUE(in.tx.send(10));
    EXPECT_EQ(set.wait(), 0U);
    event.set();
    EXPECT_EQ(set.wait(), 3U);
    EXPECT_THAT(ran, ElementsAre(21, 30, 30, 10, 40));
    expect_no_timer_left();
  });
}

TEST(SelectSet, IsWaitedForUntilAllInputsHaveEnded) {
  on_both_engines([] {
    constexpr int kInputs = 3;
    std::vector<Channel<int>> inputs;
    for (int i = 0; i < kInputs; ++i) inputs.emplace_back();
    int sum = 0;
    int ends = 0;
    nursery([&](Nursery& n) {
      SelectSet set;
      for (auto& [tx, rx] : inputs) {
        set.recv(std::move(rx), [&](std::optional<int> v) {
          if (v) sum += *v;
          else ++ends;
        });
        n.spawn([tx = std::move(tx)] {
          for (int v = 1; v <= 10; ++v) EXPECT_TRUE(tx.send(v));
        });
      }
      while (set.wait() != set.npos) {}
      EXPECT_EQ(set.enabled(), 0U);
      EXPECT_EQ(set.wait(), set.npos) << "and again";
    });
    EXPECT_EQ(sum, kInputs * 55);
    EXPECT_EQ(ends, kInputs) << "each end is told once";
  });
}

TEST(SelectSet, AHundredReceivers) {
  const auto program = [] {
    constexpr std::size_t kInputs = 100;
    std::vector<int> counts(kInputs, 0);
    std::vector<Channel<int>> inputs;
    for (std::size_t i = 0; i < kInputs; ++i) inputs.emplace_back(i % 3);
    nursery([&](Nursery& n) {
      SelectSet set;
      for (std::size_t i = 0; i < kInputs; ++i) {
        set.recv(std::move(inputs[i].rx), [&counts, i](std::optional<int> v) {
          if (v) counts[i] += *v;
        });
        n.spawn([tx = std::move(inputs[i].tx)] {
          for (int v = 0; v < 5; ++v) EXPECT_TRUE(tx.send(1));
        });
      }
      while (set.wait() != set.npos) {}
    });
    EXPECT_THAT(counts, Each(5));
  };
  on_seeds(program, 5);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

TEST(SelectSet, WaitFirstKeepsTheOrder) {
  on_both_engines([] {
    Channel<int> low{8};
    Channel<int> high{8};
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(low.tx.send(i));
      EXPECT_TRUE(high.tx.send(i));
    }
    SelectSet set;
    set.recv(high.rx, kIgnore);
    set.recv(low.rx, kIgnore);
    std::vector<std::size_t> order;
    for (int i = 0; i < 8; ++i) order.push_back(set.wait_first());
    EXPECT_THAT(order, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  });
}

TEST(SelectSet, ARemovedArmIsNeitherTriedNorCounted) {
  on_both_engines([] {
    Channel<int> a{4};
    Channel<int> b{4};
    SelectSet set;
    const std::size_t first = set.recv(a.rx, kIgnore);
    const std::size_t second = set.recv(b.rx, kIgnore);
    EXPECT_TRUE(a.tx.send(1));
    EXPECT_TRUE(b.tx.send(1));
    set.remove(first);
    set.remove(first);
    EXPECT_THROW(set.remove(99), std::out_of_range);
    EXPECT_EQ(set.enabled(), 1U);
    EXPECT_EQ(set.wait(), second);
    EXPECT_EQ(a.rx.size(), 1U);
    EXPECT_EQ(set.recv(a.rx, kIgnore), 2U) << "indices are not used again";
    EXPECT_EQ(set.wait(), 2U);
    set.remove(second);
    set.remove(2);
    EXPECT_EQ(set.wait(), set.npos);
  });
}

TEST(SelectSet, RemovingDropsItsEndOfTheChannel) {
  on_both_engines([] {
    Channel<int> ch;
    SelectSet set;
    const std::size_t index = set.recv(std::move(ch.rx), kIgnore);
    EXPECT_FALSE(ch.tx.closed());
    set.remove(index);
    EXPECT_TRUE(ch.tx.closed()) << "it was the last receiver";
  });
}

// The entry lived in the set only, and died under its own handler.
TEST(SelectSet, AHandlerMayRemoveItsOwnArm) {
  on_both_engines([] {
    Channel<int> ch{4};
    SelectSet set;
    std::size_t index = 0;
    int seen = 0;
    std::vector<int> kept{1, 2, 3};
    index = set.recv(ch.rx, [&seen, &set, &index, kept](std::optional<int> v) {
      set.remove(index);
      seen += *v + static_cast<int>(kept.size());  // captures are still there
    });
    EXPECT_TRUE(ch.tx.send(7));
    EXPECT_EQ(set.wait(), index);
    EXPECT_EQ(seen, 10);
    EXPECT_EQ(set.wait(), set.npos);
  });
}

TEST(SelectSet, AHandlerMayAddArmsAndWaitItself) {
  on_both_engines([] {
    Channel<int> a{1};
    Channel<int> b{1};
    EXPECT_TRUE(a.tx.send(1));
    EXPECT_TRUE(b.tx.send(2));
    SelectSet set;
    std::vector<int> seen;
    set.recv(a.rx, [&](std::optional<int> v) {
      seen.push_back(*v);
      for (int i = 0; i < 50; ++i) set.recv(Receiver<int>{}, kIgnore);
      const std::size_t inner = set.recv(b.rx, [&](std::optional<int> w) { seen.push_back(*w); });
      EXPECT_EQ(set.wait(), inner);
    });
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_THAT(seen, ElementsAre(1, 2));
  });
}

TEST(SelectSet, ACopyIsSentWheneverItWins) {
  on_both_engines([] {
    Channel<std::vector<int>> ch;
    SelectSet set;
    int sent = 0;
    set.send(ch.tx, {1, 2, 3}, [&](bool s) { sent += s ? 1 : 100; });
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < 3; ++i) EXPECT_THAT(*ch.rx.recv(), ElementsAre(1, 2, 3));
        ch.rx.drop();
      });
      for (int i = 0; i < 3; ++i) EXPECT_EQ(set.wait(), 0U);
      EXPECT_EQ(sent, 3);
      EXPECT_EQ(set.wait(), 0U) << "the end is told";
      EXPECT_EQ(sent, 103);
      EXPECT_EQ(set.wait(), set.npos) << "and disables it";
    });
  });
}

TEST(SelectSet, WhatCannotBeCopiedIsSentOnce) {
  on_both_engines([] {
    Channel<std::unique_ptr<int>> ch{2};
    SelectSet set;
    bool sent = false;
    set.send(ch.tx, std::make_unique<int>(5), [&](bool s) { sent = s; });
    EXPECT_EQ(set.enabled(), 1U);
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_TRUE(sent);
    EXPECT_EQ(set.enabled(), 0U);
    EXPECT_EQ(set.wait(), set.npos);
    EXPECT_EQ(**ch.rx.recv(), 5);
  });
}

// It was disabled, as if the channel were closed.
TEST(SelectSet, AFullChannelThatDropsWhatIsNewDisablesNothing) {
  on_both_engines([] {
    Channel<int> copies{ChannelOptions<int>{.capacity = 1, .overflow = Overflow::drop_new}};
    Channel<std::unique_ptr<int>> moves{
        ChannelOptions<std::unique_ptr<int>>{.capacity = 1, .overflow = Overflow::drop_new}};
    EXPECT_TRUE(moves.tx.send(nullptr));
    SelectSet set;
    std::vector<bool> sent;
    set.send(copies.tx, 1, [&](bool s) { sent.push_back(s); });
    set.send(moves.tx, std::make_unique<int>(6), [&](bool s) { sent.push_back(s); });
    EXPECT_EQ(set.wait_first(), 0U);
    EXPECT_EQ(set.wait_first(), 0U);
    EXPECT_EQ(set.enabled(), 2U);
    EXPECT_EQ(copies.rx.recv(), 1);
    EXPECT_EQ(set.wait_first(), 0U);
    EXPECT_EQ(copies.rx.recv(), 1);
    set.remove(0);
    EXPECT_EQ(set.wait(), 1U);
    EXPECT_EQ(*moves.rx.recv(), nullptr);
    EXPECT_EQ(set.wait(), 1U) << "with the value that was not admitted";
    EXPECT_EQ(**moves.rx.recv(), 6);
    EXPECT_THAT(sent, ElementsAre(true, false, true, false, true));
    EXPECT_EQ(set.wait(), set.npos);
  });
}

// Copies throw when they are told to.
struct Reluctant {
  explicit Reluctant(int v, bool* b) : value(v), breaks(b) {}
  Reluctant(const Reluctant& other) : value(other.value), breaks(other.breaks) {
    if (*breaks) throw std::runtime_error{"no copy"};
  }
  Reluctant(Reluctant&& other) noexcept
      : value(std::exchange(other.value, -1)), breaks(other.breaks) {}
  Reluctant& operator=(const Reluctant&) = delete;
  int value;
  bool* breaks;
};

// What had been moved away was sent in place of the copy that could not be made.
TEST(SelectSet, ACopyThatThrowsSendsNothing) {
  on_both_engines([] {
    bool breaks = false;
    Channel<Reluctant> ch{8};
    SelectSet set;
    int sent = 0;
    set.send(ch.tx, Reluctant{3, &breaks}, [&](bool) { ++sent; });
    EXPECT_EQ(set.wait(), 0U);
    breaks = true;
    EXPECT_THROW(set.wait(), std::runtime_error);
    EXPECT_THROW(set.wait(), std::runtime_error);
    EXPECT_EQ(sent, 1);
    breaks = false;
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_EQ(sent, 2);
    EXPECT_EQ(ch.rx.size(), 2U);
    EXPECT_EQ(ch.rx.recv()->value, 3);
    EXPECT_EQ(ch.rx.recv()->value, 3);
  });
}

TEST(SelectSet, AHandlersExceptionPassesAndTheSetStaysUsable) {
  on_both_engines([] {
    Channel<int> ch{4};
    Channel<int> out{4};
    SelectSet set;
    int calls = 0;
    set.recv(ch.rx, [&](std::optional<int> v) {
      ++calls;
      if (v == 1) throw std::runtime_error{"one"};
    });
    EXPECT_TRUE(ch.tx.send(1));
    EXPECT_TRUE(ch.tx.send(2));
    EXPECT_THROW(set.wait(), std::runtime_error);
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_EQ(calls, 2);
    set.send(out.tx, 5, [&](bool) {
      if (out.rx.size() == 1) throw std::logic_error{"first"};
    });
    EXPECT_THROW(set.wait(), std::logic_error);
    EXPECT_EQ(set.wait(), 1U);
    EXPECT_EQ(out.rx.recv(), 5);
    EXPECT_EQ(out.rx.recv(), 5);
  });
}

TEST(SelectSet, AnErrorIsThrownOnceAndDisablesTheArm) {
  on_both_engines([] {
    Channel<int> ch{1};
    EXPECT_TRUE(ch.tx.send(1));
    ch.tx.close(std::make_exception_ptr(std::runtime_error{"lost"}));
    SelectSet set;
    int values = 0;
    set.recv(ch.rx, [&](std::optional<int>) { ++values; });
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_THROW(set.wait(), std::runtime_error);
    EXPECT_EQ(set.wait(), set.npos);
    EXPECT_EQ(values, 1);
  });
}

TEST(SelectSet, EndsOfNoChannelAreDisabled) {
  SimIo{}.run([] {
    SelectSet set;
    set.recv(Receiver<int>{}, kIgnore);
    set.send(Sender<int>{}, 1, [](bool) {});
    EXPECT_EQ(set.enabled(), 0U);
    EXPECT_EQ(set.wait(), set.npos);
    set.after(1ms, [] {});
    EXPECT_EQ(set.wait(), 2U);
  });
}

TEST(SelectSet, OtherwiseIsAnArmToo) {
  on_both_engines([] {
    Channel<int> ch{1};
    SelectSet set;
    int idle = 0;
    auto none = otherwise([&] { ++idle; });
    set.add(none);
    set.recv(ch.rx, kIgnore);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(set.wait(), 0U);
      EXPECT_TRUE(ch.tx.send(1));
      EXPECT_EQ(set.wait(), 1U);
      EXPECT_TRUE(ch.tx.send(1));
      EXPECT_EQ(set.wait_first(), 1U);
    }
    EXPECT_EQ(idle, 20);
  });
}

// The first of the two was tried like any other arm, and won over one that was ready.
TEST(SelectSet, ASecondOtherwiseDoesNotGoBeforeWhatIsReady) {
  on_both_engines([] {
    Channel<int> ch{1};
    SelectSet set;
    auto a = otherwise();
    auto b = otherwise();
    set.add(a);
    set.add(b);
    set.recv(ch.rx, kIgnore);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(ch.tx.send(1));
      EXPECT_EQ(set.wait(), 2U);
      EXPECT_TRUE(ch.tx.send(1));
      EXPECT_EQ(set.wait_first(), 2U);
      EXPECT_EQ(set.wait(), 0U);
    }
  });
}

TEST(SelectSet, FuturesAndTheOtherSidesEndAsArms) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      Future<int> future = n.async([] { return 6; });
      auto ready = future.on_ready();
      auto gone = ch.tx.on_peer_gone();
      SelectSet set;
      const std::size_t first = set.add(ready);
      const std::size_t second = set.add(gone);
      EXPECT_EQ(set.wait(), first);
      set.remove(first);
      ch.rx.drop();
      EXPECT_EQ(set.wait(), second);
    });
  });
}

TEST(SelectSet, AReceiveWithAHandlerAsAnArm) {
  const auto body = [] {
    Channel<int> ch;
    int sum = 0;
    auto recv = ch.rx.on_recv([&](std::optional<int> v) { sum += v.value(); });
    SelectSet set;
    EXPECT_EQ(set.add(recv), 0U);
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 1; i <= 3; ++i) EXPECT_TRUE(ch.tx.send(int{i}));
      });
      for (int i = 0; i < 3; ++i) EXPECT_EQ(set.wait(), 0U);
    });
    EXPECT_EQ(sum, 6);
  };
  on_seeds(body);
  on_workers(body);
}

TEST(SelectSet, TimersThatLoseAreDisarmed) {
  SimIo{}.run([] {
    Channel<int> ch{1};
    SelectSet set;
    set.recv(ch.rx, kIgnore);
    set.after(1h, [] { ADD_FAILURE(); });
    set.after(2h, [] { ADD_FAILURE(); });
    for (int i = 0; i < 5; ++i) {
      nursery([&](Nursery& n) {
        n.spawn([&] { EXPECT_EQ(set.wait(), 0U); });
        settle();
        EXPECT_TRUE(ch.tx.send(i));
      });
    }
    expect_no_timer_left();
  });
}

TEST(SelectSet, CanBeMoved) {
  on_both_engines([] {
    Channel<int> ch{1};
    SelectSet set;
    int seen = 0;
    set.recv(ch.rx, [&](std::optional<int> v) { seen = *v; });
    SelectSet other = std::move(set);
    EXPECT_TRUE(ch.tx.send(4));
    EXPECT_EQ(other.wait(), 0U);
    EXPECT_EQ(seen, 4);
  });
}

TEST(SelectSet, ProducersAndASetOnManyWorkersConserveSums) {
  on_workers({1U, 2U, 4U, 16U}, [] {
    constexpr int kInputs = 8;
    constexpr int kEach = 200;
    std::vector<Channel<int>> inputs;
    for (int i = 0; i < kInputs; ++i) inputs.emplace_back(static_cast<std::size_t>(i % 2));
    long sum = 0;
    nursery([&](Nursery& n) {
      SelectSet set;
      for (auto& [tx, rx] : inputs) {
        set.recv(std::move(rx), [&](std::optional<int> v) { sum += v.value_or(0); });
        n.spawn([tx = std::move(tx)] {
          for (int v = 0; v < kEach; ++v) EXPECT_TRUE(tx.send(v));
        });
      }
      set.after(1h, [] { ADD_FAILURE(); });
      for (int i = 0; i < kInputs * (kEach + 1); ++i) EXPECT_NE(set.wait(), set.npos);
      EXPECT_EQ(set.enabled(), 1U);
    });
    EXPECT_EQ(sum, long{kInputs} * kEach * (kEach - 1) / 2);
  });
}

}  // namespace
}  // namespace weft
