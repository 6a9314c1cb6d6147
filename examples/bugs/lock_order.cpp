// Lock order inversion: two locks, taken in one order here and in the other one there.
//
// How one meets it: two customers send money to each other in the same second, and both requests
// hang; then, one by one, all others that touch one of the two accounts.
#include "gallery.hpp"

#include <mutex>
#include <stdexcept>

namespace {

struct Account {
  weft::Mutex mutex;
  int balance = 100;
};

void transfer(Account& from, Account& to, int amount) {
  std::scoped_lock mine{from.mutex};
  std::scoped_lock yours{to.mutex};  // somebody may hold this one, and wait for mine
  from.balance -= amount;
  to.balance += amount;
}

// Both in one call: it lets go of what it has before it waits for the other.
void transfer_in_order(Account& from, Account& to, int amount) {
  std::scoped_lock both{from.mutex, to.mutex};
  from.balance -= amount;
  to.balance += amount;
}

void each_other(void (*send)(Account&, Account&, int)) {
  Account ann{.mutex = weft::Mutex{"ann's account"}};
  Account bob{.mutex = weft::Mutex{"bob's account"}};
  weft::nursery({.name = "bank"}, [&](weft::Nursery& n) {
    n.spawn("ann", [&] { send(ann, bob, 10); });
    n.spawn("bob", [&] { send(bob, ann, 20); });
  });
  if (ann.balance != 110 || bob.balance != 90) throw std::runtime_error{"money was lost"};
}

void buggy() { each_other(transfer); }
void fixed() { each_other(transfer_in_order); }

}  // namespace

// One preemption is enough, and so few schedules have no more than one that all can be tried: of
// the fix this is a proof, not a sample.
constinit const gallery::Bug gallery::lock_order{
    .name = "lock_order",
    .mistake = "two locks are taken in one order here and in the other one there",
    .kind = weft::Failure::Kind::deadlock,
    .schedule = weft::Schedule::exhaustive,
    .preemptions = 1,
    .runs = 20,
    .buggy = buggy,
    .fixed = fixed,
};
