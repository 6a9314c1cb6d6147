// The same program under the real engine and under the simulator, which finds its fault, shows it
// again, and sees that it is gone.
#include <weft/weft.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

using namespace std::chrono_literals;

namespace {

// A bank with a race: read, think, write. Fine on some schedules.
int withdraw_twice(bool locked) {
  int balance = 100;
  weft::Mutex guard;
  const auto withdraw = [&] {
    std::unique_lock lock{guard, std::defer_lock};
    if (locked) lock.lock();
    const int seen = balance;
    weft::sleep_for(1ms);
    balance = seen - 10;
  };
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("early", withdraw);
    n.spawn("late", [&] {
      weft::sleep_for(1ms);
      withdraw();  // at the very moment at which the other one writes
    });
  });
  return balance;
}

template <class Engine>
int under(Engine&& io, bool locked) {
  return io.run([=] { return withdraw_twice(locked); });
}

// By hand: seed after seed.
void look_at_seeds() {
  int wrong = 0;
  std::uint64_t first = 0;
  weft::for_seeds(200, [&](std::uint64_t seed) {
    if (under(weft::SimIo{{.seed = seed}}, false) == 80) return;
    if (wrong++ == 0) first = seed;
  });
  std::printf("unlocked: %d of 200 schedules lose money; replay with seed %llu\n", wrong,
              static_cast<unsigned long long>(first));

  weft::for_seeds(200, [](std::uint64_t seed) {
    if (under(weft::SimIo{{.seed = seed}}, true) != 80) std::abort();
  });
  std::printf("locked: 200 schedules agree; the real engine says %d\n",
              under(weft::FiberIo{}, true));
}

// What loses money throws; explore() does the rest.
void check(bool locked) {
  if (withdraw_twice(locked) != 80) throw std::runtime_error{"money is lost"};
}

void let_it_explore() {
  const weft::Report bad = weft::explore({.runs = 1000, .print = false}, [] { check(false); });
  if (!bad.first) std::abort();
  std::printf("explored: %s, \"%s\", in run %llu\n", to_string(bad.first->kind).data(),
              bad.first->what.c_str(), static_cast<unsigned long long>(bad.first->run));
  try {
    weft::replay(bad.first->schedule, [] { check(false); });
  } catch (const std::runtime_error& error) {
    std::printf("replayed: \"%s\"\n", error.what());
  }

  // Not some schedules, but all that have at most two preemptions.
  const weft::Report good = weft::explore(
      {.runs = 0, .schedule = weft::Schedule::exhaustive, .preemptions = 2, .print = false},
      [] { check(true); });
  std::printf("locked: %s\n", good && good.complete ? "no schedule is left that fails" : "fails");
}

// A program that nobody can wake is an error, not a hang.
void wait_for_nobody() {
  try {
    weft::SimIo{}.run([] {
      weft::Channel<int> channel;
      static_cast<void>(channel.rx.recv());
    });
  } catch (const weft::Deadlock& deadlock) {
    std::puts(deadlock.what());
  }
}

// Works the same under both engines, but under one of them the hour is virtual.
template <class Engine>
bool sleeps(Engine&& io, weft::Duration how_long) {
  return io.run([=] {
    const weft::Instant begin = weft::Clock::now();
    weft::nursery([=](weft::Nursery& n) { n.spawn([=] { weft::sleep_for(how_long); }); });
    return weft::Clock::now() - begin >= how_long;
  });
}

}  // namespace

int main() {
  look_at_seeds();
  let_it_explore();
  wait_for_nobody();
  std::printf("1 ms for real: %s\n", sleeps(weft::FiberIo{}, 1ms) ? "passed" : "did not pass");
  std::printf("1 h in simulation: %s\n", sleeps(weft::SimIo{}, 1h) ? "passed" : "did not pass");
}
