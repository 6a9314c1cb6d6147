#include <weft/pool.hpp>

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

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

// What happened to the resources of one pool.
struct Ledger {
  std::atomic<int> created{0}, destroyed{0}, ended{0}, alive{0}, most_alive{0};

  void born() {
    ++created;
    const int now = ++alive;
    int most = most_alive.load();
    while (most < now && !most_alive.compare_exchange_weak(most, now)) {}
  }
  void expect_all_gone() const {
    EXPECT_EQ(alive.load(), 0);
    EXPECT_EQ(created.load(), destroyed.load()) << "on_destroy, once for each";
    EXPECT_EQ(created.load(), ended.load()) << "destroyed, once each";
  }
};

// Cannot be copied or moved: a pool makes it where it stays.
class Thing {
 public:
  Thing(Ledger& ledger, int id) : id_(id), ledger_(ledger) { ledger_.born(); }
  Thing(const Thing&) = delete;
  Thing& operator=(const Thing&) = delete;
  ~Thing() {
    EXPECT_TRUE(told_) << "on_destroy comes first";
    --ledger_.alive;
    ++ledger_.ended;
  }
  void tell() {
    EXPECT_FALSE(std::exchange(told_, true)) << "on_destroy, twice";
    EXPECT_EQ(users_.load(), 0);
    ++ledger_.destroyed;
  }
  // For the user: nobody else may have it.
  void use() {
    struct Using {
      explicit Using(std::atomic<int>& users) : users_in(users) { EXPECT_EQ(++users, 1); }
      ~Using() { --users_in; }
      std::atomic<int>& users_in;
    };
    const Using alone{users_};
    if (testing::simulated() || id_ % 2 == 0) this_fiber::yield();
  }
  [[nodiscard]] int id() const { return id_; }
  bool healthy = true;
  int resets = 0;

 private:
  const int id_;
  Ledger& ledger_;
  std::atomic<int> users_{0};
  bool told_ = false;
};

PoolOptions<Thing> things(Ledger& ledger, std::size_t capacity) {
  return {.capacity = capacity,
          .on_create = [&ledger] { return Thing{ledger, ledger.created.load()}; },
          .on_reset = [](Thing& thing) { ++thing.resets; },
          .on_destroy = [](Thing& thing) { thing.tell(); },
          .healthy = [](Thing& thing) { return thing.healthy; },
          .name = "things"};
}

// ── lending ─────────────────────────────────────────────────────────────────────────────────────

TEST(Pool, MakesWhatIsNeededAndLendsTheWarmestAgain) {
  on_both_engines([] {
    Ledger ledger;
    {
      Pool<Thing> pool{things(ledger, 3)};
      EXPECT_EQ(pool.capacity(), 3U);
      EXPECT_EQ(pool.size(), 0U) << "none before it is needed";
      {
        Lease<Thing> one = pool.acquire();
        EXPECT_EQ(one->id(), 0);
        EXPECT_EQ((*one).resets, 0);
        EXPECT_EQ(one.get(), &*one);
      }
      EXPECT_EQ(pool.size(), 1U);
      EXPECT_EQ(pool.idle(), 1U);
      Lease<Thing> one = pool.acquire();
      EXPECT_EQ(one->id(), 0) << "the same again";
      EXPECT_EQ(one->resets, 1);
      Lease<Thing> two = pool.acquire();
      EXPECT_EQ(two->id(), 1);
      EXPECT_EQ(pool.in_use(), 2U);
      one.reset();
      EXPECT_FALSE(one);
      EXPECT_EQ(one.get(), nullptr);
      two.reset();
      EXPECT_EQ(pool.acquire()->id(), 1) << "the one that was used last";
      EXPECT_EQ(pool.idle(), 2U);
      one.reset();  // nothing to do
      one.discard();
    }
    EXPECT_EQ(ledger.created.load(), 2);
    ledger.expect_all_gone();
  });
}

TEST(Pool, LeasesMove) {
  SimIo{}.run([] {
    Ledger ledger;
    Pool<Thing> pool{things(ledger, 2)};
    Lease<Thing> one = pool.acquire();
    Lease<Thing> other = std::move(one);
    EXPECT_FALSE(one);
    EXPECT_EQ(other->id(), 0);
    one = pool.acquire();
    EXPECT_EQ(one->id(), 1);
    one = std::move(other);
    EXPECT_EQ(one->id(), 0);
    EXPECT_EQ(pool.in_use(), 1U) << "what it held before went back";
  });
}

