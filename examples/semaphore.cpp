// At most three at a time: a semaphore's permit goes back on every path out of the block.
#include <weft/weft.hpp>

#include <algorithm>
#include <cstdio>
#include <mutex>

using namespace std::chrono_literals;

int main() {
  weft::SimIo io{{.seed = 5}};
  io.run([] {
    weft::Semaphore slots{3};  // at most three downloads at once
    weft::Mutex m;
    int active = 0, peak = 0, done = 0;

    weft::nursery([&](weft::Nursery& n) {
      for (int i = 0; i < 20; ++i)
        n.spawn([&] {
          auto permit = slots.permit();  // returned on every path, cancellation included
          {
            std::scoped_lock lock{m};
            peak = std::max(peak, ++active);
          }
          weft::sleep_for(10ms);
          std::scoped_lock lock{m};
          --active;
          ++done;
        });
    });
    std::printf("%d done, peak %d\n", done, peak);
  });
}
