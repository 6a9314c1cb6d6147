// What may flow through a channel: types that cannot be copied, made from nothing, assigned, moved
// without a risk, or put at any address.
#include <weft/channel.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_workers;

void on_every_engine(const std::function<void()>& f) {
  on_both_engines(f);
  on_workers({2U, 4U, 16U}, f);
}

// ── plain ones ──────────────────────────────────────────────────────────────────────────────────

TEST(ChannelTypes, MoveOnly) {
  on_every_engine([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{2}, SIZE_MAX}) {
      Channel<std::unique_ptr<int>> ch{capacity};
      nursery([&](Nursery& n) {
        n.spawn([tx = std::move(ch.tx)] {
          for (int i = 0; i < 10; ++i) EXPECT_TRUE(tx.send(std::make_unique<int>(i)));
          EXPECT_EQ(tx.send(std::make_unique<int>(10), no_throw), SendStatus::ok);
          EXPECT_EQ(tx.send_for(std::make_unique<int>(11), 1h), SendStatus::ok);
          select(tx.on_send(std::make_unique<int>(12), [](bool sent) { EXPECT_TRUE(sent); }));
        });
        int expected = 0;
        for (auto& v : ch.rx) EXPECT_EQ(*v, expected++);
        EXPECT_EQ(expected, 13);
      });
    }
  });
}

struct NoDefault {
  explicit NoDefault(int n) : number(n) {}
  int number;
};

TEST(ChannelTypes, NotDefaultConstructible) {
  on_every_engine([] {
    Channel<NoDefault> ch{1};
    EXPECT_TRUE(ch.tx.send(NoDefault{5}));
    EXPECT_EQ(ch.rx.recv()->number, 5);
    EXPECT_TRUE(ch.tx.send(NoDefault{6}));
    const Received<NoDefault> got = ch.rx.try_recv();
    EXPECT_EQ(got->number, 6);
    auto arm = ch.tx.on_send(NoDefault{7});
    EXPECT_EQ(select(arm), 0U);
    EXPECT_EQ(ch.rx.recv()->number, 7);
  });
}

struct alignas(256) Aligned {
  int number = 0;
  [[nodiscard]] bool well() const { return reinterpret_cast<std::uintptr_t>(this) % 256 == 0; }
};

TEST(ChannelTypes, OverAligned) {
  on_every_engine([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{3}, SIZE_MAX}) {
      Channel<Aligned> ch{capacity};
      nursery([&](Nursery& n) {
        n.spawn([tx = std::move(ch.tx)] {
          for (int i = 0; i < 40; ++i) EXPECT_TRUE(tx.send(Aligned{i}));
        });
        int expected = 0;
        for (const Aligned& v : ch.rx) {
          EXPECT_TRUE(v.well());
          EXPECT_EQ(v.number, expected++);
        }
        EXPECT_EQ(expected, 40);
      });
    }
  });
}

TEST(ChannelTypes, OptionalsAndBools) {
  Channel<std::optional<int>> ch{3};
  EXPECT_EQ(ch.tx.try_send(std::nullopt), SendStatus::ok);
  EXPECT_EQ(ch.tx.try_send(std::optional{4}), SendStatus::ok);
  const std::optional<std::optional<int>> got = ch.rx.recv();
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, std::nullopt);
  EXPECT_EQ(*ch.rx.try_recv(), 4);
  Channel<bool> flags{1};
  EXPECT_EQ(flags.tx.try_send(false), SendStatus::ok);
  EXPECT_EQ(*flags.rx.try_recv(), false);
}

// Regression: an iterator assigned what came, and SendArm::renew() what it was given.
TEST(ChannelTypes, NotAssignable) {
  struct Fixed {
    const int number;
  };
  static_assert(!std::is_move_assignable_v<Fixed>);
  on_every_engine([] {
    Channel<Fixed> ch{3};
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(ch.tx.send(Fixed{i}));
    auto arm = ch.tx.on_send(Fixed{7});
    arm.renew(Fixed{2});
    EXPECT_EQ(select(arm), 0U);
    ch.tx.drop();
    int expected = 0;
    for (const Fixed& v : ch.rx) EXPECT_EQ(v.number, expected++);
    EXPECT_EQ(expected, 3);
  });
}

