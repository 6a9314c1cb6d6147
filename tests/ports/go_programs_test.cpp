// Programs of Go's test suite that are made of channels, on weft's: prime sieves, a crowd of
// consumers, and the runtime's own test of all that one channel does.
#include <weft/channel.hpp>

#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/this_fiber.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using ::testing::ElementsAreArray;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

constexpr int kPrimes[] = {2,  3,  5,  7,  11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47,
                           53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113};

// ── sieve1: a pipeline that grows by a filter with every prime ──────────────────────────────────

TEST(GoSieve1, EveryPrimeIsAFilter) {
  const auto program = [] {
    std::vector<int> primes;
    nursery([&](Nursery& n) {
      Channel<int> numbers;
      n.spawn([tx = std::move(numbers.tx)] {
        for (int i = 2; tx.send(i); ++i) {}
      });
      Receiver<int> in = std::move(numbers.rx);
      while (primes.size() < std::size(kPrimes)) {
        const int prime = *in.recv();
        primes.push_back(prime);
        Channel<int> rest;
        n.spawn([prime, from = std::move(in), tx = std::move(rest.tx)] {
          for (const int i : from)
            if (i % prime != 0 && !tx.send(i)) return;
        });
        in = std::move(rest.rx);
      }
    });  // the last receiver is gone, and with it one filter after the other
    EXPECT_THAT(primes, ElementsAreArray(kPrimes));
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

// ── sieve2: multiples of each prime, merged by the one that comes next ──────────────────────────

struct Multiples {
  int next;
  Receiver<int> more;
  friend bool operator<(const Multiples& a, const Multiples& b) { return a.next > b.next; }
};

TEST(GoSieve2, MultiplesAreMerged) {
  const auto program = [] {
    std::vector<int> primes;
    nursery([&](Nursery& n) {
      std::priority_queue<Multiples> composites;
      for (int i = 2; primes.size() < std::size(kPrimes); ++i) {
        bool composite = false;
        while (!composites.empty() && composites.top().next == i) {
          Multiples first = composites.top();
          composites.pop();
          first.next = *first.more.recv();
          composites.push(std::move(first));
          composite = true;
        }
        if (composite) continue;
        primes.push_back(i);
        Channel<int> multiples{4};
        n.spawn([i, tx = std::move(multiples.tx)] {
          for (int m = i * i; tx.send(m); m += i) {}
        });
        const int square = *multiples.rx.recv();
        composites.push({square, std::move(multiples.rx)});
      }
    });
    EXPECT_THAT(primes, ElementsAreArray(kPrimes));
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

// ── of the runtime's own tests: one channel, all that it does ───────────────────────────────────

TEST(GoChan, ReceivesFromAnEmptyOneWait) {
  on_both_engines([] {
    for (const std::size_t capacity : {0U, 1U, 7U}) {
      Channel<int> ch{capacity};
      int got = 0;
      nursery([&](Nursery& n) {
        n.spawn([&] { got += *ch.rx.recv(); });
        n.spawn([&] {
          auto recv = ch.rx.on_recv();
          select(recv);
          got += *recv.value();
        });
        let_others_block();
        EXPECT_EQ(got, 0);
        EXPECT_EQ(select(Receiver<int>{}.on_recv(), otherwise()), 1U);
        EXPECT_TRUE(ch.tx.send(1));
        EXPECT_TRUE(ch.tx.send(2));
      });
      EXPECT_EQ(got, 3);
    }
  });
}

TEST(GoChan, SendsToAFullOneWait) {
  on_both_engines([] {
    for (const std::size_t capacity : {0U, 1U, 7U}) {
      Channel<int> ch{capacity};
      for (std::size_t i = 0; i < capacity; ++i) EXPECT_TRUE(ch.tx.send(1));
      EXPECT_EQ(ch.tx.size(), capacity);
      EXPECT_EQ(ch.tx.capacity(), capacity);
      bool sent = false;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          EXPECT_TRUE(ch.tx.send(2));
          sent = true;
        });
        let_others_block();
        EXPECT_FALSE(sent);
        EXPECT_EQ(select(ch.tx.on_send(3), otherwise()), 1U);
        EXPECT_EQ(ch.rx.size(), capacity) << "who waits is not counted";
        EXPECT_EQ(ch.rx.recv(), capacity == 0 ? 2 : 1);
      });
      EXPECT_TRUE(sent);
    }
  });
}

