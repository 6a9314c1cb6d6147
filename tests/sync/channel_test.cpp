// What flows through a channel, and when. How it ends is in channel_close_test.cpp, what may flow
// in channel_types_test.cpp, cancellation and many at once in channel_race_test.cpp, everything at
// random in channel_property_test.cpp.
#include <weft/channel.hpp>

#include <weft/core/error.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

void on_every_engine(const std::function<void()>& f) {
  on_both_engines(f);
  on_workers({2U, 4U, 16U}, f);
}

// ── rendezvous ──────────────────────────────────────────────────────────────────────────────────

TEST(Channel, ARendezvousSendReturnsOnlyAfterItsReceive) {
  on_every_engine([] {
    Channel<int> ch;
    std::atomic<bool> asked{false};
    std::atomic<bool> sent{false};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(ch.tx.send(7));
        EXPECT_TRUE(asked.load());
        sent = true;
      });
      let_others_block();
      EXPECT_FALSE(sent.load()) << "nobody has received";
      EXPECT_EQ(ch.tx.size(), 0U);
      asked = true;
      EXPECT_EQ(ch.rx.recv(), 7);
    });
    EXPECT_TRUE(sent.load());
  });
}

TEST(Channel, ASendToAParkedReceiverIsHandedOver) {
  on_both_engines([] {
    for (const std::size_t capacity : {0U, 1U, 5U}) {
      Channel<int> ch{capacity};
      std::optional<int> got;
      nursery([&](Nursery& n) {
        n.spawn([&] { got = ch.rx.recv(); });
        let_others_block();
        EXPECT_EQ(ch.tx.try_send(3), SendStatus::ok);
        EXPECT_EQ(ch.tx.size(), 0U) << "it has not been through the buffer";
      });
      EXPECT_EQ(got, 3);
    }
  });
}

TEST(Channel, WithoutWaitingARendezvousNeedsSomebodyThere) {
  Channel<int> ch;
  EXPECT_EQ(ch.tx.try_send(1), SendStatus::full);
  EXPECT_EQ(ch.rx.try_recv().status(), RecvStatus::empty);
  EXPECT_EQ(ch.tx.capacity(), 0U);
}

TEST(Channel, ATryReceiveTakesFromAParkedSender) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(ch.tx.send(4)); });
      let_others_block();
      const Received<int> got = ch.rx.try_recv();
      ASSERT_TRUE(got);
      EXPECT_EQ(*got, 4);
    });
  });
}

TEST(Channel, PingPongAgrees) {
  on_every_engine([] {
    Channel<int> there, back;
    const int rallies = nursery([&](Nursery& n) {
      n.spawn([in = std::move(there.rx), out = std::move(back.tx)] {
        for (int v : in)
          if (!out.send(v + 1)) return;
      });
      int v = 0;
      while (v < 200 && there.tx.send(v)) v = back.rx.recv().value();
      there.tx.close();
      return v;
    });
    EXPECT_EQ(rallies, 200);
  });
}

// ── buffers ─────────────────────────────────────────────────────────────────────────────────────

TEST(Channel, ABufferTakesAsManyAsItsCapacityAndNoMore) {
  Channel<int> ch{3};
  EXPECT_EQ(ch.tx.capacity(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ch.tx.try_send(i), SendStatus::ok);
    EXPECT_EQ(ch.rx.size(), std::size_t(i) + 1);
  }
  const int kept = 3;
  EXPECT_EQ(ch.tx.try_send(kept), SendStatus::full);
  EXPECT_EQ(ch.tx.try_send(3), SendStatus::full);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ch.rx.try_recv().value(), i);
  EXPECT_EQ(ch.rx.try_recv().status(), RecvStatus::empty);
}

