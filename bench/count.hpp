// What the programs count_*.cpp share: `count_yield N` does the operation N times, and `--build`
// says what was built, because a count belongs to one compiler.
//
// instruction_counts.py runs them under callgrind with two values of N; the difference is the price
// of the operation, and everything that happens once cancels out.
#pragma once

#include <weft/core/spec.hpp>
#include <weft/weft.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace weft::bench {

inline int print_build() {
#if defined(__clang__)
  std::printf("clang++-%d", __clang_major__);
#else
  std::printf("g++-%d", __GNUC__);
#endif
#if defined(__x86_64__)
  std::printf("-x86_64");
#elif defined(__aarch64__)
  std::printf("-aarch64");
#endif
#if !defined(__OPTIMIZE__) || !defined(NDEBUG)
  std::printf("-unoptimised");
#endif
  std::printf("%s\n", spec::kSpecAssert ? "-checked" : "");
  return 0;
}

// `operation(n)` is called once, inside an engine, and does its thing n times.
template <class Operation>
int count_main(int argc, char** argv, Operation operation) {
  if (argc == 2 && std::string_view{argv[1]} == "--build") return print_build();
  char* end = nullptr;
  errno = 0;
  const long n = argc == 2 ? std::strtol(argv[1], &end, 10) : 0;
  if (n <= 0 || errno != 0 || *end != '\0') {
    std::fprintf(stderr, "usage: %s N | --build\n", argv[0]);
    return 2;
  }
  FiberIo io{{.workers = 1}};
  const bool right = io.run([&] { return operation(n); });
  if (!right) std::fprintf(stderr, "%s: wrong result\n", argv[0]);
  return right ? 0 : 1;
}

}  // namespace weft::bench