TEST(GoChan, ClosingEndsItForEverybodyAfterTheLastValue) {
  on_both_engines([] {
    for (const std::size_t capacity : {0U, 1U, 7U}) {
      Channel<int> ch{capacity};
      for (std::size_t i = 0; i < capacity; ++i) EXPECT_TRUE(ch.tx.send(1));
      EXPECT_TRUE(ch.tx.close());
      EXPECT_FALSE(ch.tx.close()) << "once";
      for (std::size_t i = 0; i < capacity; ++i) EXPECT_EQ(ch.rx.recv(), 1);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ch.rx.recv(), std::nullopt);
        auto end = ch.rx.on_recv();
        EXPECT_EQ(select(end, otherwise()), 0U);
        EXPECT_EQ(end.value(), std::nullopt);
      }
    }
    Channel<int> late;
    nursery([&](Nursery& n) {  // who waits already learns it, too
      for (int i = 0; i < 3; ++i) n.spawn([&] { EXPECT_EQ(late.rx.recv(), std::nullopt); });
      let_others_block();
      late.tx.close();
    });
  });
}

TEST(GoChan, AHundredValuesComeInOrder) {
  const auto program = [] {
    for (const std::size_t capacity : {0U, 1U, 7U, 100U}) {
      Channel<int> ch{capacity};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          for (int i = 0; i < 100; ++i) EXPECT_TRUE(ch.tx.send(i));
        });
        for (int i = 0; i < 100; ++i) EXPECT_EQ(ch.rx.recv(), i);
      });
    }
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

TEST(GoChan, WhatManySendManyReceiveOnce) {
  const auto program = [] {
    constexpr int kFibers = 4;
    constexpr int kValues = 100;
    for (const std::size_t capacity : {0U, 1U, 7U}) {
      Channel<int> ch{capacity};
      std::vector<std::atomic<int>> counts(kValues);
      nursery([&](Nursery& n) {
        for (int p = 0; p < kFibers; ++p) {
          n.spawn([&] {
            for (int i = 0; i < kValues; ++i) EXPECT_TRUE(ch.tx.send(i));
          });
          n.spawn([&] {
            for (int i = 0; i < kValues; ++i) ++counts[static_cast<std::size_t>(*ch.rx.recv())];
          });
        }
      });
      for (const auto& count : counts) EXPECT_EQ(count, kFibers);
    }
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U, 16U}, program);
  testing::on_blocking(program);
}

// ── of the runtime's own tests: many consumers, one after the other closes ──────────────────────

TEST(GoMultiConsumer, TheSumOfWhatTheyPassOnIsTheSumOfWhatWasFed) {
  const auto program = [] {
    constexpr int kWorkers = 23;
    constexpr int kFed = 1000;
    constexpr int kSteps[] = {2, 3, 7, 11, 13, 17, 19, 23, 27, 31};
    Channel<int> in{kWorkers * 3};
    Channel<int> out{kWorkers * 3};
    long fed = 0;
    long got = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {  // closes what they pass on when they are done
        nursery([&](Nursery& workers) {
          workers.close_after(out.tx);
          for (int w = 0; w < kWorkers; ++w)
            workers.spawn([&] {
              for (const int v : in.rx) {
                if (v % 3 == 0) this_fiber::yield();
                EXPECT_TRUE(out.tx.send(v));
              }
            });
        });
      });
      n.spawn([&] {
        for (std::size_t i = 0; i < kFed; ++i) {
          fed += kSteps[i % std::size(kSteps)];
          EXPECT_TRUE(in.tx.send(kSteps[i % std::size(kSteps)]));
        }
        in.tx.close();
      });
      for (const int v : out.rx) got += v;
    });
    EXPECT_EQ(got, fed);
  };
  on_seeds(program, 5);
  on_workers({1U, 2U, 4U, 16U}, program);
  testing::on_blocking(program);
}

}  // namespace
}  // namespace weft
