// Whichever comes first of a quote, an order and 50 ms of silence: select, in its two spellings.
#include <weft/weft.hpp>

#include <cstdio>

using namespace std::chrono_literals;

namespace {

struct Quote {
  int price;
};

// With handlers.
void trader(weft::Receiver<Quote> quotes, weft::Receiver<int> orders) {
  for (bool open = true; open;) {
    weft::select(  // the winner's handler runs here, in this fiber
        quotes.on_recv([&](std::optional<Quote> quote) {
          open = quote.has_value();
          if (open) std::printf("quote %d\n", quote->price);
        }),
        orders.on_recv([&](std::optional<int> id) {
          open = id.has_value();
          if (open) std::printf("order %d\n", *id);
        }),
        weft::after(50ms, [] { std::puts("quiet for 50 ms"); }));
  }
}

// In plain control flow, where `return` and `break` do what they say.
void trader_in_plain_control_flow(weft::Receiver<Quote> quotes) {
  for (;;) {
    auto quote = quotes.on_recv();  // an operation is an object on your stack
    auto quiet = weft::after(50ms);
    switch (weft::select(quote, quiet)) {  // returns the index of the winner
      case 0:
        if (!quote.value()) return;
        std::printf("quote %d\n", quote.value()->price);
        break;
      case 1: std::puts("quiet for 50 ms"); break;
    }
  }
}

}  // namespace

int main() {
  weft::SimIo io;  // in virtual time: 50 ms are exactly that, and pass at once
  io.run([] {
    weft::Channel<Quote> quotes;
    weft::Channel<int> orders;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("market", [quote = std::move(quotes.tx), order = std::move(orders.tx)] {
        if (!quote.send({101})) return;
        weft::sleep_for(20ms);
        if (!order.send(7)) return;
        weft::sleep_for(120ms);  // long enough to be noticed twice
        if (!quote.send({99})) return;
      });  // both senders end here, and with them both channels
      trader(std::move(quotes.rx), std::move(orders.rx));
    });
  });

  std::puts("--");
  io.run([] {
    weft::Channel<Quote> quotes;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("market", [quote = std::move(quotes.tx)] {
        for (int price : {101, 102, 103}) {
          if (!quote.send({price})) return;
          weft::sleep_for(price == 102 ? 80ms : 10ms);
        }
      });
      trader_in_plain_control_flow(std::move(quotes.rx));
    });
  });
}
