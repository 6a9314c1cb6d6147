// What the workloads of weft-bench share, and those that are in files of their own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::bench {

using RealClock = std::chrono::steady_clock;

class WrongResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void expect(bool right, const std::string& what) {
  if (!right) throw WrongResult{"wrong result: " + what};
}

inline void emit(const std::string& metric, double value, const char* unit) {
  std::printf("%s %.6g %s\n", metric.c_str(), value, unit);
}

template <class F>
double seconds(F&& f) {
  const auto begin = RealClock::now();
  f();
  return std::chrono::duration<double>(RealClock::now() - begin).count();
}

inline double each(double seconds_of_all, long count) {
  return seconds_of_all * 1e9 / static_cast<double>(count);
}

inline double scale = 1;

inline long scaled(long count) {
  return std::max(1L, static_cast<long>(static_cast<double>(count) * scale));
}

// Each knows some workloads; false: not this one.
bool run_flow_workload(std::string_view workload);  // channels and select
bool run_lock_workload(std::string_view workload);  // locks
bool run_stream_workload(std::string_view workload);
bool run_robust_workload(std::string_view workload, unsigned workers);  // outside of any engine
bool run_sim_workload(std::string_view workload, unsigned workers);     // so is this

}  // namespace weft::bench
