// What the workloads of weft-bench share, and those that are in files of their own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
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

// Of seconds, not of counts: with tiny counts a twentieth of it, to see that it runs.
inline RealClock::duration lasting(RealClock::duration full) {
  return scale < 1 ? full / 20 : full;
}

// Of all threads of this process.
inline double cpu_seconds() {
  std::timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

struct Memory {
  double resident = 0;     // bytes
  double page_tables = 0;  // bytes

  static Memory now() {
    Memory seen;
    std::ifstream status{"/proc/self/status"};
    for (std::string word; status >> word;) {
      if (word == "VmRSS:") status >> seen.resident;
      if (word == "VmPTE:") status >> seen.page_tables;
    }
    seen.resident *= 1024;
    seen.page_tables *= 1024;
    return seen;
  }
};

// What cannot be measured here, for a reason that is not weft's.
class NotHere : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Each knows some workloads; false: not this one.
bool run_flow_workload(std::string_view workload);  // channels and select
bool run_lock_workload(std::string_view workload);  // locks
bool run_stream_workload(std::string_view workload);
bool run_robust_workload(std::string_view workload, unsigned workers);  // outside of any engine
bool run_sim_workload(std::string_view workload, unsigned workers);     // so is this
// And this. Servers listen on `port`; 0: on one that the system chooses.
bool run_net_workload(std::string_view workload, unsigned workers, std::uint16_t port);

}  // namespace weft::bench
