// What a dump shows: the workers, and every fiber with its state, its wait, and where it was
// spawned. In virtual time, so that the ages are the same in every run.
#include <weft/weft.hpp>

#include <iostream>
#include <mutex>
#include <utility>

using namespace std::chrono_literals;

namespace {

// The dump shows where this was called.
template <class F>
void hire(weft::Nursery& n, F f, weft::Site site = weft::Site::here()) {
  n.spawn("apprentice", std::move(f), site);
}

void mill(weft::Engine& io) {
  weft::Channel<int> orders{{.name = "orders"}};
  weft::Mutex loom{"loom"};
  weft::nursery({.name = "mill"}, [&](weft::Nursery& n) {
    n.spawn("clerk", [rx = std::move(orders.rx)] {
      while (rx.recv()) weft::sleep_for(1s);
    });
    n.spawn("weaver", [&] {
      const std::scoped_lock lock{loom};
      weft::sleep_for(1h);
    });
    weft::sleep_for(90s);
    hire(n, [&] { const std::scoped_lock lock{loom}; });
    weft::sleep_for(250ms);
    weft::dump(io, std::cout);
    n.cancel();
  });
}

}  // namespace

int main() {
  weft::SimIo io;
  io.run([&] { mill(io); });
}
