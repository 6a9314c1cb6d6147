// A pipeline of combinators.
#include <weft/weft.hpp>

#include <cstdio>

int main() {
  weft::FiberIo io;
  io.run([] {
    weft::Channel<int> numbers;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([tx = std::move(numbers.tx)] {
        for (int i = 1; i <= 10; ++i)
          if (!tx.send(i)) return;
      });

      int sum = 0;
      weft::stream(n, std::move(numbers.rx))           // stages are fibers owned by n
          | weft::where([](int v) { return v % 2 == 0; })
          | weft::map([](int v) { return v * v; })     // in the same fiber as where
          | weft::buffer(16)
          | weft::for_each([&](int v) { sum += v; });  // runs here, in this fiber
      std::printf("%d\n", sum);
    });
  });
}
