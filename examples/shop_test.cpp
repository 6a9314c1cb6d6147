// The tests of docs/simulator.md: one that fails now and then, the same one under the simulator,
// which shows why, and the same once more for what came of it.
#include <weft/gtest.hpp>
#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

using namespace std::chrono_literals;

namespace {

class Shop {
 public:
  Shop(int chairs, std::function<bool()> charge) : chairs_(chairs), charge_(std::move(charge)) {}

  // False: sold out, or the bank refused.
  bool buy() {
    {
      const std::scoped_lock lock{guard_};
      if (chairs_ == 0) return false;
    }
    if (!charge_()) return false;  // the bank takes its time: the lock is not held meanwhile
    const std::scoped_lock lock{guard_};
    --chairs_;
    return true;
  }

 private:
  weft::Mutex guard_{"guard"};
  int chairs_;
  const std::function<bool()> charge_;
};

// What Ann and Bob get, who come at the same time.
template <class AnyShop>
int sold_to_two(AnyShop& shop) {
  std::atomic<int> sold = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("Ann", [&] { sold += shop.buy(); });
    n.spawn("Bob", [&] { sold += shop.buy(); });
  });
  return sold;
}

bool pay() { return true; }

TEST(Shop, SellsTheLastChairOnce) {
  weft::FiberIo io;
  io.run([] {
    Shop shop{1, pay};
    EXPECT_EQ(sold_to_two(shop), 1);
  });
}

WEFT_SIM_TEST(SimulatedShop, SellsTheLastChairOnce) {
  Shop shop{1, pay};
  EXPECT_EQ(sold_to_two(shop), 1);
}

class BetterShop {
 public:
  BetterShop(std::size_t chairs, std::function<bool()> charge)
      : chairs_(chairs, "chairs"), charge_(std::move(charge)) {}

  bool buy() {
    if (!chairs_.try_acquire()) return false;  // whoever takes one has it,
    try {
      if (charge_()) return true;
    } catch (...) {  // or gives it back, also if cancelled
      chairs_.release();
      throw;
    }
    chairs_.release();
    return false;
  }

 private:
  weft::Semaphore chairs_;
  const std::function<bool()> charge_;
};

WEFT_SIM_TEST(BetterShop, SellsTheLastChairOnce) {
  BetterShop shop{1, pay};
  EXPECT_EQ(sold_to_two(shop), 1);
}

WEFT_SIM_TEST(BetterShop, SellsTheLastChairOnceInEveryOrder, .runs = 0,
              .schedule = weft::Schedule::exhaustive, .preemptions = 5) {
  BetterShop shop{1, pay};
  EXPECT_EQ(sold_to_two(shop), 1);
}

WEFT_SIM_TEST(BetterShop, KeepsTheChairIfTheCustomerGivesUp) {
  bool bank_is_slow = true;
  BetterShop shop{1, [&] {
                    if (bank_is_slow) weft::sleep_for(1h);
                    return true;
                  }};
  EXPECT_FALSE(weft::timeout(30s, [&] { return shop.buy(); }));  // takes no time at all
  bank_is_slow = false;
  EXPECT_TRUE(shop.buy());
}

WEFT_SIM_TEST(BetterShop, ReservesTheChairWhileTheBankThinks) {
  weft::Event approved{"approved"};
  BetterShop shop{1, [&] {
                    approved.wait();
                    return true;
                  }};
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("Ann", [&] { EXPECT_TRUE(shop.buy()); });
    weft::settle();  // Ann is at the bank, whatever the schedule
    EXPECT_FALSE(shop.buy());
    approved.set();
  });
}

}  // namespace
