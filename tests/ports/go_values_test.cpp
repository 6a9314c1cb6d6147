// Scenarios of Go's test programs for channels, on weft's: what flows, in which order, and what
// does not compile. A send on a closed channel returns false instead of panicking; a nil channel is
// an end of no channel.
#include <weft/channel.hpp>

#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/this_fiber.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

// ── perm: what must not compile ─────────────────────────────────────────────────────────────────

template <class End>
concept CanSend = requires(const End& end) { end.send(1); };
template <class End>
concept CanTrySend = requires(const End& end) { end.try_send(1); };
template <class End>
concept CanRecv = requires(const End& end) { end.recv(); };
template <class End>
concept CanTryRecv = requires(const End& end) { end.try_recv(); };
template <class End>
concept CanBeIterated = requires(const End& end) { end.begin(); };
template <class End>
concept SendsAsArm = requires(const End& end) { end.on_send(1); };
template <class End>
concept RecvsAsArm = requires(const End& end) { end.on_recv(); };
template <class End, class Value>
concept Takes = requires(const End& end, Value value) { end.send(std::move(value)); };
template <class... Arms>
concept Selectable = requires(Arms&&... arms) { weft::select(std::forward<Arms>(arms)...); };

static_assert(CanSend<Sender<int>> && CanTrySend<Sender<int>> && SendsAsArm<Sender<int>>);
static_assert(!CanRecv<Sender<int>> && !CanTryRecv<Sender<int>> && !RecvsAsArm<Sender<int>>,
              "a sender does not receive");
static_assert(CanRecv<Receiver<int>> && CanTryRecv<Receiver<int>> && RecvsAsArm<Receiver<int>>);
static_assert(!CanSend<Receiver<int>> && !CanTrySend<Receiver<int>> && !SendsAsArm<Receiver<int>>,
              "a receiver does not send");
static_assert(CanBeIterated<Receiver<int>> && !CanBeIterated<Sender<int>>);
static_assert(!std::convertible_to<Sender<int>, Receiver<int>> &&
                  !std::convertible_to<Receiver<int>, Sender<int>>,
              "an end stays what it is");
static_assert(!std::convertible_to<Sender<int>, Sender<long>> &&
                  !std::convertible_to<Receiver<int>, Receiver<long>>,
              "and keeps its type");
static_assert(!std::convertible_to<Channel<int>, Sender<int>> &&
                  !std::convertible_to<Channel<int>, Receiver<int>>,
              "a channel is a pair, not an end");
static_assert(!CanSend<Channel<int>> && !CanRecv<Channel<int>>);
static_assert(Takes<Sender<std::string>, const char*> && !Takes<Sender<std::string>, void*>);
static_assert(!Takes<Sender<int>, std::string>);
static_assert(Takes<Sender<std::unique_ptr<int>>, std::unique_ptr<int>>);
static_assert(!Selectable<Sender<int>> && !Selectable<Receiver<int>&, Channel<int>&>,
              "ends are no arms");
static_assert(!Selectable<int> && !Selectable<RecvArm<int>, int>);
static_assert(!std::copyable<Channel<std::unique_ptr<int>>> ||
              std::copyable<Sender<std::unique_ptr<int>>>);

// ── fifo: order on buffered and on unbuffered channels ──────────────────────────────────────────

TEST(GoFifo, ABufferKeepsTheOrder) {
  on_both_engines([] {
    constexpr int kCount = 10;
    Channel<int> ch{kCount};
    for (int i = 0; i < kCount; ++i) ASSERT_TRUE(ch.tx.send(i));
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(ch.rx.recv(), i);
  });
}

// Each link sends its number only after the link before it has: a handshake down a chain.
TEST(GoFifo, AChainOfRendezvousKeepsTheOrder) {
  on_both_engines([] {
    constexpr int kCount = 10;
    Channel<int> values;
    nursery([&](Nursery& n) {
      Channel<int> first;
      Receiver<int> before = std::move(first.rx);
      for (int i = 0; i < kCount; ++i) {
        Channel<int> next;
        n.spawn([&values, i, in = std::move(before), out = std::move(next.tx)] {
          EXPECT_TRUE(in.recv());
          EXPECT_EQ(values.rx.recv(), i);
          EXPECT_TRUE(out.send(1));
        });
        before = std::move(next.rx);
      }
      EXPECT_TRUE(first.tx.send(0));
      for (int i = 0; i < kCount; ++i) EXPECT_TRUE(values.tx.send(i));
      EXPECT_TRUE(before.recv());
    });
  });
}

// ── goroutines: a long chain, each fiber of which waits for the next ────────────────────────────

void chain_of(int length) {
  nursery([length](Nursery& n) {
    Channel<int> leftmost;
    Receiver<int> left = leftmost.rx;
    Sender<int> into = leftmost.tx;
    for (int i = 0; i < length; ++i) {
      Channel<int> right;
      n.spawn([out = std::move(into), in = std::move(right.rx)] {
        const std::optional<int> got = in.recv();
        EXPECT_TRUE(got && out.send(*got + 1));
      });
      into = std::move(right.tx);
    }
    n.spawn([out = std::move(into)] { EXPECT_TRUE(out.send(0)); });
    EXPECT_EQ(left.recv(), length);
  });
}

