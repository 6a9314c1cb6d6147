// Every worker blocked by code that nobody asked: the others run on.
#include <weft/weft.hpp>

#include <atomic>
#include <cstdio>
#include <thread>

using namespace std::chrono_literals;

// It waits in the kernel, and knows nothing of fibers.
void legacy_flush() { std::this_thread::sleep_for(30ms); }

void flush_politely() {
  const weft::blocking_hint hint;
  legacy_flush();  // a moment, as a rule
}

int main() {
  weft::FiberIo io{{.workers = 2}};
  std::atomic<int> flushed{0};
  int beats = 0;
  io.run([&] {
    weft::nursery([&](weft::Nursery& n) {
      for (int i = 0; i < 2; ++i)  // as many as there are workers
        n.spawn([&, i] {
          i % 2 == 0 ? flush_politely() : legacy_flush();
          ++flushed;
        });
      do {
        weft::sleep_for(1ms);
        ++beats;
      } while (flushed < 2);
    });
  });
  std::printf("flushed %d, and the heart beat%s\n", flushed.load(), beats > 0 ? " on" : " no more");
  std::printf("at most %u workers\n", io.options().max_workers);
}
