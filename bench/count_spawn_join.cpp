// One nursery with one child: enter, spawn, join, leave.
#include "count.hpp"

namespace {

bool spawns(long n) {
  long ran = 0;
  for (long i = 0; i < n; ++i)
    weft::nursery([&](weft::Nursery& nursery) { nursery.spawn([&ran] { ++ran; }); });
  return ran == n;
}

}  // namespace

int main(int argc, char** argv) { return weft::bench::count_main(argc, argv, spawns); }