TEST(Channel, ASenderParksOnAFullBufferAndComesNext) {
  on_both_engines([] {
    Channel<int> ch{2};
    std::vector<int> returned;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(ch.tx.send(i));
      n.spawn([&] {
        EXPECT_TRUE(ch.tx.send(2));
        returned.push_back(2);
      });
      let_others_block();
      EXPECT_EQ(ch.tx.try_send(9), SendStatus::full);
      EXPECT_TRUE(returned.empty());
      EXPECT_EQ(ch.rx.recv(), 0);
      EXPECT_EQ(ch.rx.size(), 2U) << "the parked one's value moved up, under the same lock";
      EXPECT_EQ(ch.tx.try_send(9), SendStatus::full) << "nobody overtakes it";
      let_others_block();
      EXPECT_THAT(returned, ElementsAre(2));
      for (int i = 1; i < 3; ++i) EXPECT_EQ(ch.rx.recv(), i);
    });
  });
}

TEST(Channel, FirstInIsFirstOut) {
  on_every_engine([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
      Channel<int> ch{capacity};
      nursery([&](Nursery& n) {
        n.spawn([tx = std::move(ch.tx)] {
          for (int i = 0; i < 100; ++i) EXPECT_TRUE(tx.send(i));
        });
        int expected = 0;
        for (int v : ch.rx) EXPECT_EQ(v, expected++);
        EXPECT_EQ(expected, 100);
      });
    }
  });
}

TEST(Channel, WaitersAreServedInTheOrderTheyCame) {
  on_both_engines([] {
    Channel<int> ch;
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.spawn([&, i] { EXPECT_TRUE(ch.tx.send(i)); });
        let_others_block();
      }
      for (int i = 0; i < 5; ++i) EXPECT_EQ(ch.rx.recv(), i);
      std::array<std::optional<int>, 5> got;
      nursery([&](Nursery& receivers) {
        for (std::size_t i = 0; i < 5; ++i) {
          receivers.spawn([&, i] { got[i] = ch.rx.recv(); });
          let_others_block();
        }
        for (int i = 0; i < 5; ++i) EXPECT_TRUE(ch.tx.send(i));
      });
      for (int i = 0; i < 5; ++i) EXPECT_EQ(got[std::size_t(i)], i);
    });
  });
}

TEST(Channel, AnUnboundedOneGrowsAndStaysInOrder) {
  Channel<std::string> ch = unbounded<std::string>("endless");
  EXPECT_EQ(ch.tx.capacity(), SIZE_MAX);
  int next_in = 0;
  int next_out = 0;
  for (int round = 0; round < 100; ++round) {  // the ring's head is everywhere when it grows
    for (int i = 0; i < 3 + round % 20; ++i)
      EXPECT_EQ(ch.tx.try_send(std::to_string(next_in++)), SendStatus::ok);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(*ch.rx.try_recv(), std::to_string(next_out++));
  }
  EXPECT_EQ(ch.rx.size(), std::size_t(next_in - next_out));
  while (next_out < next_in) EXPECT_EQ(*ch.rx.try_recv(), std::to_string(next_out++));
  EXPECT_EQ(ch.rx.try_recv().status(), RecvStatus::empty);
}

// Regression: the number of slots was doubled past 32 bits, to none.
TEST(Channel, GrowthStopsAtTheLargestBuffer) {
  using detail::ChannelCore;
  static_assert(ChannelCore::slots_after(0) == 16);
  static_assert(ChannelCore::slots_after(16) == 32);
  static_assert(ChannelCore::slots_after(1U << 30) == 1U << 31);
  static_assert(ChannelCore::slots_after(1U << 31) == ChannelCore::kUnbounded);
}

// ── ends ────────────────────────────────────────────────────────────────────────────────────────

