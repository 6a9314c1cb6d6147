#include "tour.hpp"

#include <weft/weft.hpp>

#include <cstdint>
#include <cstdio>
#include <set>
#include <string>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;

// A bank with a fault: read, let the others run, write.
int withdraw_three_times() {
  int balance = 100;
  nursery([&](Nursery& n) {
    for (int i = 0; i < 3; ++i)
      n.spawn([&balance] {
        const int seen = balance;
        this_fiber::yield();
        balance = seen - 10;
      });
  });
  return balance;
}

struct Run {
  int balance;
  std::uint64_t hash;
  std::string schedule;
};

Run simulate(const SimOptions& options) {
  SimIo io{options};
  const int balance = io.run(withdraw_three_times);
  return {balance, io.trace_hash(), io.schedule()};
}

std::string hexadecimal(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

void same_seed_same_run(Page& page) {
  const Run first = simulate({.seed = 1});
  const Run second = simulate({.seed = 1});
  expect(first.hash == second.hash && first.schedule == second.schedule,
         "one seed gave two schedules");
  page.figure("seed 1, trace hash", hexadecimal(first.hash));
  page.figure("seed 1 again", hexadecimal(second.hash));
  const Run other = simulate({.seed = 2});
  expect(other.hash != first.hash, "two seeds gave one schedule");
  page.figure("seed 2", hexadecimal(other.hash));
}

void find_the_fault(Page& page) {
  const std::uint64_t seeds = 1000;
  std::set<std::uint64_t> hashes;
  std::uint64_t wrong = 0;
  Run found{};
  const double taken = seconds([&] {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      Run run = simulate({.seed = seed});
      hashes.insert(run.hash);
      if (run.balance != 70 && wrong++ == 0) found = std::move(run);
    }
  });
  expect(wrong != 0 && wrong != seeds, "all schedules of the faulty bank agree");
  page.say("Three withdrawals from one account, each reading before and writing after a yield:");
  page.figure(grouped(static_cast<long long>(seeds)) + " seeds, different schedules",
              grouped(static_cast<long long>(hashes.size())));
  page.figure("seeds that lose money", grouped(static_cast<long long>(wrong)));
  page.figure("all of them took", taken * 1e3, "ms");
  const Run again = simulate({.replay = found.schedule});
  expect(again.hash == found.hash && again.balance == found.balance, "the replay went another way");
  page.say("The first of them, as text that replays it, and the balance then and now:");
  page.quote(found.schedule);
  page.figure("balance", std::to_string(found.balance) + ", " + std::to_string(again.balance));
}

void let_time_fly(Page& page) {
  const auto period = kChecked ? std::chrono::seconds{60} : std::chrono::seconds{1};
  long ticks = 0;
  SimIo io;
  const double taken = seconds([&] {
    io.run([&] {
      const Instant end = Clock::now() + 1000h;
      for (; Clock::now() < end; ++ticks) sleep_for(period);
    });
  });
  expect(ticks == std::chrono::hours{1000} / period, "the ticker lost count");
  page.say("The clock is virtual. It jumps when nobody can run:");
  page.figure("1,000 hours, " + grouped(ticks) + " ticks, took", taken * 1e3, "ms");
}

}  // namespace

void simulation(Page& page) {
  page.say("The same seed gives the same run, whatever the machine and the compiler:");
  same_seed_same_run(page);
  find_the_fault(page);
  let_time_fly(page);
}

}  // namespace weft::tour
