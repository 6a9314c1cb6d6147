// An engine of one's own runs any program: see lifo_io.hpp.
#include "lifo_io.hpp"

#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

int main() {
  LifoIo io;
  io.run([] {
    weft::nursery([](weft::Nursery& n) {
      for (int i = 1; i <= 3; ++i) n.spawn([i] { std::printf("child %d\n", i); });
    });
    const bool in_time = static_cast<bool>(weft::timeout(1ms, [] { weft::Event{}.wait(); }));
    std::printf("in time: %s\n", in_time ? "yes" : "no");

    weft::Channel<int> numbers;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([tx = std::move(numbers.tx)] {
        for (int i = 1; i <= 3; ++i) static_cast<void>(tx.send(i));
      });
      for (const int i : numbers.rx) std::printf("got %d\n", i);
    });
  });
  try {
    io.run([] { weft::Event{"godot"}.wait(); });
  } catch (const weft::Deadlock&) {
    std::printf("nobody comes\n");
  }
}
