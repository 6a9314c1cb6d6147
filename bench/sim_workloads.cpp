// The simulator: W19. One thread whatever the number of workers, so it is measured with one only.
#include "workloads.hpp"

#include <weft/weft.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace weft::bench {
namespace {

using namespace std::chrono_literals;

// Steps per second of a program under the random scheduler, with switches at every operation.
template <class F>
void steps(const char* metric, F program) {
  SimIo io{{.seed = 1, .preempt = true}};
  const double s = seconds([&] { io.run(program); });
  emit(metric, static_cast<double>(io.steps()) / s, "steps/s");
}

// Threads that count under a lock.
void mutex_steps() {
  constexpr long kFibers = 20;
  const long rounds = scaled(20'000);
  long count = 0;
  steps("sim_mutex", [&] {
    Mutex shared;
    nursery([&](Nursery& n) {
      for (long i = 0; i < kFibers; ++i)
        n.spawn([&] {
          for (long k = 0; k < rounds; ++k) {
            const std::scoped_lock lock{shared};
            ++count;
          }
        });
    });
  });
  expect(count == kFibers * rounds, "sim_mutex");
}

// A bounded buffer between some that produce and some that consume.
void channel_steps() {
  constexpr long kProducers = 3;
  constexpr long kConsumers = 2;
  const long items = scaled(100'000);
  long sum = 0;
  steps("sim_channel", [&] {
    Channel<long> buffer{10};
    nursery([&](Nursery& n) {
      for (long i = 0; i < kProducers; ++i)
        n.spawn([&, tx = buffer.tx] {
          for (long k = 0; k < items; ++k)
            if (!tx.send(1)) return;
        });
      for (long i = 0; i < kConsumers; ++i)
        n.spawn([&, rx = buffer.rx] {
          for (const long item : rx) sum += item;
        });
      buffer.tx = {};
    });
  });
  expect(sum == kProducers * items, "sim_channel");
}

void sleeps() {
  const long count = scaled(1'000'000);
  SimIo io;
  const double s = seconds([&] {
    io.run([&] {
      for (long i = 0; i < count; ++i) sleep_for(1h);
    });
  });
  expect(io.now() == Instant{count * 1h}, "sim_sleep");
  emit("sim_sleep", each(s, count), "ns");
}

// A thousand simulated hours, a tick every second.
void ticker() {
  const long hours = scaled(1000);
  long ticks = 0;
  SimIo io;
  const double s = seconds([&] {
    io.run([&] {
      Ticker clock{1s};
      for (; ticks < hours * 3600; ++ticks) clock.next();
    });
  });
  expect(io.now() == Instant{hours * 1h}, "sim_ticker");
  emit("sim_ticker", s * 1e3, "ms");
}

// Schedules per second of a program with ten thousand fibers that are there at the same time.
void schedules() {
  const long fibers = scaled(10'000);
  const auto runs = static_cast<std::uint64_t>(scaled(40));
  const Report report =
      explore({.runs = runs, .twice = 0, .progress = Progress::never, .print = false}, [&] {
        Latch all{static_cast<std::size_t>(fibers)};
        long count = 0;
        nursery([&](Nursery& n) {
          for (long i = 0; i < fibers; ++i)
            n.spawn([&] {
              all.arrive_and_wait();
              ++count;
            });
        });
        expect(count == fibers, "sim_explore");
      });
  expect(report && report.runs == runs, "sim_explore: every run");
  const double s = std::chrono::duration<double>(report.elapsed).count();
  emit("sim_explore", static_cast<double>(report.runs) / s, "runs/s");
}

}  // namespace

bool run_sim_workload(std::string_view workload, unsigned workers) {
  if (workload != "sim") return false;
  if (workers != 1) return true;
  mutex_steps();
  channel_steps();
  sleeps();
  ticker();
  schedules();
  return true;
}

}  // namespace weft::bench
