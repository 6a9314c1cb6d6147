// A nursery owns two fibers and does not end before they have.
#include <weft/weft.hpp>

#include <cstdio>

int main() {
  weft::FiberIo io;
  io.run([] {
    weft::nursery([](weft::Nursery& n) {
      n.spawn([] { std::puts("warp"); });
      n.spawn([] { std::puts("weft"); });
    });  // both have finished here, always; in which order they ran is the scheduler's choice
    std::puts("cloth");
  });
}
