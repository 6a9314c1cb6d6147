// GNU Pth peer (single kernel thread). usage: pth <workload> 1
#include <pth.h>
#include "bench.hpp"

static int per;
static void* yielder(void*) {
  for (int j = 0; j < per; ++j) pth_yield(nullptr);
  return nullptr;
}
static void* empty(void*) { return nullptr; }
static void yields(int n, int total) {
  per = total / n;
  std::vector<pth_t> v;
  auto t = clk::now();
  for (int i = 0; i < n; ++i) v.push_back(pth_spawn(PTH_ATTR_DEFAULT, yielder, nullptr));
  for (auto x : v) pth_join(x, nullptr);
  per_op("yield_" + std::to_string(n), t, total);
}
int main(int, char** argv) {
  std::string w = argv[1];
  pth_init();
  if (w == "yield") {
    yields(1, 100000);
    yields(1000, 100000);
  } else if (w == "spawn") {
    constexpr int seq = 50000;
    auto t = clk::now();
    for (int i = 0; i < seq; ++i) pth_join(pth_spawn(PTH_ATTR_DEFAULT, empty, nullptr), nullptr);
    per_op("spawn_seq", t, seq);
  } else
    return 2;
  std::_Exit(0);
}
