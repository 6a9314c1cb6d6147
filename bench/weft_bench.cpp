// weft's side of the workloads: `weft-bench <workload> <workers>` prints "metric value unit" lines.
// Exit status 2: a workload this version does not offer.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using RealClock = std::chrono::steady_clock;

void emit(const std::string& metric, double value, const char* unit) {
  std::printf("%s %.6g %s\n", metric.c_str(), value, unit);
}

template <class F>
double seconds(F&& f) {
  const auto begin = RealClock::now();
  f();
  return std::chrono::duration<double>(RealClock::now() - begin).count();
}

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "weft-bench: wrong result: %s\n", what);
  std::exit(1);
}

void yields(int fibers, long total) {
  long done = 0;
  const double s = seconds([&] {
    weft::nursery([&](weft::Nursery& n) {
      for (int i = 0; i < fibers; ++i)
        n.spawn([&done, rounds = total / fibers] {
          for (long j = 0; j < rounds; ++j) weft::this_fiber::yield();
          done += rounds;
        });
    });
  });
  expect(done == total, "yields");
  emit("yield_" + std::to_string(fibers), s * 1e9 / static_cast<double>(total), "ns");
}

void spawn_one_by_one(long total) {
  long ran = 0;
  const double s = seconds([&] {
    for (long i = 0; i < total; ++i)
      weft::nursery([&](weft::Nursery& n) { n.spawn([&ran] { ++ran; }); });
  });
  expect(ran == total, "spawn_seq");
  emit("spawn_seq", s * 1e9 / static_cast<double>(total), "ns");
}

void spawn_batch(const char* metric, long total) {
  long ran = 0;
  const double s = seconds([&] {
    weft::nursery([&](weft::Nursery& n) {
      for (long i = 0; i < total; ++i) n.spawn([&ran] { ++ran; });
    });
  });
  expect(ran == total, metric);
  emit(metric, s * 1e9 / static_cast<double>(total), "ns");
}

// Two fibers that wake each other through events: one round trip is two parks and two wakes.
void event_ping_pong(long rounds) {
  weft::Event there, back;
  const double s = seconds([&] {
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([&, rounds] {
        for (long i = 0; i < rounds; ++i) {
          there.wait();
          there.reset();
          back.set();
        }
      });
      for (long i = 0; i < rounds; ++i) {
        there.set();
        back.wait();
        back.reset();
      }
    });
  });
  emit("event_pingpong", s * 1e9 / static_cast<double>(rounds), "ns");
}

bool run_workload(std::string_view workload) {
  if (workload == "yield") {
    yields(1, 10'000'000);
    yields(1000, 10'000'000);
  } else if (workload == "spawn") {
    spawn_one_by_one(3'000'000);
    spawn_batch("spawn_batch_cold", 100'000);
    for (int i = 0; i < 4; ++i) spawn_batch("spawn_batch", 100'000);
  } else if (workload == "event") {
    event_ping_pong(2'000'000);
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: weft-bench yield|spawn|event [workers]\n");
    return 2;
  }
  const unsigned workers = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  if (workers > 1) return 2;
  weft::FiberIo io{weft::Options{.workers = workers}};
  return io.run([&] { return run_workload(argv[1]); }) ? 0 : 2;
}
