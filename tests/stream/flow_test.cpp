// Stages about flow, each through the suite, and what is their own: killswitch, retry, and those
// with several inputs or outputs.
#include "stream/stage_suite.hpp"

#include <array>
#include <map>
#include <numeric>

namespace weft::testing {
namespace {

using namespace std::chrono_literals;
using Items = std::vector<Item>;

Item plus_one(const Item& v) { return Item{v.n + 1}; }
Items all_plus_one(Items in) {
  for (Item& v : in) ++v.n;
  return in;
}
Items same(Items in) { return in; }
const auto boom = [](const Item&) -> Item { throw Boom{}; };

// What has been sent already, by somebody who is gone.
template <class T>
Receiver<T> holding(std::vector<T> values) {
  Channel<T> ch{values.size()};
  for (T& v : values) EXPECT_EQ(ch.tx.try_send(std::move(v)), SendStatus::ok);
  return std::move(ch.rx);
}
Receiver<Item> two_more() { return holding<Item>({Item{100}, Item{101}}); }
Items with_two_more(Items in) {
  in.emplace_back(100);
  in.emplace_back(101);
  return in;
}
Sender<Item> to_nobody() { return Channel<Item>{}.tx; }

Event& never_set() {
  static Event event;
  return event;
}
Receiver<int> always_alive() {
  static const Channel<int> channel;
  return channel.rx;
}

INSTANTIATE_TEST_SUITE_P(
    Flow, StageTest,
    ::testing::Values(
        stage_case("merge", [] { return merge(two_more()); }, with_two_more).unordered(),
        stage_case("merge of four", [] { return merge(two_more(), Receiver<Item>{}, two_more()); },
                   [](Items in) { return with_two_more(with_two_more(std::move(in))); })
            .unordered(),
        stage_case("chain", [] { return chain(two_more(), two_more()); },
                   [](Items in) { return with_two_more(with_two_more(std::move(in))); }),
        stage_case("zip",
                   [] {
                     return zip(holding(std::vector<int>(50))) |
                            map([](std::tuple<Item, int> row) { return std::get<0>(row); });
                   },
                   same),
        stage_case("tee", [] { return tee(to_nobody()); }, same),
        stage_case("killswitch by event", [] { return killswitch(never_set()); }, same),
        stage_case("killswitch", [] { return killswitch(always_alive()); }, same),
        stage_case("retry",
                   [] {
                     return retry({.times = 1, .delay = 1us},
                                  [failed = false](const Item& v) mutable {
                                    failed = !failed;
                                    return failed ? throw Boom{} : plus_one(v);
                                  });
                   },
                   all_plus_one)
            .throwing([] { return retry({.times = 2, .delay = 1us}, boom); })),
    case_name);

class FlowTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(Item::live, 0) << "values were left behind"; }
};

// Sends until it is refused, which it counts.
Receiver<Item> endless(Nursery& n, std::atomic<int>& refused, int of = 0) {
  Channel<Item> ch;
  n.spawn([tx = std::move(ch.tx), &refused, of] {
    while (tx.send(Item{of})) {}
    ++refused;
  });
  return std::move(ch.rx);
}
// Sends nothing until nobody wants anything.
Receiver<Item> silent(Nursery& n, std::atomic<int>& refused) {
  Channel<Item> ch;
  n.spawn([tx = std::move(ch.tx), &refused] {
    auto gone = tx.on_peer_gone();
    wait(gone);
    ++refused;
  });
  return std::move(ch.rx);
}
Receiver<Item> failing(Nursery& n, int after_values = 1) {
  Channel<Item> ch;
  n.spawn([tx = std::move(ch.tx), after_values] {
    for (int i = 0; i < after_values; ++i)
      if (!tx.send(Item{i})) return;
    tx.close(std::make_exception_ptr(Boom{}));
  });
  return std::move(ch.rx);
}
Receiver<Item> numbers(Nursery& n, int from, int to) {
  return stream(n, iota(from, to)) | map([](int v) { return Item{v}; }) | out();
}
void take_all(const Receiver<Item>& rx) { static_cast<void>(all_of(rx)); }
std::vector<int> ints(const Items& items) {
  std::vector<int> all;
  for (const Item& item : items) all.push_back(item.n);
  return all;
}
std::vector<int> from_to(int from, int to) {
  std::vector<int> all(static_cast<std::size_t>(to - from));
  std::iota(all.begin(), all.end(), from);
  return all;
}

