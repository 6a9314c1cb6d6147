// What every stage must do, whatever else it does: one suite, and a case for each stage.
//
//   INSTANTIATE_TEST_SUITE_P(Steps, StageTest, ::testing::Values(
//       stage_case("map", [] { return map(plus_one); }, [](std::vector<Item> in) { … return in; })
//           .throwing([] { return map([](Item) -> Item { throw Boom{}; }); })), case_name);
//
// The name is that of the stage's fiber, or a part of it; the last function is the eager version.
// Stages take and give Items: one that gives something else is followed by a map. Those who write a
// case say what is special about it: unordered(), if its results have no one order; ends_early(),
// if it may end before its input does; silent(), if little or nothing comes out of it as long as
// its input goes on; judged_by(), if its results depend on who runs when: then
// they are judged by a function, and an error of the input may come too late to be seen.
#pragma once

#include "support/engines.hpp"

#include <weft/stream.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <compare>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace weft::testing {

// A value whose copies are counted while they live.
struct Item {
  static inline std::atomic<int> live{0};

  explicit Item(int value = 0) : n(value) { ++live; }
  Item(const Item& other) : n(other.n) { ++live; }
  Item(Item&& other) noexcept : n(other.n) { ++live; }
  Item& operator=(const Item&) = default;
  Item& operator=(Item&&) noexcept = default;
  ~Item() { --live; }
  friend auto operator<=>(const Item&, const Item&) = default;
  friend std::ostream& operator<<(std::ostream& os, const Item& item) { return os << item.n; }

  int n;
};

struct Boom : std::runtime_error {
  Boom() : std::runtime_error("boom") {}
};

[[nodiscard]] inline std::vector<Item> random_items(std::size_t max) {
  std::vector<Item> items(io().random() % (max + 1));
  for (Item& item : items) item = Item{static_cast<int>(io().random() % 10)};
  return items;
}

inline void let_others_run() {
  for (int i = 0; i < 20; ++i) this_fiber::yield();
}

// A fiber that sends `items` and ends.
inline void produce(Nursery& n, Sender<Item> tx, std::vector<Item> items) {
  n.spawn("producer", [tx = std::move(tx), items = std::move(items)] {
    for (const Item& item : items)
      if (!tx.send(item)) return;
  });
}

template <class T>
[[nodiscard]] std::vector<T> all_of(const Receiver<T>& rx) {
  std::vector<T> all;
  for (T value : rx) all.push_back(std::move(value));
  return all;
}

inline constexpr std::size_t kRoomForAll = 1024;

// What a nursery has come to, told to who outlives it.
struct Verdict {
  NurseryResult::Kind kind{};
  std::string child;
};
class Witness {
 public:
  Witness(Nursery& n, Verdict& to) : n_(n), to_(to) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() {
    if (const auto result = n_.result())
      to_ = {result->kind, std::string{result->child_name}};
  }

 private:
  Nursery& n_;
  Verdict& to_;
};

struct StageCase {
  using Items = std::vector<Item>;

  std::string name;
  std::function<Receiver<Item>(Nursery&, Receiver<Item>)> from_receiver;
  std::function<Sender<Item>(Nursery&, Sender<Item>)> into_sender;
  std::function<Through<Item, Item>(Nursery&)> free_standing;
  std::function<Items(Items)> eager;
  std::function<Receiver<Item>(Nursery&, Receiver<Item>)> that_throws{};
  std::function<bool(const Items& got, const Items& input)> judge{};
  bool has_order = true;
  bool may_end_early = false;
  bool is_silent = false;

  StageCase unordered() && {
    has_order = false;
    return std::move(*this);
  }
  StageCase ends_early() && {
    may_end_early = true;
    return std::move(*this);
  }
  StageCase silent() && {
    is_silent = true;
    return std::move(*this);
  }
  StageCase judged_by(std::function<bool(const Items&, const Items&)> by) && {
    judge = std::move(by);
    return std::move(*this);
  }
  template <class Make>
  StageCase throwing(Make make) && {
    that_throws = [make](Nursery& n, Receiver<Item> rx) {
      return stream(n, std::move(rx)) | make() | out();
    };
    return std::move(*this);
  }

  // Up to three, if so many come.
  void receive_some(const Receiver<Item>& rx) const {
    const std::uint64_t some = io().random() % 4;
    if (is_silent && some > 0) return let_others_run();
    for (std::uint64_t k = some; k > 0 && rx.recv(); --k) {}
  }
  void expect_same(Items got, const Items& input) const {
    if (judge) {
      EXPECT_TRUE(judge(got, input)) << ::testing::PrintToString(got) << " of "
                                     << ::testing::PrintToString(input);
      return;
    }
    Items wanted = eager(input);
    if (!has_order) {
      std::sort(got.begin(), got.end());
      std::sort(wanted.begin(), wanted.end());
    }
    EXPECT_EQ(got, wanted);
  }
};

template <class Make>
[[nodiscard]] StageCase stage_case(
    std::string name, Make make, std::function<std::vector<Item>(std::vector<Item>)> eager = {}) {
  return {.name = std::move(name),
          .from_receiver = [make](Nursery& n, Receiver<Item> rx) {
            // In place, a stage comes to its end before anybody receives from it.
            if (in_place()) return stream(n, std::move(rx)) | make() | buffer(kRoomForAll) | out();
            return stream(n, std::move(rx)) | make() | out();
          },
          .into_sender = [make](Nursery& n, Sender<Item> tx) {
            return through<Item>(n, make(), std::move(tx));
          },
          .free_standing = [make](Nursery& n) { return through<Item>(n, make()); },
          .eager = std::move(eager)};
}

