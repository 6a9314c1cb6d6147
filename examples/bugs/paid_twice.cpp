// Paid twice: a request is repeated because its answer was late, and both are carried out.
//
// How one meets it: a customer's card is charged twice, always on days on which the bank is slow.
// Time-outs say nothing about what the other side has done, or is about to do.
#include "gallery.hpp"

#include <set>
#include <stdexcept>

namespace {

using namespace std::chrono_literals;

struct Payment {
  int order;
  weft::Sender<bool> done;
};

void bank(const weft::Receiver<Payment>& payments, int& charged) {
  for (Payment& payment : payments) {
    weft::sleep_for(weft::io().random() % 40 * 1ms);  // mostly in time
    ++charged;
    static_cast<void>(payment.done.send(true));  // false: nobody waits any more
  }
}

// The order's number is the key: whoever asks again is told that it is done.
void bank_that_remembers(const weft::Receiver<Payment>& payments, int& charged) {
  std::set<int> orders;
  for (Payment& payment : payments) {
    weft::sleep_for(weft::io().random() % 40 * 1ms);
    if (orders.insert(payment.order).second) ++charged;
    static_cast<void>(payment.done.send(true));
  }
}

void pay(const weft::Sender<Payment>& payments) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    auto answer = weft::oneshot<bool>();
    if (!payments.send({.order = 4711, .done = std::move(answer.tx)})) return;
    if (answer.rx.recv_for(35ms)) return;
  }
}

void one_order(void (*serve)(const weft::Receiver<Payment>&, int&)) {
  weft::Channel<Payment> payments{4};
  int charged = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("bank", [&charged, serve, rx = std::move(payments.rx)] { serve(rx, charged); });
    n.spawn("shop", [tx = std::move(payments.tx)] { pay(tx); });
  });
  if (charged != 1) throw std::runtime_error{"the card was charged more than once"};
}

void buggy() { one_order(bank); }
void fixed() { one_order(bank_that_remembers); }

}  // namespace

constinit const gallery::Bug gallery::paid_twice{
    .name = "paid_twice",
    .mistake = "what is done again after a time-out had been done, or still will be",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 150,
    .buggy = buggy,
    .fixed = fixed,
};