// ---- several inputs -----------------------------------------------------------------------------

TEST_F(FlowTest, MergeIsFair) {
  on_seeds([] {
    std::atomic<int> refused = 0;
    std::array<int, 3> counts{};
    nursery([&](Nursery& n) {
      auto a = endless(n, refused, 0);
      auto b = endless(n, refused, 1);
      stream(n, std::move(a)) | merge(std::move(b), endless(n, refused, 2)) | take(600) |
          for_each([&](const Item& v) { ++counts[static_cast<std::size_t>(v.n)]; });
    });
    for (const int count : counts) EXPECT_NEAR(count, 200, 60);
    EXPECT_EQ(refused, 3);
  }, 10);
}

TEST_F(FlowTest, MergeKeepsEachInputsOrder) {
  everywhere([] {
    std::array<Items, 3> parts;
    nursery([&](Nursery& n) {
      auto a = numbers(n, 0, 20);
      auto b = numbers(n, 100, 105);
      stream(n, std::move(a)) | merge(std::move(b), numbers(n, 200, 230)) |
          for_each([&](const Item& v) { parts[static_cast<std::size_t>(v.n / 100)].push_back(v); });
    });
    EXPECT_EQ(ints(parts[0]), from_to(0, 20));
    EXPECT_EQ(ints(parts[1]), from_to(100, 105));
    EXPECT_EQ(ints(parts[2]), from_to(200, 230));
  });
}

// An error of any input is the stream's, and the others are given up.
template <class Join>
void expect_error_of_each(Join join) {
  everywhere([join] {
    for (int bad = 0; bad < 3; ++bad) {
      std::atomic<int> refused = 0;
      nursery([&](Nursery& n) {
        const auto input = [&](int i) { return i == bad ? failing(n) : endless(n, refused); };
        auto a = input(0);
        auto b = input(1);
        auto c = input(2);
        const auto rx = stream(n, std::move(a)) | join(std::move(b), std::move(c)) | out();
        EXPECT_THROW(while (rx.recv()) {}, Boom) << "input " << bad;
      });
      EXPECT_EQ(refused, 2);
    }
  });
}
TEST_F(FlowTest, MergePassesOnTheErrorOfAnyInput) {
  expect_error_of_each([](auto... rx) { return merge(std::move(rx)...); });
}
TEST_F(FlowTest, ZipPassesOnTheErrorOfAnyInput) {
  expect_error_of_each([](auto... rx) { return zip(std::move(rx)...); });
}

// However many inputs: who receives no more ends them all.
TEST_F(FlowTest, JoinedInputsAreGivenUpTogether) {
  everywhere([] {
    std::atomic<int> refused = 0;
    nursery([&](Nursery& n) {
      auto a = silent(n, refused);
      auto b = silent(n, refused);
      auto merged = stream(n, std::move(a)) | merge(std::move(b), endless(n, refused)) | out();
      EXPECT_TRUE(merged.recv());
      auto c = endless(n, refused);
      auto d = endless(n, refused);
      auto chained = stream(n, std::move(c)) | chain(std::move(d), silent(n, refused)) | out();
      EXPECT_TRUE(chained.recv());
      auto e = silent(n, refused);
      auto zipped = stream(n, std::move(e)) | zip(endless(n, refused)) | out();
      let_others_block();
    });
    EXPECT_EQ(refused, 8);
  });
}