TEST(Pool, DiscardDestroysAndFreesThePlace) {
  on_both_engines([] {
    Ledger ledger;
    Pool<Thing> pool{things(ledger, 1)};
    Lease<Thing> one = pool.acquire();
    bool got = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_EQ(pool.acquire()->id(), 1) << "a new one";
        got = true;
      });
      let_others_block();
      EXPECT_FALSE(got);
      one.discard();
      EXPECT_FALSE(one);
    });
    EXPECT_EQ(ledger.ended.load(), 1);
    EXPECT_EQ(ledger.most_alive.load(), 1);
    EXPECT_EQ(pool.size(), 1U);
  });
}

TEST(Pool, FirstComeFirstServed) {
  on_workers({1U}, [] {
    Ledger ledger;
    Pool<Thing> pool{things(ledger, 1)};
    std::vector<int> order;
    nursery([&](Nursery& n) {
      Lease<Thing> lease = pool.acquire();
      for (int i = 0; i < 5; ++i) {
        n.spawn([&, i] {
          const Lease<Thing> mine = pool.acquire();
          order.push_back(i);
        });
        this_fiber::yield();
      }
      lease.reset();
      EXPECT_FALSE(pool.try_acquire()) << "it is somebody else's";
    });
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
    EXPECT_EQ(ledger.created.load(), 1);
  });
}

TEST(Pool, TryAndTimedForms) {
  on_both_engines([] {
    Ledger ledger;
    Pool<Thing> pool{things(ledger, 1)};
    std::optional<Lease<Thing>> one = pool.acquire_for(0s);
    ASSERT_TRUE(one) << "tries once";
    EXPECT_FALSE(pool.try_acquire());
    const Instant before = Clock::now();
    EXPECT_FALSE(pool.acquire_for(10ms));
    EXPECT_GE(Clock::now() - before, 10ms);
    one.reset();
    EXPECT_TRUE(pool.try_acquire());
    EXPECT_TRUE(pool.acquire(no_throw));
    cancel_scope([&](CancelScope& s) {
      s.cancel();
      EXPECT_FALSE(pool.acquire(no_throw));
      EXPECT_TRUE(pool.try_acquire()) << "does not look at the scope";
      EXPECT_THROW(static_cast<void>(pool.acquire()), Cancelled);
      EXPECT_THROW(static_cast<void>(pool.acquire_for(1s)), Cancelled);
    });
    EXPECT_EQ(pool.idle(), 1U);
  });
}

TEST(Pool, RefusesBadOptions) {
  struct Needy {
    explicit Needy(int) {}
  };
  EXPECT_THROW(Pool<int>{PoolOptions<int>{}}, std::invalid_argument);
  EXPECT_THROW((Pool<int>{{.capacity = SIZE_MAX}}), std::invalid_argument);
  EXPECT_THROW((Pool<Needy>{{.capacity = 1}}), std::invalid_argument);
  Pool<int> numbers{{.capacity = 1}};
  EXPECT_EQ(*numbers.acquire(), 0) << "T{}, where nobody says how";
}

// ── what the functions may do ───────────────────────────────────────────────────────────────────

TEST(Pool, WhenOnCreateThrowsTheNextGetsItsChance) {
  on_both_engines([] {
    std::atomic<int> tries{0};
    Event go;
    Pool<int> pool{{.capacity = 1, .on_create = [&]() -> int {
                      go.wait();  // it may wait
                      if (++tries < 3) throw std::runtime_error{"not yet"};
                      return 7;
                    }}};
    std::atomic<int> failed{0}, got{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i)
        n.spawn([&] {
          try {
            EXPECT_EQ(*pool.acquire(), 7);
            ++got;
          } catch (const std::runtime_error&) {
            ++failed;
          }
        });
      let_others_block();
      EXPECT_EQ(pool.size(), 0U);
      go.set();
    });
    EXPECT_EQ(failed.load(), 2);
    EXPECT_EQ(got.load(), 3);
    EXPECT_EQ(tries.load(), 3);
    EXPECT_EQ(pool.size(), 1U);
  });
}