// Regression: places in the buffer were found by the type's own operator&.
TEST(ChannelTypes, WithAnAddressOperatorOfItsOwn) {
  struct Odd {
    int number = 0;
    Odd* operator&() { return nullptr; }
    const Odd* operator&() const { return nullptr; }
  };
  Channel<Odd> ch = unbounded<Odd>();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(ch.tx.try_send(Odd{i}), SendStatus::ok);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(ch.rx.try_recv()->number, i);
}

// A message that says where the answer goes. Regression: Sender<T> wanted to know all of T.
struct Message {
  int number = 0;
  Sender<Message> answer_to{};
};

TEST(ChannelTypes, OfMessagesThatHoldEnds) {
  on_every_engine([] {
    Channel<Message> requests;
    nursery([&](Nursery& n) {
      n.spawn([rx = std::move(requests.rx)] {
        for (const Message& m : rx) EXPECT_TRUE(m.answer_to.send({.number = m.number + 1}));
      });
      const Sender<Message> tx = std::move(requests.tx);
      for (int i = 0; i < 10; ++i) {
        Channel<Message> answer{1};
        EXPECT_TRUE(tx.send({.number = i, .answer_to = std::move(answer.tx)}));
        EXPECT_EQ(answer.rx.recv()->number, i + 1);
        // Regression: the iterator kept the last message, and its end, until the next one came.
        EXPECT_FALSE(answer.rx.recv());
      }
    });
  });
}

TEST(ChannelTypes, AValueMayHoldTheLastSenderOfItsOwnChannel) {
  Channel<Message> ch{2};
  Sender<Message> copy = ch.tx;
  EXPECT_EQ(copy.try_send(Message{1, std::move(ch.tx)}), SendStatus::ok);
  copy.drop();
  EXPECT_FALSE(ch.rx.closed());
  ch.rx.drop();  // nothing leaks, nothing is used after its end
}

// ── batches ─────────────────────────────────────────────────────────────────────────────────────

// Regression: send_all() did not take a range of what can only be moved.
TEST(ChannelBatch, ElementsOfAnRvalueRangeAreMoved) {
  std::vector<std::unique_ptr<int>> numbers;
  for (int i = 0; i < 4; ++i) numbers.push_back(std::make_unique<int>(i));
  Channel<std::unique_ptr<int>> ch{4};
  EXPECT_EQ(ch.tx.send_all(std::move(numbers)), 4U);
  std::vector<std::unique_ptr<int>> got;
  EXPECT_EQ(ch.rx.recv_many(std::back_inserter(got), 10), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*got[std::size_t(i)], i);
}

// Regression: the element that was refused was moved from, too.
TEST(ChannelBatch, WhatWasNotSentStaysInTheRange) {
  Channel<std::unique_ptr<int>> ch{{.capacity = 2, .overflow = Overflow::drop_new}};
  std::vector<std::unique_ptr<int>> numbers;
  for (int i = 0; i < 4; ++i) numbers.push_back(std::make_unique<int>(i));
  EXPECT_EQ(ch.tx.send_all(std::move(numbers)), 2U);
  EXPECT_EQ(numbers[1], nullptr);
  ASSERT_TRUE(numbers[2]);
  EXPECT_EQ(*numbers[2], 2);
  EXPECT_TRUE(numbers[3]);
}

// Regression: elements were moved out of what a temporary view looks at.
TEST(ChannelBatch, LvaluesAndViewsAreCopiedFrom) {
  std::vector<std::string> words{"a word too long for a small string", "another one of that kind"};
  Channel<std::string> ch = unbounded<std::string>();
  EXPECT_EQ(ch.tx.send_all(words), 2U);
  EXPECT_EQ(ch.tx.send_all(std::span{words}), 2U);
  EXPECT_EQ(ch.tx.send_all(std::as_const(words)), 2U);
  EXPECT_EQ(words[0], "a word too long for a small string");
  const char* const literals[] = {"converted"};
  EXPECT_EQ(ch.tx.send_all(literals), 1U);
  EXPECT_EQ(ch.rx.size(), 7U);
}

// ── types whose move may throw ──────────────────────────────────────────────────────────────────

struct MoveFailed : std::exception {};

// Counts what lives; moves and copies throw when told to.
struct Ledger {
  int live = 0;
  int until_throw = -1;  // so many more moves or copies succeed; negative: all
};

