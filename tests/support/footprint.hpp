// What the process holds: threads, descriptors, mappings.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace weft::testing {

[[nodiscard]] inline std::size_t entries_of(const char* directory) {
  const std::filesystem::directory_iterator all{directory};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}
[[nodiscard]] inline std::size_t threads_now() { return entries_of("/proc/self/task"); }
[[nodiscard]] inline std::size_t descriptors_now() { return entries_of("/proc/self/fd"); }
[[nodiscard]] inline std::size_t mappings_now() {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

// Threads, once the kernel has taken those away that were joined: that is soon, but not at once.
[[nodiscard]] inline std::size_t threads_in_the_end(std::size_t expected) {
  for (int looks = 0; looks < 10'000 && threads_now() != expected; ++looks)
    std::this_thread::yield();
  return threads_now();
}

}  // namespace weft::testing
