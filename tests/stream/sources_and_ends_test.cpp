// Where streams come from, and what makes them run.
#include <weft/stream.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::everywhere;
using testing::let_others_block;
using testing::on_seeds;
using Ints = std::vector<int>;

struct Broken : std::runtime_error {
  Broken() : std::runtime_error("broken") {}
};

// ── sources ─────────────────────────────────────────────────────────────────────────────────────

TEST(Sources, IotaCountsUpToItsEndOrWithoutOne) {
  everywhere([] {
    nursery([](Nursery& n) {
      EXPECT_EQ(stream(n, iota(3, 6)) | collect(), (Ints{3, 4, 5}));
      EXPECT_EQ(stream(n, iota(3, 3)) | count(), 0U);
      EXPECT_EQ(stream(n, iota(3, 1)) | count(), 0U);
      EXPECT_EQ(stream(n, iota(3)) | take(2) | collect(), (Ints{3, 4}));
    });
  });
}

TEST(Sources, ARangeGivenAwayIsMovedAndOthersAreCopied) {
  everywhere([] {
    nursery([](Nursery& n) {
      std::vector<std::unique_ptr<int>> owned;
      for (int i = 0; i < 3; ++i) owned.push_back(std::make_unique<int>(i));
      const auto moved = stream(n, from_range(std::move(owned))) | collect();
      EXPECT_EQ(*moved.at(2), 2);
      std::vector<std::string> words{"warp", "weft"};
      EXPECT_EQ(stream(n, from_range(words)) | collect(), words);
      EXPECT_EQ(stream(n, from_range(std::span{words})) | collect(), words);
      EXPECT_EQ(words, (std::vector<std::string>{"warp", "weft"})) << "they are still there";
    });
  });
}

TEST(Sources, GenerateCallsUntilItIsEmpty) {
  everywhere([] {
    nursery([](Nursery& n) {
      const auto down_from = [](int from) {
        return generate([at = from]() mutable { return at ? std::optional{at--} : std::nullopt; });
      };
      EXPECT_EQ(stream(n, down_from(3)) | collect(), (Ints{3, 2, 1}));
      EXPECT_EQ(stream(n, down_from(0)) | count(), 0U);
      EXPECT_EQ(stream(n, generate([] { return std::optional{7}; })) | take(2) | collect(),
                (Ints{7, 7}));
    });
  });
}

TEST(Sources, AGeneratorThatThrowsFailsTheNurseryAndTheStream) {
  everywhere([] {
    Receiver<int> rx;
    const auto run = [&] {
      nursery([&](Nursery& n) {
        rx = stream(n, generate([]() -> std::optional<int> { throw Broken{}; })) | out();
      });
    };
    EXPECT_THROW(run(), Broken);
    EXPECT_THROW(static_cast<void>(rx.recv()), Broken);
  });
}

TEST(Sources, TicksComeWithoutDrift) {
  on_seeds([] {
    nursery([](Nursery& n) {
      const Instant start = Clock::now();
      int ticks = 0;
      stream(n, ticker(10ms)) | take(5) | for_each([&](Instant due) {
        EXPECT_EQ(due - start, ++ticks * 10ms);
        sleep_for(3ms);  // a slow end does not shift them
      });
      EXPECT_EQ(ticks, 5);
    });
  }, 20);
  SimIo{}.run([] { EXPECT_THROW(static_cast<void>(ticker(0ms)), std::invalid_argument); });
}

// Between two ticks, too.
TEST(Sources, ATickerEndsWhenNobodyReceives) {
  on_seeds([] {
    const Instant start = Clock::now();
    nursery([](Nursery& n) {
      Receiver<Instant> rx = stream(n, ticker(1h)) | out();
      let_others_block();
      rx.drop();
    });
    EXPECT_EQ(Clock::now(), start);
  }, 20);
}

TEST(Sources, AStreamThatIsThrownAwayGivesUpItsSource) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<int> ch;
      { const auto unused = stream(n, std::move(ch.rx)) | map([](int v) { return v; }); }
      EXPECT_FALSE(ch.tx.send(1));
      EXPECT_EQ(n.live(), 0U) << "and nothing was started";
    });
  });
}

// ── ends ────────────────────────────────────────────────────────────────────────────────────────

TEST(Ends, ReduceFoldsFromTheLeft) {
  everywhere([] {
    nursery([](Nursery& n) {
      const auto append = [](std::string all, int v) { return all + std::to_string(v); };
      EXPECT_EQ(stream(n, iota(1, 5)) | reduce(std::string{">"}, append), ">1234");
      EXPECT_EQ(stream(n, iota(1, 1)) | reduce(std::string{">"}, append), ">");
    });
  });
}

TEST(Ends, WhatTheEndThrowsEndsThoseBeforeIt) {
  everywhere([] {
    std::atomic<bool> refused = false;
    nursery([&](Nursery& n) {
      Channel<int> ch;
      n.spawn([&refused, tx = std::move(ch.tx)] {
        for (int i = 0; tx.send(i); ++i) {}
        refused = true;
      });
      const auto run = [&] {
        stream(n, std::move(ch.rx)) | map([](int v) { return v; }) |
            for_each([](int v) { if (v == 3) throw Broken{}; });
      };
      EXPECT_THROW(run(), Broken) << "in the caller, and nowhere else";
    });
    EXPECT_TRUE(refused);
  });
}

TEST(Ends, AnErrorOfTheSourceIsThrownByEveryEnd) {
  everywhere([] {
    nursery([](Nursery& n) {
      const auto failing = [&] {
        Channel<int> ch{2};
        EXPECT_TRUE(ch.tx.send(1));
        ch.tx.close(std::make_exception_ptr(Broken{}));
        return stream(n, std::move(ch.rx)) | map([](int v) { return v; });
      };
      int seen = 0;
      EXPECT_THROW(failing() | for_each([&](int) { ++seen; }), Broken);
      EXPECT_EQ(seen, 1) << "the values before it have come";
      EXPECT_THROW(static_cast<void>(failing() | collect()), Broken);
      EXPECT_THROW(static_cast<void>(failing() | count()), Broken);
      EXPECT_THROW(failing() | drain(), Broken);
      EXPECT_THROW(static_cast<void>(failing() | reduce(0, std::plus{})), Broken);
    });
  });
}

TEST(Ends, IntoLeavesTheChannelOpenForOthersAndAnErrorClosesIt) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<int> all{8};
      stream(n, iota(0, 3)) | into(all.tx);
      int sum = 0;
      for (int i = 0; i < 3; ++i) sum += all.rx.recv().value();
      EXPECT_EQ(sum, 3);
      EXPECT_TRUE(all.tx.send(7)) << "our own sender is there still";
      EXPECT_EQ(all.rx.recv(), 7);

      Channel<int> source;
      source.tx.close(std::make_exception_ptr(Broken{}));
      stream(n, std::move(source.rx)) | into(all.tx);
      EXPECT_THROW(static_cast<void>(all.rx.recv()), Broken);
      EXPECT_FALSE(all.tx.send(8));
    });
  });
}

// ── arguments that make no sense ────────────────────────────────────────────────────────────────

TEST(Stages, WhatCannotBeIsRefusedWhereItIsWritten) {
  EXPECT_THROW(static_cast<void>(chunk(0, 1ms)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(throttle(1ms, 0)), std::invalid_argument);
}

}  // namespace
}  // namespace weft