// For INSTANTIATE_TEST_SUITE_P.
inline std::string case_name(const ::testing::TestParamInfo<StageCase>& info) {
  std::string name = info.param.name;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class StageTest : public ::testing::TestWithParam<StageCase> {
 protected:
  void TearDown() override { EXPECT_EQ(Item::live, 0) << "values were left behind"; }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StageTest);

TEST_P(StageTest, AgreesWithTheEagerVersion) {
  everywhere([&stage = GetParam()] {
    const auto items = random_items(30);
    nursery([&](Nursery& n) {
      Channel<Item> in{in_place() ? kRoomForAll : io().random() % 3};
      produce(n, std::move(in.tx), items);
      stage.expect_same(all_of(stage.from_receiver(n, std::move(in.rx))), items);
    });
  });
}

TEST_P(StageTest, IntoASender) {
  everywhere([&stage = GetParam()] {
    const auto items = random_items(10);
    nursery([&](Nursery& n) {
      Channel<Item> results;
      produce(n, stage.into_sender(n, std::move(results.tx)), items);
      stage.expect_same(all_of(results.rx), items);
    });
  });
}

TEST_P(StageTest, FreeStanding) {
  everywhere([&stage = GetParam()] {
    const auto items = random_items(10);
    nursery([&](Nursery& n) {
      auto ends = stage.free_standing(n);
      produce(n, std::move(ends.tx), items);
      stage.expect_same(all_of(ends.rx), items);
    });
  });
}

// Downstream ends early: those upstream learn of it when they send …
TEST_P(StageTest, EndsWhenNobodyReceives) {
  everywhere([&stage = GetParam()] {
    std::atomic<bool> refused = false;
    nursery([&](Nursery& n) {
      Channel<Item> in;
      n.spawn([&refused, tx = std::move(in.tx)] {
        for (int i = 0; tx.send(Item{i % 10}); ++i) {}
        refused = true;
      });
      auto rx = stage.from_receiver(n, std::move(in.rx));
      stage.receive_some(rx);
      rx.drop();
    });
    EXPECT_TRUE(refused);
  });
}

// … and when they have nothing to send.
TEST_P(StageTest, EndsThoughItsInputIsSilent) {
  everywhere([&stage = GetParam()] {
    nursery([&](Nursery& n) {
      Channel<Item> in;
      n.spawn([tx = std::move(in.tx)] {
        for (int i = 0; i < 3; ++i)
          if (!tx.send(Item{i})) return;
        auto gone = tx.on_peer_gone();
        wait(gone);
      });
      auto rx = stage.from_receiver(n, std::move(in.rx));
      // It has passed on what it can, and waits for more; or still has some to pass on.
      let_others_block();
      if (io().random() % 2 == 0)
        for (int i = 0; i < 5 && rx.try_recv(); ++i) let_others_block();
      rx.drop();
    });
  });
}

TEST_P(StageTest, PassesOnAnError) {
  everywhere([&stage = GetParam()] {
    nursery([&](Nursery& n) {
      Channel<Item> in{in_place() ? kRoomForAll : 0};
      n.spawn([tx = std::move(in.tx)] {
        for (int i = 0; i < 3; ++i)
          if (!tx.send(Item{i})) return;
        tx.close(std::make_exception_ptr(Boom{}));
      });
      const auto rx = stage.from_receiver(n, std::move(in.rx));
      const auto receive = [&] { static_cast<void>(all_of(rx)); };
      if (stage.judge) {
        try {
          receive();
        } catch (const Boom&) {
        }
      } else if (stage.may_end_early) {
        EXPECT_NO_THROW(receive());
      } else {
        EXPECT_THROW(receive(), Boom);
      }
    });
  });
}

TEST_P(StageTest, FailsItsNurseryUnderItsName) {
  const StageCase& stage = GetParam();
  if (!stage.that_throws) return;  // nothing of the user's runs in it
  everywhere([&stage] {
    Verdict verdict;
    const auto run = [&] {
      nursery([&](Nursery& n) {
        n.make<Witness>(n, verdict);
        Channel<Item> in{in_place() ? kRoomForAll : 0};
        produce(n, std::move(in.tx), std::vector<Item>(3));
        static_cast<void>(all_of(stage.that_throws(n, std::move(in.rx))));
      });
    };
    EXPECT_THROW(run(), Boom);
    EXPECT_EQ(verdict.kind, NurseryResult::Kind::child_failed);
    EXPECT_NE(verdict.child.find(stage.name), std::string::npos)
        << "it was \"" << verdict.child << "\" that failed";
  });
}

// Cancelled anywhere: nothing is left behind, and who receives can tell that there was more.
TEST_P(StageTest, CancelledLeavesNothingBehind) {
  everywhere([&stage = GetParam()] {
    Receiver<Item> rx;
    nursery([&](Nursery& n) {
      Channel<Item> in;
      n.spawn([tx = std::move(in.tx)] {
        for (int i = 0; tx.send(Item{i % 10}); ++i) {}
      });
      rx = stage.from_receiver(n, std::move(in.rx));
      stage.receive_some(rx);
      n.cancel();
    });
    const auto receive = [&] { static_cast<void>(all_of(rx)); };
    if (!stage.may_end_early) {
      EXPECT_THROW(receive(), ChildCancelled);
    }
    rx.drop();
  });
}

}  // namespace weft::testing
