#include "tour.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <thread>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;

// Answers `rounds` times, from a fiber or from a thread: the code is the same.
void answer(Event& ask, Event& reply, long rounds) {
  for (long i = 0; i < rounds; ++i) {
    ask.wait();
    ask.reset();
    reply.set();
  }
}

void ask_for(Event& ask, Event& reply, long rounds) {
  for (long i = 0; i < rounds; ++i) {
    ask.set();
    reply.wait();
    reply.reset();
  }
}

double between_fibers(long rounds) {
  Event ask{"ask"};
  Event reply{"reply"};
  const double taken = seconds([&] {
    nursery([&](Nursery& n) {
      n.spawn([&, rounds] { answer(ask, reply, rounds); });
      ask_for(ask, reply, rounds);
    });
  });
  return taken * 1e9 / static_cast<double>(rounds);
}

double with_a_thread(long rounds) {
  Event ask{"ask"};
  Event reply{"reply"};
  std::thread other{[&, rounds] { answer(ask, reply, rounds); }};
  const double taken = seconds([&] { ask_for(ask, reply, rounds); });
  other.join();
  return taken * 1e6 / static_cast<double>(rounds);
}

// Whichever comes first; the wait that lost is as if it had never been.
std::size_t first_of_two() {
  Event early{"early"};
  Event late{"late"};
  std::size_t winner = 0;
  nursery([&](Nursery& n) {
    n.spawn([&] {
      sleep_for(1ms);
      early.set();
    });
    auto on_late = late.on_set();
    auto on_early = early.on_set();
    Waitable* const arms[] = {&on_late, &on_early};
    winner = wait(arms);
  });
  return winner;
}

// A thread that belongs to no engine hands functions to one.
long posted_by_a_thread(FiberIo& io, long count) {
  std::atomic<long> ran{0};
  long accepted = 0;
  io.run([&] {
    Event done{"all posted"};
    std::thread poster{[&] {
      for (long i = 0; i < count; ++i)
        if (io.post([&ran] { ++ran; })) ++accepted;
      done.set();
    }};
    done.wait();
    poster.join();
  });
  expect(accepted == count && ran == count, "a posted function was lost");
  return ran;
}

}  // namespace

void events(Page& page) {
  FiberIo io;
  io.run([&] {
    page.say("Two fibers wake each other, two parks and two wakes a round trip:");
    page.figure("fiber and fiber", between_fibers(at_most(1'000'000, 50'000, 10'000)), "ns");
    page.say("The same code with one side on a plain thread. Both sleep in the kernel in between:");
    page.figure("fiber and thread", with_a_thread(at_most(5'000, 2'000, 500)), "us");
    expect(first_of_two() == 1, "the wrong event won");
    page.say("A wait for whichever of two events comes first returned the second one's number: 1.");
  });
  const long posted = posted_by_a_thread(io, at_most(10'000, 10'000, 1'000));
  page.say("A thread outside the engine posted " + grouped(posted) +
           " functions; all ran before run() returned.");
}

}  // namespace weft::tour
