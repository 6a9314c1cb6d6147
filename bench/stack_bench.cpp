// What stacks cost: taken warm, made new and guarded, visited in turn, kept by parked fibers.
//
//   stack_bench [stacks]     default 100000; 1000000 needs some 5 GB of memory
#include <weft/arch/stack.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

using weft::arch::Guards;
using weft::arch::OnRelease;
using weft::arch::Stack;
using weft::arch::StackOptions;
using weft::arch::StackPool;
using Clock = std::chrono::steady_clock;

double nanoseconds_each(Clock::time_point from, std::size_t count) {
  const std::chrono::duration<double, std::nano> taken = Clock::now() - from;
  return taken.count() / static_cast<double>(count);
}

// The best of `rounds`: the others were disturbed.
template <class Round>
double best_of(int rounds, Round round) {
  double best = round();
  for (int i = 1; i < rounds; ++i) best = std::min(best, round());
  return best;
}

std::size_t status_kib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == key) {
      std::size_t value = 0;
      status >> value;
      return value;
    }
  return 0;
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

Stack& taken(StackPool& pool) {
  Stack* const stack = pool.take();
  if (stack == nullptr) {
    std::fprintf(stderr, "stack_bench: %s\n", pool.why().c_str());
    std::exit(1);
  }
  return *stack;
}

std::vector<Stack*> take_many(StackPool& pool, std::size_t count) {
  std::vector<Stack*> stacks(count);
  for (Stack*& stack : stacks) stack = &taken(pool);
  return stacks;
}

void give_all(StackPool& pool, const std::vector<Stack*>& stacks) {
  for (Stack* stack : stacks) pool.give(*stack);
}

void bench_warm() {
  StackPool pool({.on_release = OnRelease::keep});
  constexpr std::size_t kRounds = 10'000'000;
  pool.give(taken(pool));
  std::printf("%-58s %10.2f ns\n", "take + give, warm", best_of(5, [&] {
                const auto from = Clock::now();
                for (std::size_t i = 0; i < kRounds; ++i) {
                  Stack& stack = taken(pool);
                  asm volatile("" ::"r"(&stack) : "memory");
                  pool.give(stack);
                }
                return nanoseconds_each(from, kRounds);
              }));

  constexpr std::size_t kBatch = 1000;
  std::printf("%-58s %10.2f ns\n", "take + give, 1000 at a time, warm", best_of(5, [&] {
                const auto from = Clock::now();
                for (int i = 0; i < 1000; ++i) give_all(pool, take_many(pool, kBatch));
                return nanoseconds_each(from, 1000 * kBatch);
              }));
}

void bench_new(const char* name, Guards guards, std::size_t count) {
  StackPool probe({.guards = guards});
  if (Stack* const stack = probe.take(); stack == nullptr) {
    std::printf("%-58s %s\n", name, probe.why().c_str());
    return;
  } else {
    probe.give(*stack);
  }
  std::printf("%-58s %10.0f ns\n", name, best_of(3, [&] {
                StackPool pool({.guards = guards, .on_release = OnRelease::keep});
                const auto from = Clock::now();
                const std::vector<Stack*> stacks = take_many(pool, count);
                const double each = nanoseconds_each(from, count);
                give_all(pool, stacks);
                return each;
              }));
}

// What a worker feels that goes round many fibers: cache and TLB misses at the tops of stacks.
void bench_visits(const std::string& name, std::vector<void**> slots) {
  // A ring of pointers in random order: each visit waits for the one before.
  std::shuffle(slots.begin(), slots.end(), std::mt19937(1));
  for (std::size_t i = 0; i < slots.size(); ++i) *slots[i] = slots[(i + 1) % slots.size()];
  std::printf("%-58s %10.2f ns\n", name.c_str(), best_of(5, [&] {
                constexpr std::size_t kVisits = 2'000'000;
                void** at = slots[0];
                const auto from = Clock::now();
                for (std::size_t i = 0; i < kVisits; ++i) at = static_cast<void**>(*at);
                asm volatile("" ::"r"(at) : "memory");
                return nanoseconds_each(from, kVisits);
              }));
}

constexpr std::size_t kVisited = 1000;

void bench_pool_visits(unsigned colours) {
  StackPool pool({.on_release = OnRelease::keep, .colours = colours});
  const std::vector<Stack*> stacks = take_many(pool, kVisited);
  std::vector<void**> slots;
  for (Stack* stack : stacks) slots.push_back(reinterpret_cast<void**>(stack->top - 128));
  bench_visits("visit one of 1000 stacks, " + std::to_string(colours) + " colours", slots);
  give_all(pool, stacks);
}

// Why a pool's cells are an odd number of pages.
void bench_cell_visits(std::size_t pages) {
  const std::size_t cell = pages * 4096;
  const std::size_t bytes = kVisited * cell;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  std::vector<void**> slots;
  for (std::size_t i = 0; i < kVisited; ++i) {
    std::byte* const top = static_cast<std::byte*>(memory) + (i + 1) * cell - i % 48 * 64;
    slots.push_back(reinterpret_cast<void**>(top - 128));
  }
  bench_visits("visit one of 1000 cells of " + std::to_string(pages) + " pages, 48 colours", slots);
  ::munmap(memory, bytes);
}

void bench_parked(std::size_t count) {
  const std::size_t resident = status_kib("VmRSS:");
  const std::size_t tables = status_kib("VmPTE:");
  const std::size_t maps = mappings();
  StackPool pool({.on_release = OnRelease::keep});
  std::vector<Stack*> stacks(count);
  const std::size_t bookkeeping = count * sizeof(Stack*);
  const auto from = Clock::now();
  for (Stack*& stack : stacks) {
    stack = &taken(pool);
    stack->top[-512] = std::byte{1};
  }
  const double each = nanoseconds_each(from, count);
  const auto bytes_each = [&](std::size_t kib, std::size_t less) {
    return static_cast<double>(kib * 1024 - less) / static_cast<double>(count);
  };
  std::printf("%zu guarded stacks, one page of each touched:\n", count);
  std::printf("%-58s %10.0f ns\n", "  made and touched", each);
  std::printf("%-58s %10.0f B\n", "  resident, each",
              bytes_each(status_kib("VmRSS:") - resident, bookkeeping));
  std::printf("%-58s %10.0f B\n", "  page tables, each",
              bytes_each(status_kib("VmPTE:") - tables, 0));
  std::printf("%-58s %10zu\n", "  mappings", mappings() - maps);
  const auto back = Clock::now();
  give_all(pool, stacks);
  std::printf("%-58s %10.1f ns\n", "  given back, each", nanoseconds_each(back, count));
  const auto trimming = Clock::now();
  pool.trim();
  std::printf("%-58s %10.1f ns\n", "  trimmed, each", nanoseconds_each(trimming, count));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100'000;
  if (count == 0) {
    std::fprintf(stderr, "usage: stack_bench [stacks]\n");
    return 2;
  }
  bench_warm();
  bench_new("new stack, kernel guards", Guards::kernel, 50'000);
  bench_new("new stack, mprotect guards", Guards::mprotect, 10'000);
  bench_pool_visits(1);
  bench_pool_visits(48);
  bench_cell_visits(80);
  bench_cell_visits(81);
  bench_parked(count);
}