TEST(GoGoroutines, AChainOfTenThousand) {
  constexpr int kLength = arch::kTsan || arch::kAsan ? 1000 : 10'000;
  on_workers({1U, 2U, 4U}, [] { chain_of(kLength); });
  on_seeds([] { chain_of(300); }, 5);
}

// ── nonblock: try_ on all kinds of channels and values ──────────────────────────────────────────

template <class T>
void without_blocking(const std::function<T(int)>& make) {
  Channel<T> rendezvous;
  Channel<T> one{1};
  EXPECT_EQ(rendezvous.rx.try_recv().status(), RecvStatus::empty);
  EXPECT_EQ(one.rx.try_recv().status(), RecvStatus::empty);
  EXPECT_EQ(rendezvous.tx.try_send(make(1)), SendStatus::full) << "nobody is there";

  nursery([&](Nursery& n) {  // a sender waits
    n.spawn([&] { EXPECT_TRUE(rendezvous.tx.send(make(2))); });
    let_others_block();
    auto got = rendezvous.rx.try_recv();
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, make(2));
    EXPECT_EQ(rendezvous.rx.try_recv().status(), RecvStatus::empty);
  });
  nursery([&](Nursery& n) {  // a receiver waits
    n.spawn([&] { EXPECT_EQ(rendezvous.rx.recv(), make(3)); });
    let_others_block();
    EXPECT_EQ(rendezvous.tx.try_send(make(3)), SendStatus::ok);
  });
  EXPECT_EQ(one.tx.try_send(make(4)), SendStatus::ok);
  EXPECT_EQ(one.tx.try_send(make(5)), SendStatus::full);
  EXPECT_EQ(*one.rx.try_recv(), make(4));
  one.tx.close();
  EXPECT_EQ(one.rx.try_recv().status(), RecvStatus::closed);
  EXPECT_EQ(one.tx.try_send(make(6)), SendStatus::closed);
}

struct Point {
  int x;
  double y;
  friend bool operator==(const Point&, const Point&) = default;
};

TEST(GoNonblock, ValuesOfManyTypes) {
  on_both_engines([] {
    without_blocking<int>([](int i) { return i; });
    without_blocking<char>([](int i) { return static_cast<char>(i); });
    without_blocking<std::string>([](int i) { return std::string(100, static_cast<char>(i)); });
    without_blocking<Point>([](int i) { return Point{i, i / 2.0}; });
    without_blocking<std::vector<int>>([](int i) { return std::vector<int>(5, i); });
    without_blocking<std::shared_ptr<int>>([](int) { return std::shared_ptr<int>{}; });
    without_blocking<std::optional<int>>([](int i) { return std::optional<int>{i}; });
  });
}

// ── sendstmt: a send is an expression, and its value another ────────────────────────────────────

TEST(GoSendstmt, TheWholeExpressionIsSent) {
  on_both_engines([] {
    Channel<bool> flags{2};
    const bool a = false;
    const bool b = true;
    const bool sent = flags.tx.send(a || b);
    EXPECT_TRUE(sent);
    EXPECT_EQ(flags.rx.recv(), true);
    Channel<Channel<int>> channels{1};  // channels are values, too
    Channel<int> inner{1};
    EXPECT_TRUE(channels.tx.send(inner));
    EXPECT_TRUE(inner.tx.send(5));
    EXPECT_EQ(channels.rx.recv()->rx.recv(), 5);
  });
}

// ── zerosize: values without content ────────────────────────────────────────────────────────────

struct Nothing {};

TEST(GoZerosize, EmptyValuesAreCounted) {
  on_both_engines([] {
    for (const std::size_t capacity : {0U, 1U, 10U, 1000U}) {
      Channel<Nothing> ch{capacity};
      for (std::size_t i = 0; i < capacity; ++i) EXPECT_EQ(ch.tx.try_send({}), SendStatus::ok);
      EXPECT_EQ(ch.tx.try_send({}), SendStatus::full);
      EXPECT_EQ(ch.rx.size(), capacity);
      ch.tx.close();
      EXPECT_EQ(static_cast<std::size_t>(std::ranges::distance(ch.rx.begin(), ch.rx.end())),
                capacity);
    }
  });
}

// ── of the runtime's own tests: values that are interfaces, and none ────────────────────────────

struct Shape {
  virtual ~Shape() = default;
  [[nodiscard]] virtual int corners() const = 0;
};
struct Square final : Shape {
  [[nodiscard]] int corners() const override { return 4; }
};

TEST(GoSendInterface, PolymorphicValuesAndNullsByEveryWayOfSending) {
  on_both_engines([] {
    Channel<std::unique_ptr<Shape>> ch{1};
    EXPECT_TRUE(ch.tx.send(std::make_unique<Square>()));
    EXPECT_EQ((*ch.rx.recv())->corners(), 4);
    EXPECT_EQ(select(ch.tx.on_send(nullptr), otherwise()), 0U);
    EXPECT_EQ(select(ch.tx.on_send(std::make_unique<Square>()), otherwise()), 1U);
    EXPECT_EQ(*ch.rx.recv(), nullptr);
    EXPECT_EQ(select(ch.tx.on_send(std::make_unique<Square>()), ch.tx.on_send(nullptr)) < 2, true);
  });
}

}  // namespace
}  // namespace weft
