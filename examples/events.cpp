// Events: wait for one, for whichever of several comes first, and again after a reset.
#include <weft/weft.hpp>

#include <cstdio>

using namespace std::chrono_literals;

namespace {

void one_event_many_waiters() {
  weft::Event start{"start"};
  int ran = 0;
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 5; ++i)
      n.spawn([&] {
        start.wait();
        ++ran;
      });
    weft::sleep_for(1ms);
    std::printf("%d ran before the event\n", ran);
    start.set();  // wakes all of them; who waits from now on does not wait
  });
  std::printf("%d ran after it\n", ran);
}

// An operation is an object on the waiting fiber's stack; wait() takes any number of them and
// returns the number of the one that completed. The others are as if they had never been tried.
void whichever_comes_first() {
  weft::Event reply{"reply"};
  for (const auto patience : {1ms, 1000ms}) {
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([&] {
        weft::sleep_for(20ms);
        reply.set();
      });
      auto on_reply = reply.on_set();
      weft::Alarm on_time{weft::Clock::now() + patience};
      weft::Waitable* const arms[] = {&on_reply, &on_time};
      std::puts(weft::wait(arms) == 0 ? "reply" : "no reply in time");
    });
    reply.reset();
  }
}

}  // namespace

int main() {
  weft::SimIo io;  // in virtual time: the outcome does not depend on how busy the machine is
  io.run([] {
    one_event_many_waiters();
    whichever_comes_first();
  });
}
