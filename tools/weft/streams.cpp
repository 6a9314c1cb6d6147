#include "tour.hpp"

#include <weft/weft.hpp>

#include <cstdint>
#include <string>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;

constexpr int kSteps = 10;
constexpr auto plus_one = [](long v) { return v + 1; };

// Ten steps one after another: written in one expression they share a fiber, …
double in_one_fiber(Progress& bar, long count) {
  long arrived = 0;
  bool right = true;
  FiberIo io;
  const double taken = seconds([&] {
    io.run([&] {
      nursery([&](Nursery& n) {
        const auto five = map(plus_one) | map(plus_one) | map(plus_one) | map(plus_one) |
                          map(plus_one);
        stream(n, iota(0L, count)) | five | five | buffer(64) | for_each([&](long v) {
          right = right && v == arrived + kSteps;
          if (++arrived % 10'000 == 0) bar.show(arrived, 2 * count);
        });
      });
    });
  });
  expect(arrived == count && right, "a value was lost, or was not what it should be");
  return taken;
}

// … and with a channel behind each they have ten.
double in_ten_fibers(Progress& bar, long count) {
  long arrived = 0;
  FiberIo io;
  const double taken = seconds([&] {
    io.run([&] {
      nursery([&](Nursery& n) {
        Receiver<long> rx = stream(n, iota(0L, count)) | buffer(64) | out();
        for (int i = 0; i < kSteps; ++i)
          rx = stream(n, std::move(rx)) | map(plus_one) | buffer(64) | out();
        while (rx.recv())
          if (++arrived % 10'000 == 0) bar.show(count + arrived, 2 * count);
      });
    });
  });
  expect(arrived == count, "a value was lost");
  return taken;
}

void ten_steps(Page& page, long count) {
  Progress bar{page, "of " + grouped(2 * count) + " values through ten steps"};
  const double fused = in_one_fiber(bar, count);
  const double apart = in_ten_fibers(bar, count);
  bar.clear();
  const auto all = static_cast<double>(count * kSteps);
  page.figure("a value and a step, all ten in one fiber", fused * 1e9 / all, "ns");
  page.figure("the same, each in a fiber of its own", apart * 1e9 / all, "ns");
}

// Work that takes about 20 us, of which nothing can be left out.
std::uint64_t grind(std::uint64_t v) {
  for (int i = 0; i < 10'000; ++i) v = v * 6364136223846793005 + 1442695040888963407;
  return v;
}

// In the order of the input, whoever is done first.
void on_all_cores(Page& page, long count) {
  const auto ground = [&](unsigned workers) {
    std::uint64_t sum = 0;
    FiberIo io{{.workers = workers}};
    const unsigned width = 2 * io.options().workers;
    const double taken = seconds([&] {
      io.run([&] {
        nursery([&](Nursery& n) {
          stream(n, iota(0L, count)) |
              par_map(width, [](long v) { return grind(static_cast<std::uint64_t>(v)); }) |
              for_each([&](std::uint64_t v) { sum = sum * 31 + v; });
        });
      });
    });
    return std::pair{taken, sum};
  };
  const auto [one, sum_of_one] = ground(1);
  const auto [all, sum_of_all] = ground(0);
  expect(sum_of_one == sum_of_all, "par_map changed the order, or a result");
  page.figure(grouped(count) + " pieces of work on one core", one * 1e3, "ms");
  page.figure("on all of them, results in the same order", all * 1e3, "ms");
}

// An endless source, of which somebody wants a few.
void cut_short(Page& page) {
  std::size_t fibers = 1;
  long sum = 0;
  FiberIo io;
  io.run([&] {
    nursery([&](Nursery& n) {
      stream(n, iota(1L)) | where([](long v) { return v % 7 == 0; }) | buffer(8) |
          map([](long v) { return v * v; }) | weft::take(5) | for_each([&](long v) { sum += v; });
      while (n.live() != 0) this_fiber::yield();  // they end by themselves
      fibers = n.live();
    });
  });
  expect(sum == 49 * (1 + 4 + 9 + 16 + 25), "the wrong five");
  page.figure("of an endless source, five taken; fibers left", grouped(static_cast<long>(fibers)));
}

}  // namespace

void streams(Page& page) {
  page.say("Steps that never wait are joined into one loop; a buffer, and they run side by side:");
  ten_steps(page, at_most(1'000'000, 50'000, 5'000));
  page.say("par_map calls a function for many values at once, and keeps their order:");
  on_all_cores(page, at_most(20'000, 2'000, 200));
  page.say("When nobody wants any more, everything upstream ends, an endless source included:");
  cut_short(page);
}

}  // namespace weft::tour