TEST(Pool, WhenOnResetThrowsItIsDestroyed) {
  on_both_engines([] {
    Ledger ledger;
    PoolOptions<Thing> options = things(ledger, 1);
    options.on_reset = [](Thing& thing) {
      if (thing.id() == 0) throw std::runtime_error{"cannot"};
    };
    Pool<Thing> pool{std::move(options)};
    pool.acquire().reset();
    EXPECT_EQ(pool.size(), 0U);
    EXPECT_EQ(ledger.ended.load(), 1);
    pool.acquire().reset();
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(pool.acquire()->id(), 1);
  });
}

TEST(Pool, WhatOnDestroyThrowsIsDropped) {
  SimIo{}.run([] {
    int destroyed = 0;
    Pool<int> pool{{.capacity = 1, .on_destroy = [&](int&) {
                      ++destroyed;
                      throw std::runtime_error{"cannot"};
                    }}};
    pool.acquire().discard();
    pool.acquire().reset();
    EXPECT_TRUE(pool.close());
    EXPECT_EQ(destroyed, 2);
  });
}

TEST(Pool, UnhealthyOnesAreReplaced) {
  on_both_engines([] {
    Ledger ledger;
    {
      Pool<Thing> pool{things(ledger, 3)};
      {
        Lease<Thing> a = pool.acquire(), b = pool.acquire(), c = pool.acquire();
        b->healthy = false;
        c->healthy = false;
      }
      Lease<Thing> one = pool.acquire();
      Lease<Thing> two = pool.acquire();
      EXPECT_TRUE(one->healthy);
      EXPECT_TRUE(two->healthy);
      EXPECT_EQ(ledger.ended.load(), 2) << "both are gone";
      EXPECT_EQ(ledger.created.load(), 4);
    }
    EXPECT_EQ(ledger.most_alive.load(), 3);
    ledger.expect_all_gone();
  });
}

TEST(Pool, WhenHealthyThrowsItIsDestroyedAndThePlaceIsFree) {
  SimIo{}.run([] {
    Ledger ledger;
    PoolOptions<Thing> options = things(ledger, 1);
    options.healthy = [](Thing& thing) -> bool {
      if (thing.id() == 0) throw std::runtime_error{"who knows"};
      return true;
    };
    Pool<Thing> pool{std::move(options)};
    pool.acquire().reset();
    EXPECT_THROW(static_cast<void>(pool.acquire()), std::runtime_error);
    EXPECT_EQ(ledger.ended.load(), 1);
    EXPECT_EQ(pool.acquire()->id(), 1);
  });
}

TEST(Pool, CleanupRunsToItsEndInACancelledScope) {
  on_both_engines([] {
    int resets = 0, destroyed = 0;
    Pool<int> pool{{.capacity = 2,
                    .on_reset =
                        [&](int&) {
                          sleep_for(1ms);
                          ++resets;
                        },
                    .on_destroy =
                        [&](int&) {
                          sleep_for(1ms);
                          ++destroyed;
                        }}};
    EXPECT_FALSE(cancel_scope([&](CancelScope& s) {
      Lease<int> unwound = pool.acquire();
      Lease<int> other = pool.acquire();
      s.cancel();
      other.reset();
      EXPECT_EQ(resets, 1);
      EXPECT_EQ(pool.idle(), 1U);
      sleep_for(1s);
    }));
    EXPECT_EQ(resets, 2);
    EXPECT_EQ(pool.idle(), 2U);
    EXPECT_FALSE(cancel_scope([&](CancelScope& s) {
      s.cancel();
      pool.close();
      EXPECT_EQ(destroyed, 2);
      sleep_for(1s);
    }));
  });
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

TEST(Pool, CloseTellsWaitersAndDestroysWhatIsIdle) {
  on_both_engines([] {
    Ledger ledger;
    std::atomic<int> told{0};
    Pool<Thing> pool{things(ledger, 2)};
    nursery([&](Nursery& n) {
      Lease<Thing> one = pool.acquire();
      Lease<Thing> two = pool.acquire();
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          EXPECT_THROW(static_cast<void>(pool.acquire()), PoolClosed);
          ++told;
        });
      let_others_block();
      EXPECT_FALSE(pool.closed());
      EXPECT_TRUE(pool.close());
      EXPECT_FALSE(pool.close());
      EXPECT_TRUE(pool.closed());
      let_others_block();
      EXPECT_EQ(told.load(), 3);
      const int resets = one->resets;
      one.reset();
      EXPECT_EQ(resets, 0);
      EXPECT_EQ(ledger.ended.load(), 1) << "destroyed as it comes back";
      EXPECT_EQ(pool.size(), 1U);
      two.discard();
    });
    EXPECT_THROW(static_cast<void>(pool.acquire()), PoolClosed);
    EXPECT_THROW(static_cast<void>(pool.try_acquire()), PoolClosed);
    EXPECT_THROW(static_cast<void>(pool.acquire_for(1s)), PoolClosed);
    EXPECT_THROW(static_cast<void>(pool.acquire(no_throw)), PoolClosed);
    auto arm = pool.on_acquire();
    EXPECT_EQ(select(arm), 0U);
    EXPECT_THROW(static_cast<void>(arm.value()), PoolClosed);
    EXPECT_THROW(select(pool.on_acquire([](Lease<Thing>) { FAIL(); })), PoolClosed);
    ledger.expect_all_gone();
  });
}

