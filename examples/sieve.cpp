// A sieve of fibers: each prime found is a stage that lets through what it does not divide.
#include <weft/weft.hpp>

#include <cstdio>

int main() {
  weft::run([] {
    weft::nursery([](weft::Nursery& n) {
      weft::Channel<int> numbers;
      n.spawn("numbers", [out = std::move(numbers.tx)] {
        for (int i = 2; out.send(i);) ++i;  // false: nobody wants any more
      });

      weft::Receiver<int> in = std::move(numbers.rx);
      for (int found = 1; found <= 30; ++found) {
        const int prime = in.recv().value();
        std::printf("%d%c", prime, found % 10 == 0 ? '\n' : ' ');

        weft::Channel<int> rest;
        n.spawn("sieve", [in = std::move(in), out = std::move(rest.tx), prime] {
          for (int i : in)
            if (i % prime != 0 && !out.send(i)) return;
        });
        in = std::move(rest.rx);
      }
    });  // `in` is gone: the last stage cannot send, ends, and with it the one before it ...
  });
}
