#include "tour.hpp"

#include <weft/weft.hpp>

namespace weft::tour {
namespace {

double nanoseconds_per_yield(long fibers, long yields) {
  long done = 0;
  const long rounds = yields / fibers;
  const double taken = best_seconds([&] {
    done = 0;
    nursery([&](Nursery& n) {
      for (long i = 0; i < fibers; ++i)
        n.spawn([&done, rounds] {
          for (long j = 0; j < rounds; ++j) this_fiber::yield();
          done += rounds;
        });
    });
  });
  expect(done == rounds * fibers, "a yield was lost");
  return taken * 1e9 / static_cast<double>(done);
}

}  // namespace

void switching(Page& page) {
  const long yields = at_most(5'000'000, 200'000, 50'000);
  const long many = at_most(1000, 1000, 100);
  FiberIo io{{.workers = 1}};  // one after another: what a switch costs, not how many at once
  io.run([&] {
    page.say("A fiber that is alone looks at the run queues and goes on:");
    page.figure("yield, 1 fiber", nanoseconds_per_yield(1, yields), "ns");
    page.say("Several take turns. Each yield goes straight from one fiber's stack to another's:");
    page.figure("yield, 2 fibers", nanoseconds_per_yield(2, yields), "ns");
    page.figure("yield, " + grouped(many) + " fibers", nanoseconds_per_yield(many, yields), "ns");
  });
}

}  // namespace weft::tour