void may_throw(Ledger& ledger) {
  if (ledger.until_throw >= 0 && ledger.until_throw-- == 0) throw MoveFailed{};
}

class Risky {
 public:
  Risky(Ledger& ledger, int number) : ledger_(&ledger), number_(number) { ++ledger_->live; }
  Risky(Risky&& other) noexcept(false) : ledger_(other.ledger_), number_(other.number_) {
    may_throw(*ledger_);
    other.number_ = -1;
    ++ledger_->live;
  }
  Risky& operator=(Risky&& other) noexcept(false) {
    may_throw(*ledger_);
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  ~Risky() { --ledger_->live; }
  [[nodiscard]] int number() const { return number_; }

 protected:
  Ledger* ledger_;
  int number_;
};

class RiskyCopy : public Risky {
 public:
  using Risky::Risky;
  RiskyCopy(RiskyCopy&&) noexcept(false) = default;
  RiskyCopy(const RiskyCopy& other) : Risky(*other.ledger_, other.number_) { may_throw(*ledger_); }
  RiskyCopy& operator=(RiskyCopy&&) noexcept(false) = default;
};

static_assert(detail::kBoxed<Risky> && detail::kBoxed<RiskyCopy>);
static_assert(!detail::kBoxed<std::string>);
static_assert(!std::is_copy_constructible_v<Risky> && std::is_copy_constructible_v<RiskyCopy>);

template <class T>
class ChannelRisky : public ::testing::Test {};
using RiskyTypes = ::testing::Types<Risky, RiskyCopy>;
TYPED_TEST_SUITE(ChannelRisky, RiskyTypes);

TYPED_TEST(ChannelRisky, PassesThroughEveryKind) {
  on_both_engines([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{2}, SIZE_MAX}) {
      Ledger ledger;
      {
        Channel<TypeParam> ch{capacity};
        nursery([&](Nursery& n) {
          n.spawn([&ledger, tx = std::move(ch.tx)] {
            for (int i = 0; i < 5; ++i) EXPECT_TRUE(tx.send(TypeParam{ledger, i}));
            EXPECT_EQ(tx.send_for(TypeParam{ledger, 5}, 1h), SendStatus::ok);
            EXPECT_EQ(tx.send(TypeParam{ledger, 6}, no_throw), SendStatus::ok);
            auto arm = tx.on_send(TypeParam{ledger, 7});
            EXPECT_EQ(select(arm), 0U);
            EXPECT_TRUE(arm.sent());
            for (int i = 8; i < 12; ++i) EXPECT_TRUE(tx.send(TypeParam{ledger, i}));
          });
          EXPECT_EQ(ch.rx.recv()->number(), 0);
          EXPECT_EQ(ch.rx.recv_for(1h)->number(), 1);
          EXPECT_EQ(ch.rx.recv(no_throw)->number(), 2);
          auto arm = ch.rx.on_recv();
          EXPECT_EQ(select(arm), 0U);
          EXPECT_EQ(arm.value()->number(), 3);
          int expected = 4;
          for (const TypeParam& v : ch.rx) EXPECT_EQ(v.number(), expected++);
          EXPECT_EQ(expected, 12);
        });
      }
      EXPECT_EQ(ledger.live, 0);
    }
  });
}

TYPED_TEST(ChannelRisky, AThrowWhileBoxingSendsNothing) {
  Ledger ledger;
  {
    Channel<TypeParam> ch{1};
    TypeParam value{ledger, 7};
    ledger.until_throw = 0;
    EXPECT_THROW(static_cast<void>(ch.tx.try_send(std::move(value))), MoveFailed);
    EXPECT_EQ(value.number(), 7);
    EXPECT_EQ(ch.tx.size(), 0U);
    EXPECT_EQ(ch.tx.try_send(std::move(value)), SendStatus::ok);
  }
  EXPECT_EQ(ledger.live, 0);
}

