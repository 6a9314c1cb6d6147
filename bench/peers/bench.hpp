// shared by the C and C++ peers: timing, RSS, output ("metric value unit")
#pragma once
#include <sys/resource.h>
#include <unistd.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using clk = std::chrono::steady_clock;
inline void emit(const std::string& m, double v, const char* u) {
  std::printf("%s %.6g %s\n", m.c_str(), v, u);
  std::fflush(stdout);
}
inline double secs(clk::time_point t) {
  return std::chrono::duration<double>(clk::now() - t).count();
}
inline void per_op(const std::string& m, clk::time_point t, double n) {
  emit(m, secs(t) * 1e9 / n, "ns");
}
inline void msec(const std::string& m, clk::time_point t) { emit(m, secs(t) * 1e3, "ms"); }
inline double rss() {
  long a = 0, b = 0;
  FILE* f = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(f, "%ld %ld", &a, &b) != 2) std::abort();
  std::fclose(f);
  return double(b) * sysconf(_SC_PAGESIZE);
}
inline double page_tables() {
  FILE* f = std::fopen("/proc/self/status", "r");
  char line[256];
  long kib = 0;
  while (std::fgets(line, sizeof line, f) && std::sscanf(line, "VmPTE: %ld", &kib) != 1) {
  }
  std::fclose(f);
  return double(kib) * 1024;
}
inline double peak_mib() {
  rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_maxrss / 1024.0;
}
inline double cpu() {
  rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}
struct Rng {  // xorshift64
  uint64_t s = 88172645463325252ull;
  uint64_t below(uint64_t n) {
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s % n;
  }
};
inline void report_lateness(const std::vector<double>& late, double cpu0) {
  double sum = 0, max = 0;
  for (double l : late) {
    sum += l;
    if (l > max) max = l;
  }
  emit("sleep_cpu", (cpu() - cpu0) * 1e3, "ms");
  emit("sleep_late_mean", sum / late.size(), "ms");
  emit("sleep_late_max", max, "ms");
}
