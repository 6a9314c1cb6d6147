// Broadcast: everybody gets everything, in order, or is told how much was missed.
#include <weft/broadcast.hpp>

#include <weft/cancel.hpp>
#include <weft/core/error.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;
using testing::text_of;

using Values = std::vector<int>;
using IntSubscriber = Broadcast<int>::Subscriber;

// All that comes until the end.
Values drained(const IntSubscriber& from) {
  Values values;
  for (const int v : from) values.push_back(v);
  return values;
}
// What is there now.
Values available(const IntSubscriber& from) {
  Values values;
  while (const Received<int> got = from.try_recv()) values.push_back(*got);
  return values;
}

std::exception_ptr fire() { return std::make_exception_ptr(std::runtime_error{"fire"}); }

static_assert(std::is_nothrow_move_constructible_v<IntSubscriber>);
static_assert(std::is_nothrow_copy_constructible_v<IntSubscriber>);
static_assert(std::input_iterator<IntSubscriber::iterator>);

// ── values ──────────────────────────────────────────────────────────────────────────────────────

TEST(Broadcast, EverybodyGetsEverything) {
  everywhere([] {
    Broadcast<int> b{8};
    std::vector<Values> got(3);
    nursery([&](Nursery& n) {
      for (Values& mine : got)
        n.spawn([&mine, rx = b.subscribe()] { mine = drained(rx); });
      for (int i = 0; i < 8; ++i) EXPECT_TRUE(b.send(i));
      b.drop();
    });
    for (const Values& mine : got) EXPECT_EQ(mine, (Values{0, 1, 2, 3, 4, 5, 6, 7}));
  });
}

TEST(Broadcast, EveryFormReceives) {
  on_both_engines([] {
    Broadcast<std::string> b{{.capacity = 8, .name = "news"}};
    EXPECT_EQ(b.capacity(), 8U);
    const auto rx = b.subscribe();
    EXPECT_EQ(rx.try_recv().status(), RecvStatus::empty);
    EXPECT_EQ(rx.recv_for(0s).status(), RecvStatus::timed_out);
    EXPECT_EQ(rx.recv_for(1ms).status(), RecvStatus::timed_out);
    const std::string first = "first";
    EXPECT_TRUE(b.send(first));
    EXPECT_EQ(first, "first");
    for (const char* text : {"second", "third", "fourth", "fifth", "sixth"})
      EXPECT_TRUE(b.send(text));
    EXPECT_EQ(rx.recv(), "first");
    EXPECT_EQ(*rx.try_recv(), "second");
    EXPECT_EQ(*rx.recv_for(0s), "third");
    EXPECT_EQ(*rx.recv(no_throw), "fourth");
    auto arm = rx.on_recv();
    EXPECT_EQ(select(arm), 0U);
    EXPECT_EQ(arm.value(), "fifth");
    EXPECT_EQ(arm.value(), "fifth");  // it takes one
    std::string handled;
    select(rx.on_recv([&](std::optional<std::string> v) { handled = v.value(); }));
    EXPECT_EQ(handled, "sixth");
    EXPECT_EQ(rx.try_recv().status(), RecvStatus::empty);
    EXPECT_EQ(rx.lagged(), 0U);
  });
}

TEST(Broadcast, EveryFormWaits) {
  everywhere([] {
    Broadcast<int> b{8};
    Event taken;
    nursery([&](Nursery& n) {
      n.spawn([&taken, rx = b.subscribe()] {
        EXPECT_EQ(rx.recv(), 0);
        taken.set();
        EXPECT_EQ(*rx.recv_for(1h), 1);
        taken.set();
        EXPECT_EQ(*rx.recv(no_throw), 2);
        taken.set();
        auto arm = rx.on_recv();
        auto never = IntSubscriber{}.on_recv();
        EXPECT_EQ(select(never, arm), 1U);
        EXPECT_EQ(arm.value(), 3);
        taken.set();
      });
      for (int i = 0; i < 4; ++i) {
        let_others_block();
        EXPECT_TRUE(b.send(i));
        taken.wait();
        taken.reset();
      }
    });
  });
}