TEST(Pool, LeasesOutliveIt) {
  everywhere([] {
    Ledger ledger;
    nursery([&](Nursery& n) {
      Pool<Thing> pool{things(ledger, 3)};
      pool.acquire().reset();
      for (int i = 0; i < 3; ++i)
        n.spawn([lease = pool.acquire()]() mutable {
          this_fiber::yield();
          lease->use();
          if (lease->id() == 1) lease.discard();
        });
      const Lease<Thing> early = std::move(*pool.acquire_for(1h));
    });
    ledger.expect_all_gone();
    EXPECT_LE(ledger.most_alive.load(), 3);
  });
}

// ── select and cancellation ─────────────────────────────────────────────────────────────────────

TEST(Pool, ArmsThatLoseOrAreNotAskedTakeNothing) {
  on_both_engines([] {
    Ledger ledger;
    Pool<Thing> pool{things(ledger, 1)};
    Event set;
    set.set();
    for (int i = 0; i < 10; ++i) {
      auto mine = pool.on_acquire();
      if (select(mine, set.on_set()) == 0 && i % 2 == 0) {
        EXPECT_TRUE(mine.value());
        EXPECT_EQ(pool.in_use(), 1U);
        EXPECT_TRUE(mine.value()) << "asked again: the same";
      }
    }
    EXPECT_EQ(pool.in_use(), 0U);
    Lease<Thing> one = pool.acquire();
    EXPECT_EQ(select(pool.on_acquire([](Lease<Thing>) { FAIL(); }), after(1ms)), 1U);
    one.reset();
    bool got = false;
    EXPECT_EQ(select(pool.on_acquire([&](Lease<Thing> lease) { got = lease->healthy; })), 0U);
    EXPECT_TRUE(got);
    auto again = pool.on_acquire();
    for (int i = 0; i < 3; ++i) {
      select(again);
      EXPECT_TRUE(again.value());
      again.renew();  // gives it back
    }
    EXPECT_EQ(pool.idle(), 1U);
    EXPECT_EQ(ledger.created.load(), 1);
  });
}

// Everything at once: who is cancelled, times out or loses, what breaks, what cannot be made.
void everything(std::size_t capacity, int users, int rounds) {
  Ledger ledger;
  PoolOptions<Thing> options = things(ledger, capacity);
  options.on_create = [&ledger] {
    const std::uint64_t chance = io().random();
    if (chance % 3 == 0) this_fiber::yield();
    if (chance % 11 == 0) throw std::runtime_error{"cannot be made"};
    return Thing{ledger, static_cast<int>(chance % 1000)};
  };
  options.on_reset = [](Thing& thing) {
    const std::uint64_t chance = io().random();
    if (chance % 5 == 0) this_fiber::yield();
    if (chance % 13 == 0) throw std::runtime_error{"cannot be reset"};
    thing.healthy = chance % 17 != 0;
  };
  {
    Pool<Thing> pool{std::move(options)};
    const auto use = [&](Lease<Thing> lease, std::uint64_t chance) {
      lease->use();
      if (chance % 19 == 0) lease.discard();
      else if (chance % 7 == 0) sleep_for(std::chrono::microseconds{chance % 13});
      EXPECT_LE(pool.size(), capacity);
    };
    nursery([&](Nursery& n) {
      for (int who = 0; who < users; ++who)
        n.spawn([&] {
          for (int i = 0; i < rounds; ++i) try {
              const std::uint64_t chance = io().random() / 8;
              const std::chrono::microseconds patience{chance % 11};
              switch (io().random() % 5) {
                case 0: use(pool.acquire(), chance); break;
                case 1:
                  timeout(patience, [&] { use(pool.acquire(), chance); });
                  break;
                case 2:
                  if (auto lease = pool.acquire_for(patience)) use(*std::move(lease), chance);
                  break;
                case 3:
                  if (auto lease = pool.try_acquire()) use(*std::move(lease), chance);
                  else this_fiber::yield();
                  break;
                default:
                  select(pool.on_acquire([&](Lease<Thing> l) { use(std::move(l), chance); }),
                         after(patience));
              }
            } catch (const std::runtime_error&) {
            }
        });
    });
    EXPECT_EQ(pool.in_use(), 0U) << "all came back";
    EXPECT_LE(pool.idle(), capacity);
    std::vector<Lease<Thing>> all;
    while (all.size() < capacity) try {
        std::optional<Lease<Thing>> lease = pool.try_acquire();
        ASSERT_TRUE(lease) << "a place is lost";
        all.push_back(*std::move(lease));
      } catch (const std::runtime_error&) {
      }
    EXPECT_FALSE(pool.try_acquire()) << "a place too many";
  }
  EXPECT_LE(ledger.most_alive.load(), static_cast<int>(capacity));
  ledger.expect_all_gone();
}