TEST_F(FlowTest, ChainFailsWhenItsTurnComes) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      auto bad = failing(n, 2);
      const auto rx = stream(n, numbers(n, 10, 12)) | chain(std::move(bad), two_more()) | out();
      Items got;
      EXPECT_THROW(
          for (Item v : rx) got.push_back(v), Boom);
      EXPECT_EQ(ints(got), (std::vector<int>{10, 11, 0, 1}));
    });
  });
}

TEST_F(FlowTest, ZipHasTheLengthOfTheShortest) {
  everywhere([] {
    std::array<int, 3> length{};
    for (int& l : length) l = static_cast<int>(io().random() % 8);
    nursery([&](Nursery& n) {
      auto a = numbers(n, 0, length[0]);
      auto b = numbers(n, 0, length[1]);
      auto c = stream(n, iota(0L, long{length[2]})) | out();
      const auto rows = stream(n, std::move(a)) | zip(std::move(b), std::move(c)) | collect();
      static_assert(std::is_same_v<decltype(rows)::value_type, std::tuple<Item, Item, long>>);
      EXPECT_EQ(rows.size(), static_cast<std::size_t>(std::ranges::min(length)));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const int k = static_cast<int>(i);
        EXPECT_EQ(rows[i], (std::tuple{Item{k}, Item{k}, long{k}}));
      }
    });
  });
}

// The shortest may be one that is not waited for first.
TEST_F(FlowTest, ZipEndsThoughOneInputIsSilent) {
  everywhere([] {
    std::atomic<int> refused = 0;
    nursery([&](Nursery& n) {
      EXPECT_EQ(stream(n, silent(n, refused)) | zip(numbers(n, 0, 0)) | count(), 0U);
    });
    EXPECT_EQ(refused, 1);
  });
}

// ---- several outputs ----------------------------------------------------------------------------

TEST_F(FlowTest, TeeCopies) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<Item> side;
      auto aside = n.async([rx = std::move(side.rx)] { return all_of(rx); });
      const Items got = stream(n, numbers(n, 0, 20)) | tee(std::move(side.tx)) | collect();
      EXPECT_EQ(ints(got), from_to(0, 20));
      EXPECT_EQ(aside.get(), got);
    });
  });
}

TEST_F(FlowTest, TeeGoesOnWithoutASideThatIsGone) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<Item> side;
      n.spawn([rx = std::move(side.rx), k = io().random() % 5]() mutable {
        for (; k > 0; --k) EXPECT_TRUE(rx.recv());
      });
      EXPECT_EQ(ints(stream(n, numbers(n, 0, 20)) | tee(std::move(side.tx)) | collect()),
                from_to(0, 20));
    });
  });
}

// Nobody takes what is sent aside, and yet the stream ends when it is not wanted.
TEST_F(FlowTest, TeeEndsWhileItsSideIsBlocked) {
  everywhere([] {
    std::atomic<int> refused = 0;
    Channel<Item> side;
    nursery([&](Nursery& n) {
      auto rx = stream(n, endless(n, refused)) | tee(std::move(side.tx)) | out();
      EXPECT_TRUE(rx.recv());
      let_others_block();
    });
    EXPECT_EQ(refused, 1);
    EXPECT_FALSE(side.rx.recv());
  });
}

TEST_F(FlowTest, FailuresReachEveryOutput) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<Item> side{10};
      const auto main = stream(n, failing(n)) | tee(std::move(side.tx)) | out();
      EXPECT_THROW(take_all(main), Boom);
      EXPECT_THROW(take_all(side.rx), Boom);
      const auto outs = stream(n, failing(n, 0)) | fanout(3);
      for (const auto& rx : outs) EXPECT_THROW(take_all(rx), Boom);
      const auto [yes, no] =
          stream(n, failing(n, 0)) | partition([](const Item&) { return true; });
      EXPECT_THROW(take_all(yes), Boom);
      EXPECT_THROW(take_all(no), Boom);
    });
    // Cancelled: neither looks as if it had ended.
    Channel<Item> side;
    std::vector<Receiver<Item>> outs;
    nursery([&](Nursery& n) {
      std::atomic<int>& refused = n.make<std::atomic<int>>(0);
      outs = stream(n, silent(n, refused)) | tee(side.tx) | fanout(2);
      if (io().random() % 2 == 0) let_others_block();
      n.cancel();
    });
    for (const auto& rx : outs) EXPECT_THROW(take_all(rx), ChildCancelled);
    EXPECT_THROW(take_all(side.rx), ChildCancelled);
  });
}

