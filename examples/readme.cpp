#include <weft/weft.hpp>

#include <cstdio>
using namespace std::chrono_literals;

void make_tea(weft::Duration boiling_time) {
  weft::Event boiled;  // outside the nursery's braces: children may refer to it
  weft::nursery([&](weft::Nursery& n) {
    for (int guest = 1; guest <= 2; ++guest)
      n.spawn("guest", [&boiled, guest] {  // what is inside goes by value
        boiled.wait();
        std::printf("tea for %d\n", guest);
      });
    weft::sleep_for(boiling_time);
    boiled.set();
  });  // both guests have had their tea here, always
}

int main() {
  weft::FiberIo real;  // fibers on threads, in real time
  real.run([] { make_tea(3ms); });
  weft::SimIo simulated{{.seed = 7}};  // the same program in virtual time, scheduled by a seed
  simulated.run([] { make_tea(3min); });
}
