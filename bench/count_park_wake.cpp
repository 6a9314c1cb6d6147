// One park and the wake that ends it: Event::wait by one fiber, Event::set by another, and the
// reset that makes the event fit for the next time.
#include "count.hpp"

namespace {

bool park_and_wake(long n) {
  weft::Event there;
  weft::Event back;
  long answered = 0;
  const long rounds = n / 2;  // two parks and two wakes each
  weft::nursery([&](weft::Nursery& nursery) {
    nursery.spawn([&] {
      for (long i = 0; i < rounds; ++i) {
        there.wait();
        there.reset();
        ++answered;
        back.set();
      }
    });
    for (long i = 0; i < rounds; ++i) {
      there.set();
      back.wait();
      back.reset();
    }
  });
  return answered == rounds;
}

}  // namespace

int main(int argc, char** argv) { return weft::bench::count_main(argc, argv, park_and_wake); }