TEST_F(FlowTest, FanoutGivesEveryValueToAll) {
  everywhere([] {
    nursery([](Nursery& n) {
      auto outs = stream(n, numbers(n, 0, 20)) | fanout(3);
      // Whichever is asked first: no round waits for another's order.
      for (int i = 0; i < 20; ++i) {
        std::array<std::size_t, 3> order{0, 1, 2};
        std::swap(order[0], order[io().random() % 3]);
        for (const std::size_t k : order) EXPECT_EQ(outs[k].recv(), Item{i});
      }
      for (const auto& rx : outs) EXPECT_FALSE(rx.recv());
    });
  });
}

TEST_F(FlowTest, FanoutLeavesOutThoseThatAreGone) {
  everywhere([] {
    std::atomic<int> refused = 0;
    nursery([&](Nursery& n) {
      auto outs = stream(n, numbers(n, 0, 30)) | fanout(4);
      for (auto& out : outs) {
        n.spawn([rx = std::move(out), k = static_cast<int>(io().random() % 40)]() mutable {
          int next = 0;
          while (next < k)
            if (const auto got = rx.recv()) EXPECT_EQ(got->n, next++);
            else break;
          EXPECT_EQ(next, std::min(k, 30));
        });
      }
    });
    // The last of them gone, the input is given up: even if nothing comes, …
    nursery([&](Nursery& n) {
      auto outs = stream(n, silent(n, refused)) | fanout(3);
      if (io().random() % 2 == 0) let_others_block();
      for (auto& rx : outs) rx.drop();
      // … and if much comes that nobody gets.
      auto parts = stream(n, endless(n, refused)) | partition(3, [](const Item& v) {
                     return static_cast<std::size_t>(v.n);
                   });
      if (io().random() % 2 == 0) let_others_block();
      for (auto& rx : parts) rx.drop();
      static_cast<void>(stream(n, endless(n, refused)) | fanout(0));
    });
    EXPECT_EQ(refused, 3);
  });
}

TEST_F(FlowTest, PartitionSplits) {
  everywhere([] {
    nursery([](Nursery& n) {
      auto [even, odd] =
          stream(n, numbers(n, 0, 20)) | partition([](const Item& v) { return v.n % 2 == 0; });
      auto others = n.async([rx = std::move(odd)] { return all_of(rx); });
      const Items evens = all_of(even);
      const Items odds = others.get();
      EXPECT_EQ(evens.size() + odds.size(), 20U);
      for (const Item& v : evens) EXPECT_EQ(v.n % 2, 0);
      for (const Item& v : odds) EXPECT_EQ(v.n % 2, 1);
      EXPECT_TRUE(std::is_sorted(evens.begin(), evens.end()));
      EXPECT_TRUE(std::is_sorted(odds.begin(), odds.end()));
    });
  });
}

TEST_F(FlowTest, PartitionDropsWhatNobodyReceives) {
  everywhere([] {
    nursery([](Nursery& n) {
      auto outs = stream(n, numbers(n, 0, 20)) | partition(4, [](const Item& v) {
                    return static_cast<std::size_t>(v.n % 4);
                  });
      outs[1].drop();
      outs[3].drop();
      const auto rest = stream(n, std::move(outs[0])) | merge(std::move(outs[2])) | collect();
      EXPECT_EQ(rest.size(), 10U);
      for (const Item& v : rest) EXPECT_EQ(v.n % 2, 0);
    });
  });
}