TEST(Channel, EndsAreHandlesOfOneChannel) {
  Channel<int> ch{1};
  Channel<int> other{1};
  const Sender<int> copy = ch.tx;
  EXPECT_EQ(copy, ch.tx);
  EXPECT_NE(copy, other.tx);
  EXPECT_EQ(Sender<int>{}, Sender<int>{});
  EXPECT_TRUE(copy);
  EXPECT_FALSE(Sender<int>{});
  EXPECT_FALSE(Receiver<int>{});
  const Receiver<int> rx = ch.rx;
  EXPECT_EQ(rx, ch.rx);
  EXPECT_EQ(copy.try_send(1), SendStatus::ok) << "a const handle can send";
  EXPECT_EQ(*rx.try_recv(), 1);
  Sender<int> moved = std::move(ch.tx);
  EXPECT_FALSE(ch.tx);
  Sender<int>& itself = moved;
  moved = itself;
  EXPECT_TRUE(moved);
  moved = other.tx;
  EXPECT_EQ(moved, other.tx);
  moved.drop();
  moved.drop();
  EXPECT_FALSE(moved);
}

// ── options ─────────────────────────────────────────────────────────────────────────────────────

TEST(Channel, DropNewRefusesWhatDoesNotFit) {
  on_every_engine([] {
    Channel<std::string> ch{{.capacity = 1, .overflow = Overflow::drop_new}};
    EXPECT_TRUE(ch.tx.send("first"));
    std::string second = "second";
    EXPECT_FALSE(ch.tx.send(std::move(second)));
    EXPECT_EQ(ch.tx.send(std::move(second), no_throw), SendStatus::full);
    EXPECT_EQ(ch.tx.send_for(std::move(second), 1h), SendStatus::full) << "it does not wait";
    EXPECT_EQ(ch.tx.try_send(std::move(second)), SendStatus::full);
    EXPECT_EQ(second, "second") << "the caller still has it";
    auto arm = ch.tx.on_send("third");
    EXPECT_EQ(select(arm), 0U);
    EXPECT_FALSE(arm.sent());
    EXPECT_EQ(arm.value(), "third");
    EXPECT_EQ(ch.rx.recv(), "first");
    EXPECT_TRUE(ch.tx.send(std::move(second)));
  });
}

TEST(Channel, DropNewAtARendezvousNeedsAReceiver) {
  on_both_engines([] {
    Channel<int> ch{{.overflow = Overflow::drop_new}};
    EXPECT_FALSE(ch.tx.send(1));
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(ch.rx.recv(), 2); });
      let_others_block();
      EXPECT_TRUE(ch.tx.send(2));
    });
  });
}

TEST(Channel, DropOldGivesTheOldestToOnUndelivered) {
  on_every_engine([] {
    std::vector<int> dropped;
    Channel<int> ch{{.capacity = 2,
                     .overflow = Overflow::drop_old,
                     .on_undelivered = [&](int&& v) { dropped.push_back(v); }}};
    EXPECT_TRUE(ch.tx.send(0));
    EXPECT_EQ(ch.tx.try_send(1), SendStatus::ok);
    EXPECT_TRUE(ch.tx.send(2));
    EXPECT_EQ(ch.tx.try_send(3), SendStatus::ok);
    EXPECT_EQ(ch.tx.send_for(4, 1h), SendStatus::ok);
    EXPECT_THAT(dropped, ElementsAre(0, 1, 2));
    EXPECT_EQ(ch.rx.recv(), 3);
    EXPECT_EQ(ch.rx.recv(), 4);
    EXPECT_EQ(dropped.size(), 3U);
  });
}

TEST(Channel, DropOldWithoutADisposerForgets) {
  Channel<std::shared_ptr<int>> ch{{.capacity = 1, .overflow = Overflow::drop_old}};
  const auto first = std::make_shared<int>(1);
  EXPECT_EQ(ch.tx.try_send(first), SendStatus::ok);
  EXPECT_EQ(first.use_count(), 2);
  EXPECT_EQ(ch.tx.try_send(nullptr), SendStatus::ok);
  EXPECT_EQ(first.use_count(), 1);
}