TEST(Pool, NothingIsLostWhateverHappens) {
  const auto body = [] { everything(io().random() % 3 + 1, 6, 8); };
  on_seeds(body, 2 * testing::kSeeds);
  testing::on_blocking(body);
}

TEST(Pool, NothingIsLostOnMoreWorkersThanCores) {
  on_workers({1U, 2U, 4U, 16U}, [] { everything(3, 12, 150); });
}

// The pool is closed in the middle of it.
TEST(Pool, CloseRacesWithAllTheRest) {
  const auto body = [] {
    Ledger ledger;
    std::atomic<int> told{0};
    {
      Pool<Thing> pool{things(ledger, 2)};
      nursery([&](Nursery& n) {
        for (int who = 0; who < 4; ++who)
          n.spawn([&] {
            try {
              for (;;) {
                const Lease<Thing> lease = pool.acquire();
                lease->use();
                this_fiber::yield();
              }
            } catch (const PoolClosed&) {
              ++told;
            }
          });
        for (std::uint64_t i = io().random() % 64; i > 0; --i) this_fiber::yield();
        EXPECT_TRUE(pool.close());
      });
      EXPECT_EQ(pool.size(), 0U);
    }
    EXPECT_EQ(told.load(), 4);
    EXPECT_LE(ledger.most_alive.load(), 2);
    ledger.expect_all_gone();
  };
  on_seeds(body);
  for (int round = 0; round < 10; ++round) on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

// ── threads ─────────────────────────────────────────────────────────────────────────────────────

TEST(Pool, ThreadsAndFibersShareOne) {
  Ledger ledger;
  {
    Pool<Thing> pool{{.capacity = 2,
                      .on_create = [&] { return Thing{ledger, 1}; },
                      .on_destroy = [](Thing& thing) { thing.tell(); }}};
    std::vector<std::thread> threads;
    std::atomic<int> users{0};
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 300; ++k) {
          Lease<Thing> lease = pool.acquire();
          EXPECT_LE(++users, 2);
          --users;
          if (k % 50 == 0) lease.discard();
        }
      });
    FiberIo{{.workers = 2}}.run([&] {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 4; ++i)
          n.spawn([&] {
            for (int k = 0; k < 100; ++k) {
              const Lease<Thing> lease = pool.acquire();
              EXPECT_LE(++users, 2);
              if (k % 8 == 0) this_fiber::yield();
              --users;
            }
          });
      });
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.in_use(), 0U);
  }
  EXPECT_LE(ledger.most_alive.load(), 2);
  ledger.expect_all_gone();
}

TEST(Pool, ADeadlockNamesIt) {
  Ledger ledger;
  try {
    SimIo{}.run([&] {
      Pool<Thing> pool{things(ledger, 1)};
      const Lease<Thing> one = pool.acquire();
      static_cast<void>(pool.acquire());
    });
    FAIL();
  } catch (const Deadlock& deadlock) {
    EXPECT_THAT(deadlock.what(), ::testing::HasSubstr("things"));
  }
  ledger.expect_all_gone();
}

}  // namespace
}  // namespace weft
