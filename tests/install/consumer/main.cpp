#include <weft/weft.hpp>

#include <cstdio>

int main() {
  weft::FiberIo io;
  io.run([] {
    weft::nursery([](weft::Nursery& n) {
      n.spawn([] { std::puts("warp"); });
      n.spawn([] { std::puts("weft"); });
    });
    std::puts("cloth");
  });
}
