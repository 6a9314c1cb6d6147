#include "tour.hpp"

#include <weft/weft.hpp>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;

// A shop with a fault: it looks whether there is a chair, charges the customer, then takes it away.
void sell_the_last_chair(bool faulty) {
  Mutex guard{"guard"};
  int chairs = 1;
  int sold = 0;
  const auto buy = [&] {
    std::unique_lock lock{guard};
    if (chairs == 0) return;
    if (!faulty) --chairs;
    lock.unlock();
    // Here the customer pays.
    lock.lock();
    if (faulty) --chairs;
    ++sold;
  };
  nursery([&](Nursery& n) {
    n.spawn("Ann", buy);
    n.spawn("Bob", buy);
  });
  if (sold != 1) throw std::runtime_error{"one chair, sold " + std::to_string(sold) + " times"};
}

std::string hexadecimal(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t hash_of(std::uint64_t seed) {
  SimIo io{{.seed = seed, .preempt = true}};
  io.run([] { sell_the_last_chair(false); });
  return io.trace_hash();
}

void same_seed_same_run(Page& page) {
  const std::uint64_t first = hash_of(1);
  expect(hash_of(1) == first, "one seed gave two schedules");
  expect(hash_of(2) != first, "two seeds gave one schedule");
  page.figure("seed 1, trace hash", hexadecimal(first));
  page.figure("seed 1 again", hexadecimal(hash_of(1)));
  page.figure("seed 2", hexadecimal(hash_of(2)));
}

std::string number(std::uint64_t value) { return grouped(static_cast<long long>(value)); }

void find_the_fault(Page& page) {
  const Report report =
      explore({.runs = 10'000, .log_lines = 20, .progress = weft::Progress::never, .print = false},
              [] { sell_the_last_chair(true); });
  expect(report.first.has_value(), "the fault was not found");
  const Failure& failure = *report.first;
  page.say("A shop with one chair left, and a customer too many. explore() looks for an order of");
  page.say("events in which that goes wrong, and makes it smaller:");
  page.figure("runs until it was found", number(failure.run));
  page.figure("switches, as found and made smaller",
              std::to_string(failure.switches_found) + ", " + std::to_string(failure.switches));
  page.quote(std::string{to_string(failure.kind)} + ": " + failure.what);
  page.quote(failure.log);
  page.say("The schedule is text, for a bug report; and this shows that very run again:");
  page.quote("weft::replay(\"" + failure.schedule + "\", test)");
  std::string again;
  try {
    replay(failure.schedule, [] { sell_the_last_chair(true); });
  } catch (const std::runtime_error& error) {
    again = error.what();
  }
  expect(again == failure.what, "the replay went another way");
  page.quote(again);
}

void see_that_it_is_gone(Page& page) {
  page.say("Mended: it takes the chair away first. Now all schedules with up to two preemptions:");
  const Report report = explore({.runs = 0,
                                 .schedule = Schedule::exhaustive,
                                 .preemptions = 2,
                                 .progress = weft::Progress::never,
                                 .print = false},
                                [] { sell_the_last_chair(false); });
  expect(static_cast<bool>(report), "the mended shop fails");
  expect(report.complete, "not all schedules were tried");
  const double taken = std::chrono::duration<double>(report.elapsed).count();
  page.figure("schedules tried, failures", number(report.runs) + ", " + number(report.failures));
  page.figure("schedules a second", rounded(static_cast<double>(report.runs) / taken));
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
  see_that_it_is_gone(page);
  let_time_fly(page);
}

}  // namespace weft::tour