TEST(Channel, OptionsThatContradictEachOtherAreRefused) {
  EXPECT_THROW((Channel<int>{{.overflow = Overflow::drop_old}}), std::invalid_argument);
  EXPECT_THROW(Channel<int>{0xFFFF'FFFF}, std::invalid_argument);
  EXPECT_THROW(Channel<int>{SIZE_MAX - 1}, std::invalid_argument);
  EXPECT_EQ(Channel<int>{SIZE_MAX}.tx.capacity(), SIZE_MAX);
  try {
    Channel<int> ch{{.overflow = Overflow::drop_old}};
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("weft::Channel: drop_old needs a capacity"));
  }
}

TEST(Channel, StatusesHaveNames) {
  EXPECT_EQ(to_string(SendStatus::ok), "ok");
  EXPECT_EQ(to_string(SendStatus::full), "full");
  EXPECT_EQ(to_string(SendStatus::timed_out), "timed out");
  EXPECT_EQ(to_string(SendStatus::closed), "closed");
  EXPECT_EQ(to_string(SendStatus::cancelled), "cancelled");
  EXPECT_EQ(to_string(RecvStatus::value), "value");
  EXPECT_EQ(to_string(RecvStatus::empty), "empty");
  EXPECT_EQ(to_string(RecvStatus::timed_out), "timed out");
  EXPECT_EQ(to_string(RecvStatus::closed), "closed");
  EXPECT_EQ(to_string(RecvStatus::cancelled), "cancelled");
}

TEST(Channel, AReceivedIsAValueOrWhyThereIsNone) {
  Received<std::string> none{RecvStatus::timed_out};
  EXPECT_FALSE(none);
  EXPECT_EQ(none.status(), RecvStatus::timed_out);
  EXPECT_THROW(static_cast<void>(none.value()), std::bad_optional_access);
  const Received<std::string> some{"text"};
  EXPECT_TRUE(some);
  EXPECT_EQ(some.status(), RecvStatus::value);
  EXPECT_EQ(some->size(), 4U);
  EXPECT_EQ(*some, "text");
  EXPECT_EQ(some.value(), "text");
  Received<std::string> moved{"moved"};
  const std::string out = *std::move(moved);
  EXPECT_EQ(out, "moved");
}

TEST(Channel, ADeadlockReportNamesIt) {
  const auto report = [](auto f) -> std::string {
    try {
      SimIo{}.run(f);
    } catch (const Deadlock& deadlock) {
      return deadlock.what();
    }
    return "no deadlock";
  };
  EXPECT_THAT(report([] {
                Channel<int> ch{{.name = "orders"}};
                static_cast<void>(ch.rx.recv());
              }),
              HasSubstr("fiber #1 \"main\" on channel recv \"orders\""));
  EXPECT_THAT(report([] {
                Channel<int> ch{{.name = "orders"}};
                static_cast<void>(ch.tx.send(1));
              }),
              HasSubstr("on channel send \"orders\""));
  EXPECT_THAT(report([] {
                Channel<int> a{{.name = "a"}};
                auto b = oneshot<int>("b");
                select(a.tx.on_peer_gone(), b.rx.on_peer_gone(), Receiver<int>{}.on_recv(),
                       Sender<int>{}.on_send(1), Sender<int>{}.on_peer_gone());
              }),
              HasSubstr("channel receivers gone \"a\""));
  EXPECT_THAT(report([] {
                auto ch = unbounded<int>("endless");
                static_cast<void>(ch.rx.recv(no_throw));
              }),
              HasSubstr("on channel recv \"endless\""));
}

// ── timed forms ─────────────────────────────────────────────────────────────────────────────────

TEST(Channel, TimedFormsGiveUpInTime) {
  on_seeds([] {
    Channel<std::string> ch;
    const Instant start = Clock::now();
    EXPECT_EQ(ch.rx.recv_for(10ms).status(), RecvStatus::timed_out);
    EXPECT_EQ(Clock::now() - start, 10ms);
    std::string kept = "kept";
    EXPECT_EQ(ch.tx.send_for(std::move(kept), 5ms), SendStatus::timed_out);
    EXPECT_EQ(kept, "kept");
    EXPECT_EQ(ch.tx.send_for(std::as_const(kept), 5ms), SendStatus::timed_out);
    EXPECT_EQ(Clock::now() - start, 20ms);
    testing::expect_no_timer_left();
  });
}

TEST(Channel, TimedFormsThatCompleteDoNotWaitForTheTime) {
  on_seeds([] {
    Channel<int> ch;
    const Instant start = Clock::now();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(ch.tx.send_for(1, 1h), SendStatus::ok); });
      n.spawn([&] { EXPECT_EQ(*ch.rx.recv_for(1h), 1); });
    });
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(ch.tx.send_for(1, 1h), SendStatus::closed); });
      settle();
      ch.rx.drop();
    });
    EXPECT_EQ(Clock::now(), start);
    testing::expect_no_timer_left();
  });
}