TEST_F(FlowTest, PartitionFailsItsNursery) {
  const auto fails_with = [](auto end) {
    Verdict verdict;
    const auto run = [&] {
      nursery([&](Nursery& n) {
        n.make<Witness>(n, verdict);
        take_all((stream(n, numbers(n, 0, 5)) | end)[0]);
      });
    };
    EXPECT_ANY_THROW(run());
    EXPECT_EQ(verdict.kind, NurseryResult::Kind::child_failed);
    EXPECT_EQ(verdict.child, "partition");
  };
  everywhere([&] {
    fails_with(partition(2, [](const Item&) { return std::size_t{2}; }));
    fails_with(partition(2, [](const Item&) -> std::size_t { throw Boom{}; }));
  });
}

// ---- killswitch, retry --------------------------------------------------------------------------

TEST_F(FlowTest, KillswitchEndsTheStream) {
  everywhere([] {
    // Where it stands: with nothing to receive, with a value that nobody takes, in between.
    for (int where = 0; where < 3; ++where) {
      std::atomic<int> refused = 0;
      Event off;
      nursery([&](Nursery& n) {
        Channel<int> alive;
        const auto source = [&] { return where == 0 ? silent(n, refused) : endless(n, refused); };
        const auto by_event = stream(n, source()) | killswitch(off) | out();
        const auto by_peer = stream(n, source()) | killswitch(std::move(alive.rx)) | out();
        if (where == 2) {
          EXPECT_TRUE(by_event.recv());
          EXPECT_TRUE(by_peer.recv());
        } else {
          let_others_block();
        }
        off.set();
        alive.tx.drop();
        // Its end, not an error; one value may have been on its way.
        EXPECT_LE(all_of(by_event).size(), 200'000U);
        EXPECT_LE(all_of(by_peer).size(), 200'000U);
      });
      EXPECT_EQ(refused, 2);
    }
  });
}

TEST_F(FlowTest, KillswitchThatIsOffPassesNothing) {
  on_both_engines([] {
    Event off;
    off.set();
    std::atomic<int> refused = 0;
    nursery([&](Nursery& n) {
      EXPECT_EQ(stream(n, endless(n, refused)) | killswitch(off) | count(), 0U);
    });
    EXPECT_EQ(refused, 1);
  });
}

TEST_F(FlowTest, RetryBacksOff) {
  on_seeds([] {
    std::vector<Instant> attempts;
    const auto fetch = [&](const Item&) -> Item {
      attempts.push_back(Clock::now());
      throw Boom{};
    };
    const auto run = [&] {
      nursery([&](Nursery& n) {
        stream(n, numbers(n, 0, 3)) |
            retry({.times = 5, .delay = 10ms, .max_delay = 35ms}, fetch) | drain();
      });
    };
    EXPECT_THROW(run(), Boom);
    ASSERT_EQ(attempts.size(), 6U);
    const std::array<Duration, 5> most{10ms, 20ms, 35ms, 35ms, 35ms};
    for (std::size_t i = 0; i < most.size(); ++i) {
      EXPECT_LE(attempts[i + 1] - attempts[i], most[i]) << i;
      EXPECT_GE(attempts[i + 1] - attempts[i], most[i] / 2) << i;
    }
  }, 20);
}

TEST_F(FlowTest, RetryDoesNotWaitForNobody) {
  on_seeds([] {
    const Instant start = Clock::now();
    nursery([](Nursery& n) {
      auto rx = stream(n, numbers(n, 0, 3)) | retry({.delay = 1h, .max_delay = 1h}, boom) | out();
      settle();
    });
    EXPECT_EQ(Clock::now(), start);
    expect_no_timer_left();
  }, 20);
}

}  // namespace
}  // namespace weft::testing