TEST(Broadcast, SeesWhatIsSentAfterItSubscribed) {
  on_both_engines([] {
    Broadcast<int> b{4};
    const IntSubscriber early = b.subscribe();
    EXPECT_TRUE(b.send(1));
    const IntSubscriber late = b.subscribe();
    EXPECT_TRUE(b.send(2));
    b.close();
    const IntSubscriber too_late = b.subscribe();
    EXPECT_EQ(drained(early), (Values{1, 2}));
    EXPECT_EQ(drained(late), Values{2});
    EXPECT_EQ(drained(too_late), Values{});
  });
}

TEST(Broadcast, SendsThoughNobodyListens) {
  Broadcast<int> b{2};
  EXPECT_EQ(b.receivers(), 0U);
  EXPECT_TRUE(b.send(1));
  {
    const IntSubscriber one = b.subscribe();
    const IntSubscriber other = one;
    EXPECT_EQ(b.receivers(), 2U);
    EXPECT_TRUE(b.send(2));
  }
  EXPECT_EQ(b.receivers(), 0U);
  for (int i = 3; i < 10; ++i) EXPECT_TRUE(b.send(i));
  const IntSubscriber next = b.subscribe();
  EXPECT_TRUE(b.send(10));
  EXPECT_EQ(available(next), Values{10});
  EXPECT_EQ(next.lagged(), 0U);
}

TEST(Broadcast, ACopyIsAtTheSamePlace) {
  Broadcast<int> b{4};
  IntSubscriber rx = b.subscribe();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(b.send(i));
  EXPECT_EQ(rx.recv(), 2);  // 0 and 1 are lost
  IntSubscriber copy = rx;
  EXPECT_EQ(available(rx), (Values{3, 4, 5}));
  EXPECT_EQ(available(copy), (Values{3, 4, 5}));
  EXPECT_EQ(rx.lagged(), 2U);
  EXPECT_EQ(copy.lagged(), 0U);

  IntSubscriber moved = std::move(copy);
  EXPECT_FALSE(copy);  // NOLINT: a moved end is no end
  EXPECT_EQ(b.receivers(), 2U);
  rx = moved;
  EXPECT_EQ(b.receivers(), 2U);
  const IntSubscriber& self = rx;
  rx = self;
  moved.drop();
  EXPECT_FALSE(moved);
  EXPECT_EQ(b.receivers(), 1U);
  EXPECT_TRUE(b.send(6));
  EXPECT_EQ(available(rx), Values{6});
}

// ── lag ─────────────────────────────────────────────────────────────────────────────────────────

TEST(Broadcast, CountsWhatWasOverwritten) {
  Broadcast<int> b{3};
  const IntSubscriber rx = b.subscribe();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(b.send(i));
  EXPECT_EQ(rx.lagged(), 0U);
  EXPECT_TRUE(b.send(3));
  EXPECT_EQ(rx.lagged(), 1U);  // also before the next receive
  EXPECT_EQ(rx.lagged(), 0U);
  EXPECT_EQ(rx.recv(), 1);
  for (int i = 4; i < 9; ++i) EXPECT_TRUE(b.send(i));  // 2, 3, 4, 5 are lost
  EXPECT_EQ(rx.recv(), 6);
  EXPECT_EQ(rx.recv(), 7);
  EXPECT_EQ(rx.lagged(), 4U);
  EXPECT_EQ(rx.recv(), 8);
  EXPECT_EQ(rx.lagged(), 0U);
}