TEST(Channel, TimedFormsTryOnceEvenIfTheTimeIsOver) {
  on_every_engine([] {
    Channel<int> ch{1};
    EXPECT_EQ(ch.tx.send_for(1, -1s), SendStatus::ok);
    EXPECT_EQ(ch.tx.send_for(2, 0s), SendStatus::timed_out);
    EXPECT_EQ(*ch.rx.recv_for(0s), 1);
    EXPECT_EQ(ch.rx.recv_for(-1h).status(), RecvStatus::timed_out);
    ch.tx.close();
    EXPECT_EQ(ch.tx.send_for(2, -1s), SendStatus::closed);
    EXPECT_EQ(ch.rx.recv_for(-1s).status(), RecvStatus::closed);
  });
}

// ── many ────────────────────────────────────────────────────────────────────────────────────────

TEST(Channel, SendAllAndRecvManyCount) {
  on_every_engine([] {
    Channel<int> ch{4};
    nursery([&](Nursery& n) {
      n.spawn([tx = std::move(ch.tx)] {
        const std::vector<int> numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
        EXPECT_EQ(tx.send_all(numbers), 10U);
        EXPECT_EQ(tx.send_all(std::array{11, 12, 13}), 3U);
      });
      std::vector<int> got;
      EXPECT_EQ(ch.rx.recv_many(std::back_inserter(got), 0), 0U);
      while (const std::size_t count = ch.rx.recv_many(std::back_inserter(got), 3))
        EXPECT_LE(count, 3U);
      std::vector<int> expected(13);
      std::iota(expected.begin(), expected.end(), 1);
      EXPECT_EQ(got, expected);
    });
  });
}

TEST(Channel, RecvManyTakesWhatIsThereAndFromParkedSenders) {
  on_both_engines([] {
    Channel<int> ch{2};
    nursery([&](Nursery& n) {
      EXPECT_EQ(ch.tx.send_all(std::vector{0, 1}), 2U);
      for (int i = 2; i < 4; ++i) {
        n.spawn([&, i] { EXPECT_TRUE(ch.tx.send(i)); });
        let_others_block();
      }
      std::array<int, 10> got{};
      EXPECT_EQ(ch.rx.recv_many(got.begin(), got.size()), 4U);
      EXPECT_THAT(std::span(got).first(4), ElementsAre(0, 1, 2, 3));
    });
  });
}

TEST(Channel, AReceiverIsAnInputRange) {
  static_assert(std::ranges::input_range<Receiver<int>>);
  static_assert(std::ranges::input_range<const Receiver<std::unique_ptr<int>>>);
  static_assert(std::is_same_v<std::ranges::range_value_t<Receiver<int>>, int>);
  on_every_engine([] {
    Channel<int> ch{10};
    EXPECT_EQ(ch.tx.send_all(std::vector{1, 2, 3, 4}), 4U);
    ch.tx.drop();
    auto at = ch.rx.begin();
    EXPECT_EQ(*at, 1);
    at++;
    EXPECT_EQ(*at, 2);
    std::vector<int> rest;
    std::ranges::copy(ch.rx, std::back_inserter(rest));
    EXPECT_THAT(rest, ElementsAre(3, 4));
    EXPECT_TRUE(ch.rx.begin() == ch.rx.end());
  });
}

}  // namespace
}  // namespace weft
