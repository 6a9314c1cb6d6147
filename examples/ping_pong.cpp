// Two fibers throw a number back and forth over two channels.
#include <weft/weft.hpp>

#include <cstdio>

int main() {
  weft::FiberIo io;
  const int rallies = io.run([] {
    weft::Channel<int> there, back;  // capacity 0: a rendezvous, a send waits for its receive

    return weft::nursery([&](weft::Nursery& n) {
      n.spawn([in = std::move(there.rx), out = std::move(back.tx)] {
        for (int v : in)  // ends when the channel is closed, or the last sender is gone
          if (!out.send(v + 1)) return;
      });

      int v = 0;
      while (v < 1000 && there.tx.send(v)) v = back.rx.recv().value();
      there.tx.close();
      return v;
    });
  });
  std::printf("%d rallies\n", rallies);
}
