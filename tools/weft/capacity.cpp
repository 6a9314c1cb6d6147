#include "capacity.hpp"

#include "page.hpp"

#include <weft/arch/stack.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace weft::tour {

double number_after(const char* file, std::string_view wanted) {
  std::ifstream text{file};
  double number = 0;
  for (std::string word; text >> word;)
    if (word == wanted && text >> number) return number;
  return 0;
}

bool has_kernel_guards() {
  arch::StackPool pool;
  arch::Stack* const stack = pool.take();
  if (!stack) throw Surprise{pool.why()};
  pool.give(*stack);
  return pool.statistics().guards == arch::Guards::kernel;
}

namespace {

double memory_to_spare() {
  double bytes = 1024 * number_after("/proc/meminfo", "MemAvailable:");
  std::ifstream limit{"/sys/fs/cgroup/memory.max"};
  if (double most = 0; limit >> most) bytes = std::min(bytes, most);  // or it says "max"
  return bytes;
}

}  // namespace

// Six kilobytes each are more than they take.
long affordable(long wanted) {
  return std::clamp(static_cast<long>(memory_to_spare() / 2 / 6144), 100L, wanted);
}

double resident_bytes() { return 1024 * number_after("/proc/self/status", "VmRSS:"); }

long open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return std::distance(begin(all), end(all));
}

}  // namespace weft::tour