TYPED_TEST(ChannelRisky, AThrowWhileUnboxingCountsAsReceived) {
  Ledger ledger;
  {
    Channel<TypeParam> ch{4};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(ch.tx.try_send(TypeParam{ledger, i}), SendStatus::ok);
    ledger.until_throw = 0;
    EXPECT_THROW(static_cast<void>(ch.rx.recv()), MoveFailed);
    EXPECT_EQ(ch.rx.size(), 3U);
    ledger.until_throw = 0;
    EXPECT_THROW(static_cast<void>(ch.rx.try_recv()), MoveFailed);
    EXPECT_EQ(ch.rx.size(), 2U);
    auto arm = ch.rx.on_recv();
    EXPECT_EQ(select(arm), 0U);
    ledger.until_throw = 0;
    EXPECT_THROW(static_cast<void>(arm.value()), MoveFailed);
    EXPECT_EQ(ch.rx.size(), 1U);
    EXPECT_EQ(ch.rx.try_recv()->number(), 3);
  }
  EXPECT_EQ(ledger.live, 0);
}

TYPED_TEST(ChannelRisky, WhatIsNotSentIsTheCallersAgain) {
  on_both_engines([] {
    Ledger ledger;
    {
      Channel<TypeParam> ch{1};
      EXPECT_TRUE(ch.tx.send(TypeParam{ledger, 0}));
      TypeParam value{ledger, 7};
      EXPECT_EQ(ch.tx.try_send(std::move(value)), SendStatus::full);
      EXPECT_EQ(value.number(), 7);
      EXPECT_EQ(ch.tx.send_for(std::move(value), 1us), SendStatus::timed_out);
      EXPECT_EQ(value.number(), 7);
      ch.rx.drop();
      EXPECT_FALSE(ch.tx.send(std::move(value)));
      EXPECT_EQ(ch.tx.send(std::move(value), no_throw), SendStatus::closed);
      EXPECT_EQ(value.number(), 7);
      auto arm = ch.tx.on_send(TypeParam{ledger, 8});
      EXPECT_EQ(select(arm), 0U);
      EXPECT_EQ(arm.value().number(), 8);
    }
    EXPECT_EQ(ledger.live, 0);
  });
}

// Regression: what cannot be copied was in its box when Cancelled was thrown, and went with it.
TYPED_TEST(ChannelRisky, ACancelledSendGivesTheValueBack) {
  on_both_engines([] {
    Ledger ledger;
    {
      Channel<TypeParam> ch;
      TypeParam value{ledger, 7};
      EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
        scope.cancel();
        static_cast<void>(ch.tx.send(std::move(value)));
      }));
      EXPECT_EQ(value.number(), 7) << "cancelled before";
      EXPECT_FALSE(timeout(1us, [&] { static_cast<void>(ch.tx.send(std::move(value))); }));
      EXPECT_EQ(value.number(), 7) << "cancelled while parked";
      EXPECT_FALSE(timeout(1us, [&] { static_cast<void>(ch.tx.send_for(std::move(value), 1h)); }));
      EXPECT_EQ(value.number(), 7);
      EXPECT_TRUE(timeout(1us, [&] {
        EXPECT_EQ(ch.tx.send(std::move(value), no_throw), SendStatus::cancelled);
      }));
      EXPECT_EQ(value.number(), 7);
    }
    EXPECT_EQ(ledger.live, 0);
  });
}

TYPED_TEST(ChannelRisky, IsDisposedOfOnce) {
  Ledger ledger;
  std::vector<int> disposed;
  {
    const auto note = [&](TypeParam&& v) { disposed.push_back(v.number()); };
    Channel<TypeParam> ch{
        {.capacity = 2, .overflow = Overflow::drop_old, .on_undelivered = note}};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(ch.tx.try_send(TypeParam{ledger, i}), SendStatus::ok);
    EXPECT_THAT(disposed, ElementsAre(0, 1));
    ch.tx.abort();
    EXPECT_THAT(disposed, ElementsAre(0, 1, 2, 3));
  }
  EXPECT_EQ(ledger.live, 0);
}

TEST(ChannelRiskyCopy, AConstValueIsCopied) {
  Ledger ledger;
  {
    Channel<RiskyCopy> ch{2};
    const RiskyCopy value{ledger, 7};
    EXPECT_EQ(ch.tx.try_send(value), SendStatus::ok);
    EXPECT_EQ(value.number(), 7);
    EXPECT_EQ(ch.rx.try_recv()->number(), 7);
    ledger.until_throw = 0;
    EXPECT_THROW(static_cast<void>(ch.tx.try_send(value)), MoveFailed);
    EXPECT_EQ(ch.tx.size(), 0U);
  }
  EXPECT_EQ(ledger.live, 0);
}

}  // namespace
}  // namespace weft
