// Forgotten undo: a fiber changes something, is cancelled at its next wait, and nobody changes it
// back.
//
// How one meets it: on the morning after, a hall is sold out that has empty seats. A seat is held
// back while the card is charged. A customer who closes the page cancels the booking, and Cancelled
// leaves the function where no line of it says so: at the wait.
#include "gallery.hpp"

#include <stdexcept>

namespace {

struct Hall {
  int free = 3;
  int sold = 0;
  weft::Semaphore card_terminal{1, "card terminal"};
};

void charge(Hall& hall) {
  auto permit = hall.card_terminal.permit();  // cancel point
}

void book(Hall& hall) {
  --hall.free;
  charge(hall);
  ++hall.sold;
}

// What must be undone is an object from its first moment.
class HeldBack {
 public:
  explicit HeldBack(Hall& hall) : hall_(hall) { --hall_.free; }
  ~HeldBack() { sold_ ? ++hall_.sold : ++hall_.free; }
  HeldBack(const HeldBack&) = delete;
  HeldBack& operator=(const HeldBack&) = delete;
  void sell() { sold_ = true; }

 private:
  Hall& hall_;
  bool sold_ = false;
};

void book_or_give_back(Hall& hall) {
  HeldBack seat{hall};
  charge(hall);
  seat.sell();
}

void customer(void (*book_one)(Hall&)) {
  Hall hall;
  weft::nursery({.name = "page"}, [&](weft::Nursery& page) {
    page.spawn("booking", [&] { book_one(hall); });
    page.spawn("connection", [&] { page.cancel(); });  // closed, whether it is booked or not
  });
  if (hall.free + hall.sold != 3) throw std::runtime_error{"a seat is neither free nor sold"};
}

void buggy() { customer(book); }
void fixed() { customer(book_or_give_back); }

}  // namespace

constinit const gallery::Bug gallery::forgotten_undo{
    .name = "forgotten_undo",
    .mistake = "a cancelled fiber leaves behind half of what it was doing",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 120,
    .buggy = buggy,
    .fixed = fixed,
};
