// oneTBB peer (tasks only, no blocking). usage: tbb <workload> <workers>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include "bench.hpp"

static long fib(long n) {
  if (n < 2) return n;
  long a, b;
  tbb::task_group g;
  g.run([&] { a = fib(n - 1); });
  b = fib(n - 2);
  g.wait();
  return a + b;
}
int main(int, char** argv) {
  std::string w = argv[1];
  int n = std::atoi(argv[2]);
  tbb::global_control gc(tbb::global_control::max_allowed_parallelism, n);
  tbb::task_arena arena(n);
  arena.execute([&] {
    if (w == "spawn") {
      constexpr int seq = 300000, batch = 100000;
      tbb::task_group g;
      auto t = clk::now();
      for (int i = 0; i < seq; ++i) {
        g.run([] {});
        g.wait();
      }
      per_op("spawn_seq", t, seq);
      for (auto m : {"spawn_batch_cold", "spawn_batch"}) {
        t = clk::now();
        for (int i = 0; i < batch; ++i) g.run([] {});
        g.wait();
        per_op(m, t, batch);
      }
    } else if (w == "fib") {
      auto t = clk::now();
      fib(25);
      per_op("fib_25", t, 121392);
    } else if (w == "fib30") {
      auto t = clk::now();
      fib(30);
      per_op("fib_30", t, 1346268);
    } else
      std::_Exit(2);
  });
}
