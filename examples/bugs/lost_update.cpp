// Lost update: a value is read, something is waited for, and the value is written back.
//
// How one meets it: the stock of an article is wrong by one, on busy days only. Between the read
// and the write stands a line for the log. The log's channel nearly always has room for it, so that
// nothing parks there; when the log is slow for once, the next order reads the same stock.
#include "gallery.hpp"

#include <mutex>
#include <stdexcept>

namespace {

struct Shop {
  int stock = 10;
  weft::Mutex mutex{"stock"};
  weft::Channel<int> log{64};
};

void order(Shop& shop) {
  const int seen = shop.stock;
  static_cast<void>(shop.log.tx.send(seen));  // any wait will do: others run meanwhile
  shop.stock = seen - 1;
}

// One lock from the read to the write. A weft::Mutex may be held over a wait.
void order_alone(Shop& shop) {
  std::scoped_lock lock{shop.mutex};
  order(shop);
}

void sell_three(void (*order_one)(Shop&)) {
  Shop shop;
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 3; ++i) n.spawn("order", [&] { order_one(shop); });
  });
  if (shop.stock != 7) throw std::runtime_error{"an order has left no trace in the stock"};
}

void buggy() { sell_three(order); }
void fixed() { sell_three(order_alone); }

}  // namespace

constinit const gallery::Bug gallery::lost_update{
    .name = "lost_update",
    .mistake = "a value is read, a wait comes, and the value is written back",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 20,
    .buggy = buggy,
    .fixed = fixed,
};
