// A server that ends in order: Ctrl-C or kill cancels it, and what it has begun is finished.
#include <weft/weft.hpp>

#include <csignal>
#include <cstdio>
#include <unistd.h>

using namespace std::chrono_literals;

// Requests come for ever; one that is in hand is answered, whatever happens.
void serve(const weft::Receiver<int>& requests, weft::Latch& in_hand) {
  weft::nursery([&](weft::Nursery& n) {
    for (const int request : requests)
      n.spawn([request, &in_hand] {
        weft::shielded([request, &in_hand] {
          in_hand.count_down();
          weft::sleep_for(1ms);
          std::printf("answered %d\n", request);
        });
      });
  });
}

void send_three_and_a_signal(const weft::Sender<int>& requests, weft::Latch& in_hand) {
  for (const int request : {1, 2, 3})
    if (!requests.send(request)) return;
  in_hand.wait();
  kill(getpid(), SIGTERM);  // as Ctrl-C does
}

int main() {
  weft::run([] {
    const weft::Channel<int> requests;
    weft::Latch in_hand{3};
    const bool ended = weft::until_signal({SIGINT, SIGTERM}, [&] {
      weft::all([&] { serve(requests.rx, in_hand); },
                [&] { send_three_and_a_signal(requests.tx, in_hand); });
    });
    std::puts(ended ? "ended by itself" : "drained");
  });
}