TEST(Broadcast, OneSlotKeepsTheLast) {
  Broadcast<int> b{1};
  const IntSubscriber rx = b.subscribe();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(b.send(i));
  b.close();
  EXPECT_EQ(drained(rx), Values{99});
  EXPECT_EQ(rx.lagged(), 99U);
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

TEST(Broadcast, ClosedIsDrainedFirst) {
  on_both_engines([] {
    Broadcast<int> b{4};
    const IntSubscriber rx = b.subscribe();
    EXPECT_TRUE(b.send(1));
    EXPECT_TRUE(b.send(2));
    EXPECT_FALSE(b.closed());
    EXPECT_TRUE(b.close());
    EXPECT_FALSE(b.close());
    EXPECT_TRUE(b.closed());
    EXPECT_TRUE(rx.closed());
    EXPECT_FALSE(b.send(3));
    EXPECT_EQ(drained(rx), (Values{1, 2}));
    EXPECT_EQ(rx.recv(), std::nullopt);
    EXPECT_EQ(rx.try_recv().status(), RecvStatus::closed);
    EXPECT_EQ(rx.recv_for(1h).status(), RecvStatus::closed);
    EXPECT_EQ(rx.recv(no_throw).status(), RecvStatus::closed);
    auto arm = rx.on_recv();
    EXPECT_EQ(select(arm), 0U);
    EXPECT_FALSE(arm.value());
    EXPECT_FALSE(b.error());
  });
}

TEST(Broadcast, TheErrorComesLast) {
  on_both_engines([] {
    Broadcast<int> b{4};
    const IntSubscriber rx = b.subscribe();
    EXPECT_TRUE(b.send(1));
    EXPECT_TRUE(b.close(fire()));
    EXPECT_FALSE(b.close(std::make_exception_ptr(std::logic_error{"too late"})));
    EXPECT_EQ(rx.recv(), 1);
    EXPECT_EQ(text_of<std::runtime_error>([&] { static_cast<void>(rx.recv()); }), "fire");
    EXPECT_THROW(static_cast<void>(rx.try_recv()), std::runtime_error);
    EXPECT_THROW(static_cast<void>(rx.recv_for(1h)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(rx.recv(no_throw)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(drained(rx)), std::runtime_error);
    auto arm = rx.on_recv();
    EXPECT_EQ(select(arm), 0U);
    EXPECT_THROW(static_cast<void>(arm.value()), std::runtime_error);
    bool ran = false;
    EXPECT_THROW(select(rx.on_recv([&](std::optional<int>) { ran = true; })), std::runtime_error);
    EXPECT_FALSE(ran);
    EXPECT_EQ(testing::what(rx.error()), "fire");
  });
}

TEST(Broadcast, CloseEndsWaits) {
  everywhere([] {
    Broadcast<int> b{4};
    nursery([&](Nursery& n) {
      n.spawn([rx = b.subscribe()] { EXPECT_FALSE(rx.recv()); });
      n.spawn([rx = b.subscribe()] { EXPECT_EQ(rx.recv_for(1h).status(), RecvStatus::closed); });
      n.spawn([rx = b.subscribe()] { EXPECT_EQ(rx.recv(no_throw).status(), RecvStatus::closed); });
      n.spawn([rx = b.subscribe()] {
        auto arm = rx.on_recv();
        select(arm);
        EXPECT_FALSE(arm.value());
      });
      let_others_block();
      EXPECT_TRUE(b.close());
    });
  });
}

TEST(Broadcast, TheLastSenderCloses) {
  on_both_engines([] {
    Broadcast<int> one{4};
    const IntSubscriber rx = one.subscribe();
    {
      const Broadcast<int> other = one;
      EXPECT_TRUE(other == one);
      EXPECT_TRUE(other.send(1));
      one.drop();
      EXPECT_FALSE(one);
      EXPECT_FALSE(rx.closed());
      EXPECT_TRUE(other.send(2));
    }
    EXPECT_TRUE(rx.closed());
    EXPECT_EQ(drained(rx), (Values{1, 2}));  // and the values outlive the senders
  });
}

TEST(Broadcast, BadInput) {
  EXPECT_THROW(Broadcast<int>{0}, std::invalid_argument);
  Broadcast<int> b{1};
  IntSubscriber rx = b.subscribe();
  rx.drop();
  EXPECT_THROW(static_cast<void>(rx.recv()), std::logic_error);
  EXPECT_THROW(static_cast<void>(rx.lagged()), std::logic_error);
  b.drop();
  EXPECT_THROW(b.send(1), std::logic_error);
  EXPECT_THROW(static_cast<void>(b.subscribe()), std::logic_error);
  SimIo{}.run([&] {
    auto never = rx.on_recv();
    EXPECT_EQ(select(never, after(1s)), 1U);
  });
}

TEST(Broadcast, DeadlockIsReportedByName) {
  const std::string report = text_of<Deadlock>([] {
    SimIo{}.run([] {
      Broadcast<int> b{{.name = "prices"}};
      static_cast<void>(b.subscribe().recv());
    });
  });
  EXPECT_NE(report.find("broadcast recv \"prices\""), std::string::npos) << report;
}

// ── types ───────────────────────────────────────────────────────────────────────────────────────

// Counts its objects, and throws when it is told to.
struct Counted {
  explicit Counted(int n) : number(n) { ++alive; }
  Counted(const Counted& other) : number(other.number) {
    if (throws) throw std::runtime_error{"no copy"};
    ++alive;
  }
  Counted(Counted&& other) noexcept : number(std::exchange(other.number, -1)) { ++alive; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
  int number;
  static inline std::atomic<int> alive{0};
  static inline std::atomic<bool> throws{false};
};

TEST(Broadcast, ASendThatThrowsHasNotHappened) {
  Broadcast<Counted> b{2};
  const auto rx = b.subscribe();
  const Counted value{1};
  Counted::throws = true;
  EXPECT_THROW(b.send(value), std::runtime_error);
  Counted::throws = false;
  EXPECT_EQ(rx.try_recv().status(), RecvStatus::empty);
  EXPECT_TRUE(b.send(value));
  EXPECT_EQ(rx.try_recv()->number, 1);
}

TEST(Broadcast, AReceiveThatThrowsHasTakenNothing) {
  on_both_engines([] {
    Broadcast<Counted> b{4};
    const auto rx = b.subscribe();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(b.send(Counted{i}));
    auto arm = rx.on_recv();
    select(arm);
    Counted::throws = true;
    EXPECT_THROW(static_cast<void>(rx.recv()), std::runtime_error);
    EXPECT_THROW(static_cast<void>(rx.try_recv()), std::runtime_error);
    EXPECT_THROW(static_cast<void>(rx.recv_for(1s)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(rx.recv(no_throw)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(arm.value()), std::runtime_error);
    Counted::throws = false;
    EXPECT_EQ(arm.value()->number, 0);
    EXPECT_EQ(rx.recv()->number, 1);
    EXPECT_EQ(rx.recv()->number, 2);
    EXPECT_EQ(rx.lagged(), 0U);
  });
  EXPECT_EQ(Counted::alive, 0);
}

// A type with a move that may throw is copied instead, and so whole either way.
struct Heavy {
  explicit Heavy(std::string t) : text(std::move(t)) {}
  Heavy(const Heavy&) = default;
  Heavy(Heavy&& other) noexcept(false) : text(std::move(other.text)) {}
  Heavy& operator=(const Heavy&) = default;
  Heavy& operator=(Heavy&&) noexcept(false) = default;
  ~Heavy() = default;
  std::string text;
};

TEST(Broadcast, WhatWasRefusedIsUntouched) {
  Broadcast<Counted> b{2};
  Broadcast<Heavy> heavy{2};
  const auto rx = heavy.subscribe();
  EXPECT_TRUE(heavy.send(Heavy{"light"}));
  EXPECT_EQ(rx.recv()->text, "light");
  b.close();
  heavy.close();
  Counted value{7};
  EXPECT_FALSE(b.send(std::move(value)));
  EXPECT_EQ(value.number, 7);  // NOLINT: it was not moved
  EXPECT_FALSE(b.send(value));
  Heavy lead{std::string(100, 'x')};
  EXPECT_FALSE(heavy.send(std::move(lead)));
  EXPECT_EQ(lead.text, std::string(100, 'x'));  // NOLINT
}

TEST(Broadcast, KeepsOneCopyOfTheLastFew) {
  {
    Broadcast<Counted> b{3};
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(b.send(Counted{i}));
    EXPECT_EQ(Counted::alive, 0);  // nobody listens
    auto one = b.subscribe();
    auto other = b.subscribe();
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(b.send(Counted{i}));
    EXPECT_EQ(Counted::alive, 3);
    one.drop();
    EXPECT_EQ(Counted::alive, 3);
    b.drop();
    EXPECT_EQ(other.recv()->number, 2);
    EXPECT_EQ(Counted::alive, 3);
    other.drop();  // the last to want them
    EXPECT_EQ(Counted::alive, 0);
  }
  EXPECT_EQ(Counted::alive, 0);
}

// A value's copy and its end are user code: they may use the broadcast.
TEST(Broadcast, ValuesMayUseIt) {
  struct Echo {
    explicit Echo(const Broadcast<int>& target) : to(&target) {}
    Echo(const Echo& other) : to(other.to) { to->send(1); }
    Echo& operator=(const Echo&) = delete;
    ~Echo() { to->send(2); }
    const Broadcast<int>* to;
  };
  Broadcast<int> notes{64};
  const IntSubscriber log = notes.subscribe();
  {
    Broadcast<Echo> b{1};
    const auto rx = b.subscribe();
    const Echo echo{notes};
    EXPECT_TRUE(b.send(echo));
    EXPECT_TRUE(b.send(echo));
    EXPECT_TRUE(rx.recv());
  }
  int copies = 0;
  for (const int v : available(log)) copies += v == 1 ? 1 : -1;
  EXPECT_EQ(copies, -1);  // and the first, which is no copy
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

TEST(Broadcast, ACancelledReceiveTakesNothing) {
  on_both_engines([] {
    Broadcast<int> b{4};
    const IntSubscriber rx = b.subscribe();
    EXPECT_FALSE(timeout(1ms, [&] { static_cast<void>(rx.recv()); }));
    EXPECT_FALSE(timeout(1ms, [&] { static_cast<void>(rx.recv_for(1h)); }));
    EXPECT_FALSE(timeout(1ms, [&] { select(rx.on_recv()); }));
    EXPECT_TRUE(b.send(1));
    cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      EXPECT_EQ(rx.recv(no_throw).status(), RecvStatus::cancelled);
      EXPECT_THROW(static_cast<void>(rx.recv()), Cancelled);
      EXPECT_THROW(static_cast<void>(rx.recv_for(1h)), Cancelled);
      EXPECT_EQ(*rx.try_recv(), 1);  // does not look
      EXPECT_TRUE(b.send(2));        // no cancel point
    });
    EXPECT_EQ(rx.recv(), 2);
  });
}

// ── select ──────────────────────────────────────────────────────────────────────────────────────

TEST(Broadcast, AnArmThatLosesTakesNothing) {
  on_both_engines([] {
    Broadcast<int> one{4};
    Broadcast<int> other{4};
    const IntSubscriber rx_one = one.subscribe();
    const IntSubscriber rx_other = other.subscribe();
    EXPECT_TRUE(one.send(1));
    EXPECT_TRUE(other.send(2));
    auto first = rx_one.on_recv();
    auto second = rx_other.on_recv();
    const std::size_t winner = select(first, second);
    EXPECT_EQ(*(winner == 0 ? first : second).value(), winner == 0 ? 1 : 2);
    EXPECT_EQ(available(rx_one).size() + available(rx_other).size(), 1U);
    EXPECT_EQ(select(first, second, otherwise()), 2U);
  });
}

TEST(Broadcast, AnArmIsWaitedForAgainAndAgain) {
  everywhere([] {
    Broadcast<int> b{16};
    nursery([&](Nursery& n) {
      n.spawn([rx = b.subscribe()] {
        int sum = 0;
        bool over = false;
        auto arm = rx.on_recv([&](std::optional<int> v) {
          if (v) sum += *v;
          else over = true;
        });
        SelectSet set;
        set.add(arm);
        while (!over) set.wait();
        EXPECT_EQ(sum, 55);
      });
      for (int i = 1; i <= 10; ++i) EXPECT_TRUE(b.send(i));
      b.drop();
    });
  });
}

// ── many at a time ──────────────────────────────────────────────────────────────────────────────

// A subscriber's account: what it received, in order, and what it was told it had missed.
struct Account {
  Values received;
  std::uint64_t lagged = 0;
  int first = 0;  // sent before it subscribed
};

// A random program: one sender, subscribers that come and go, wait in one way or another, are
// cancelled, and copy themselves.
class Trial {
 public:
  explicit Trial(std::uint64_t seed) : chance_(seed) {}

  void play() {
    const int count = static_cast<int>(below(40));
    Broadcast<Counted> b{1 + below(6)};
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i <= below(4); ++i) join(n, b);
      for (; sent_ < count; ++sent_) {
        if (below(3) == 0) sleep_for(std::chrono::milliseconds{below(4)});
        if (below(8) == 0) join(n, b);
        EXPECT_TRUE(b.send(Counted{sent_}));
      }
      b.drop();
    });
  }

  // Each one's values are in order; with those it missed they are all that were sent.
  void judge() const {
    for (const auto& account : accounts_) {
      int last = account->first - 1;
      for (const int v : account->received) {
        EXPECT_GT(v, last);
        last = v;
      }
      EXPECT_EQ(account->received.size() + account->lagged,
                static_cast<std::size_t>(sent_ - account->first));
      EXPECT_EQ(last, sent_ - 1) << "the last one is always kept";
      missed += account->lagged;
      received += account->received.size();
    }
  }
  static inline std::uint64_t missed = 0;
  static inline std::uint64_t received = 0;

 private:
  using Subscriber = Broadcast<Counted>::Subscriber;

  std::size_t below(std::size_t n) { return chance_() % n; }

  void join(Nursery& n, const Broadcast<Counted>& b) { start(n, b.subscribe(), sent_); }
  void start(Nursery& n, Subscriber rx, int first) {
    Account& mine = *accounts_.emplace_back(std::make_unique<Account>());
    mine.first = first;
    n.spawn([this, &n, &mine, rx = std::move(rx)] {
      while (step(rx, mine)) {
        if (below(3) == 0) sleep_for(std::chrono::milliseconds{below(6)});
        if (below(4) == 0) mine.lagged += rx.lagged();
        if (below(30) == 0 && accounts_.size() < 12) {
          mine.lagged += rx.lagged();  // what is lost so far is ours to tell
          const auto lost = static_cast<int>(mine.lagged);
          start(n, rx, mine.first + static_cast<int>(mine.received.size()) + lost);
        }
      }
      mine.lagged += rx.lagged();
    });
  }
  // One receive, in one of its forms. False: the end.
  bool step(const Subscriber& rx, Account& mine) {
    const auto keep = [&](const Counted& value) { mine.received.push_back(value.number); };
    const std::chrono::milliseconds limit{below(3)};
    switch (below(6)) {
      case 0: {
        const std::optional<Counted> got = rx.recv();
        if (got) keep(*got);
        return got.has_value();
      }
      case 1: {
        const Received<Counted> got = rx.recv_for(limit);
        if (got) keep(*got);
        return got.status() != RecvStatus::closed;
      }
      case 2: {
        const Received<Counted> got = rx.try_recv();
        if (got) keep(*got);
        else this_fiber::yield();
        return got.status() != RecvStatus::closed;
      }
      case 3: {
        auto value = rx.on_recv();
        auto time = after(limit);
        if (select(value, time) != 0) return true;
        if (value.value()) keep(*value.value());
        return value.value().has_value();
      }
      case 4: {
        bool more = true;
        static_cast<void>(timeout(limit, [&] {
          const std::optional<Counted> got = rx.recv();
          if (got) keep(*got);
          more = got.has_value();
        }));
        return more;
      }
      default: {
        const Received<Counted> got = rx.recv(no_throw);
        if (got) keep(*got);
        return got.status() != RecvStatus::closed;
      }
    }
  }

  std::mt19937_64 chance_;
  int sent_ = 0;
  std::vector<std::unique_ptr<Account>> accounts_;
};

TEST(Broadcast, RandomProgramsAddUp) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial{seed};
    SimIo{{.seed = seed}}.run([&] { trial.play(); });
    trial.judge();
    ASSERT_EQ(Counted::alive, 0);
  }
  EXPECT_GT(Trial::missed, 500U);  // that they are not trivial
  EXPECT_GT(Trial::received, 2'000U);
}

// On real workers, and threads of our own among the subscribers and senders.
TEST(Broadcast, WorkersAndThreadsAddUp) {
  constexpr int kSenders = 3;
  constexpr int kEach = arch::kTsan ? 500 : 3'000;
  on_workers({1U, 2U, 4U}, [] {
    Broadcast<Counted> b{64};
    std::atomic<std::uint64_t> lagged{0};
    const auto receive = [&lagged](const Broadcast<Counted>::Subscriber& rx) {
      int count = 0;
      std::vector<int> last(kSenders, -1);
      for (const Counted& value : rx) {
        int& before = last[static_cast<std::size_t>(value.number / kEach)];
        EXPECT_GT(value.number, before);  // each sender's are in order
        before = value.number;
        ++count;
      }
      const std::uint64_t lost = rx.lagged();
      EXPECT_EQ(static_cast<std::uint64_t>(count) + lost, std::uint64_t{kSenders} * kEach);
      lagged += lost;
    };
    std::vector<Broadcast<Counted>::Subscriber> listeners(3, b.subscribe());
    std::jthread listener{[&receive, rx = b.subscribe()] { receive(rx); }};
    std::jthread speaker{[b] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(b.send(Counted{(kSenders - 1) * kEach + i}));
    }};
    nursery([&](Nursery& n) {
      for (auto& each : listeners) n.spawn([&receive, rx = std::move(each)] { receive(rx); });
      for (int sender = 0; sender + 1 < kSenders; ++sender)
        n.spawn([sender, b] {
          for (int i = 0; i < kEach; ++i) {
            EXPECT_TRUE(b.send(Counted{sender * kEach + i}));
            if (i % 50 == 0) this_fiber::yield();
          }
        });
      b.drop();
    });
  });
  EXPECT_EQ(Counted::alive, 0);
}

// Ends come and go while others send, close and receive.
TEST(Broadcast, EndsRace) {
  on_workers({2U, 4U}, [] {
    std::atomic<int> received{0};
    for (int round = 0; round < (arch::kTsan ? 200 : 2'000); ++round) {
      Broadcast<Counted> b{2};
      nursery([&](Nursery& n) {
        n.spawn([b] {
          for (int i = 0; i < 3; ++i) {
            static_cast<void>(b.subscribe().try_recv());
            this_fiber::yield();
          }
          b.close();
        });
        for (int i = 0; i < 2; ++i)
          n.spawn([b] {
            for (int v = 0; v < 5 && b.send(Counted{v}); ++v) this_fiber::yield();
          });
        for (int i = 0; i < 3; ++i)
          n.spawn([&received, rx = b.subscribe()]() mutable {
            const auto copy = rx;
            static_cast<void>(copy.try_recv());
            rx.drop();
            while (copy.recv()) ++received;
          });
        b.drop();
      });
    }
    EXPECT_GT(received, 0);
  });
  EXPECT_EQ(Counted::alive, 0);
}

}  // namespace
}  // namespace weft
