#include "tour.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;
using RealClock = std::chrono::steady_clock;
using Time = RealClock::time_point;

constexpr auto kMark = 25ms;  // what one mark of a strip stands for
constexpr long kMarks = at_most(32, 20, 20);

// The kernel is asked to sleep, and nobody else is told.
void sleep_in_the_kernel(RealClock::duration d) {
  const std::timespec request{.tv_sec = 0, .tv_nsec = d / 1ns};
  ::nanosleep(&request, nullptr);
}

// Those who disturb: one call of 50 ms after another, until the time is over.
void sit_in_system_calls(Time end) {
  while (RealClock::now() < end) {
    sleep_in_the_kernel(50ms);
    this_fiber::yield();
  }
}
void sit_in_announced_calls(Time end) {
  while (RealClock::now() < end) blocking([] { sleep_in_the_kernel(50ms); });
}
void compute(Time end) {
  while (RealClock::now() < end) {}
}

// What a plain thread sees of the heartbeat, which no fiber can hold up: a mark for every 25 ms.
std::string watch(const Page& page, const std::string& label, const std::atomic<long>& beats,
                  Time begin) {
  std::string strip;
  long before = 0;
  for (int mark = 1; mark <= kMarks; ++mark) {
    std::this_thread::sleep_until(begin + mark * kMark);
    const long now = beats;
    // Half of them will do for a good mark: the machine has others to serve.
    strip += now == before ? '.' : now - before < kMark / 2ms ? ':' : '|';
    before = now;
    if (!page.watched()) continue;
    std::printf("\r    %s %s", label.c_str(), strip.c_str());
    std::fflush(stdout);
  }
  if (page.watched()) std::printf("\r%*s\r", static_cast<int>(label.size() + strip.size() + 5), "");
  return strip;
}

std::string people(unsigned long count, const char* what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

// A heart beside so many who disturb it; how often it beat.
long heartbeat(Page& page, FiberIo& io, const std::string& label, unsigned count,
               void (*disturb)(Time)) {
  std::atomic<long> beats{0};
  std::string strip;
  const unsigned long before = io.statistics().promotions;
  const Time begin = RealClock::now();
  const Time end = begin + kMarks * kMark;
  std::thread watcher{[&] { strip = watch(page, label, beats, begin); }};
  io.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("heart", [&beats, end] {
        Ticker ticker{1ms};
        for (ticker.next(); RealClock::now() < end; ticker.next()) ++beats;
      });
      for (unsigned i = 0; i < count; ++i)
        n.spawn("disturber", [disturb, end] { disturb(end); });
    });
  });
  watcher.join();
  const unsigned long hired = io.statistics().promotions - before;
  page.figure(label, hired == 0 ? strip : strip + "  " + people(hired, "stand-in"));
  return beats;
}

}  // namespace

void kidnapping(Page& page) {
  const unsigned workers = std::max(2U, usable_cores());
  FiberIo io{{.workers = workers}};
  page.say("A fiber's heart beats every millisecond, on " + people(workers, "worker") +
           ". A mark is 25 ms of it:");
  page.say("| it beat, : now and then, . not at all. Others block their workers without a word:");
  const long alone = heartbeat(page, io, "nobody blocks", 0, sit_in_system_calls);
  expect(alone > 0, "the heart did not beat even when it was alone");
  const unsigned half = workers / 2;
  heartbeat(page, io, people(half, "worker") + " blocked", half, sit_in_system_calls);
  const long rescued = heartbeat(page, io, "all " + std::to_string(workers) + " blocked", workers,
                                 sit_in_system_calls);
  page.say("Who says blocking(…) blocks a thread that no fiber needs; who computes asks nobody:");
  const long asked = heartbeat(page, io, "all in blocking()", workers, sit_in_announced_calls);
  expect(asked > 0, "the heart did not beat beside calls of blocking()");
  heartbeat(page, io, people(workers, "fiber") + " that compute", workers, compute);
  if (io.options().max_workers == workers)
    return page.say("Nobody stood in for them: this engine may have no more workers.");
  const Statistics seen = io.statistics();
  expect(rescued > 0 && seen.promotions > 0, "nobody stood in for the workers that were blocked");
  expect(seen.promotions == seen.retirements, "a temporary worker has stayed");
  page.say("A watcher saw work that waited for workers stuck elsewhere, and hired temporary ones,");
  page.say(people(seen.promotions, "stand-in") + " in all. Every one of them is gone again.");
}

}  // namespace weft::tour
