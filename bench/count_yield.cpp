// One yield: from one fiber's stack to another's, with a queue in between.
#include "count.hpp"

namespace {

constexpr long kFibers = 10;

bool yields(long n) {
  long done = 0;
  weft::nursery([&](weft::Nursery& nursery) {
    for (long i = 0; i < kFibers; ++i)
      nursery.spawn([&done, rounds = n / kFibers] {
        for (long j = 0; j < rounds; ++j) weft::this_fiber::yield();
        done += rounds;
      });
  });
  return done == n / kFibers * kFibers;
}

}  // namespace

int main(int argc, char** argv) { return weft::bench::count_main(argc, argv, yields); }
