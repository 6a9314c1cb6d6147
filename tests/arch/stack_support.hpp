// What the tests of stacks share: looking at memory, and taking many.
#pragma once

#include <weft/arch/stack.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::arch {

inline constexpr std::size_t kKiB = 1024;
inline const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

inline std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

// Whether the kernel finds a byte to read at `address`; asking it is safe where looking is not.
inline bool is_readable(const std::byte* address) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const bool readable = ::write(ends[1], address, 1) == 1;
  const int error = errno;
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_TRUE(readable || error == EFAULT);
  return readable;
}

inline std::size_t pages_in_memory(const Stack& stack) {
  const std::size_t pages = (stack.bytes() + kPage - 1) / kPage;
  std::vector<unsigned char> in_memory(pages);
  EXPECT_EQ(::mincore(stack.limit, pages * kPage, in_memory.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(in_memory.begin(), in_memory.end(), [](auto bits) { return bits & 1U; }));
}

// Writes to every page from the top down to `bytes` below it.
inline void touch(Stack& stack, std::size_t bytes) {
  for (std::size_t depth = 1; depth <= bytes; depth += kPage)
    stack.top[-std::ptrdiff_t(depth)] = {};
  stack.top[-std::ptrdiff_t(bytes)] = {};
}

inline std::size_t count_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t count = 0;
  while (std::getline(maps, line)) ++count;
  return count;
}

inline std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * kPage;
}

inline std::size_t max_map_count() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  std::size_t count = 0;
  file >> count;
  return count;
}

inline bool kernel_guards_exist() {
  StackPool pool({.guards = Guards::kernel});
  Stack* const stack = pool.take();
  if (stack != nullptr) pool.give(*stack);
  return stack != nullptr;
}

inline std::vector<Stack*> take_many(StackPool& pool, std::size_t count) {
  std::vector<Stack*> stacks;
  while (stacks.size() < count) {
    Stack* const stack = pool.take();
    if (stack == nullptr) break;
    stacks.push_back(stack);
  }
  return stacks;
}

inline void give_all(StackPool& pool, std::vector<Stack*>& stacks) {
  for (Stack* stack : stacks) pool.give(*stack);
  stacks.clear();
}

}  // namespace weft::arch
