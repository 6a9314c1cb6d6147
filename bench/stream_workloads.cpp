// Streams: a pipeline of ten stages, fused and not; work on several values at once.
#include "workloads.hpp"

#include <weft/weft.hpp>

#include <cstdint>

namespace weft::bench {
namespace {

using Value = std::uint64_t;

constexpr int kStages = 10;

constexpr auto step = [](Value v) { return v + 1; };

// ── W22 ─────────────────────────────────────────────────────────────────────────────────────────

// Values through ten steps, which `build(n, rx)` puts behind a source.
template <class Build>
void pipeline(const char* metric, long items, Build build) {
  Value sum = 0;
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      Channel<Value> in{128};
      n.spawn([tx = std::move(in.tx), items] {
        for (long i = 0; i < items; ++i)
          if (!tx.send(static_cast<Value>(i))) return;
      });
      const Receiver<Value> rx = build(n, std::move(in.rx));
      while (const auto v = rx.recv()) sum += *v;
    });
  });
  const auto count = static_cast<Value>(items);
  expect(sum == count * (count - 1) / 2 + count * kStages, metric);
  emit(metric, each(s, items * kStages), "ns");
}

Receiver<Value> all_in_one_fiber(Nursery& n, Receiver<Value> rx) {
  const auto five = map(step) | map(step) | map(step) | map(step) | map(step);
  return stream(n, std::move(rx)) | five | five | buffer(128) | out();
}

// With room for 128 values before the next.
Receiver<Value> each_in_its_own(Nursery& n, Receiver<Value> rx) {
  for (int i = 0; i < kStages; ++i)
    rx = stream(n, std::move(rx)) | map(step) | buffer(128) | out();
  return rx;
}

// ── W23 ─────────────────────────────────────────────────────────────────────────────────────────

// About 10 us, by its own clock.
Value ten_microseconds(Value v) {
  const auto until = RealClock::now() + std::chrono::microseconds{10};
  while (RealClock::now() < until) {}
  return v + 1;
}

void in_parallel(long items) {
  constexpr std::size_t kWidth = 4;
  Value next = 0;
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      stream(n, iota(Value{0}, static_cast<Value>(items))) | par_map(kWidth, ten_microseconds) |
          for_each([&next](Value v) { expect(v == ++next, "par_map, in order"); });
    });
  });
  expect(next == static_cast<Value>(items), "par_map");
  emit("par_map", each(s, items), "ns");
}

}  // namespace

bool run_stream_workload(std::string_view workload) {
  if (workload == "pipeline") {
    pipeline("pipe_fused", scaled(1'000'000), all_in_one_fiber);
    pipeline("pipe_stages", scaled(1'000'000), each_in_its_own);
  } else if (workload == "parmap") {
    in_parallel(scaled(20'000));
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::bench
