// Jobs whose failures do not stop the others, and a shutdown that asks before it insists.
#include <weft/weft.hpp>

#include <cstdio>
#include <stdexcept>

using namespace std::chrono_literals;

namespace {

// Three jobs; two fail. With `collect`, all run to their ends, and all failures come back.
void nightly_jobs() {
  try {
    weft::nursery({.name = "jobs", .on_error = weft::ErrorPolicy::collect}, [](weft::Nursery& n) {
      n.spawn("backup", [] {
        weft::sleep_for(1min);
        throw std::runtime_error{"backup: no space left"};
      });
      n.spawn("report", [] {
        weft::sleep_for(2min);
        std::puts("report: sent");
      });
      n.spawn("index", [] {
        weft::sleep_for(3min);
        throw std::runtime_error{"index: checksum is wrong"};
      });
    });
  } catch (const weft::ChildErrors& failed) {
    std::puts(failed.what());
    for (const std::exception_ptr& one : failed.errors()) {
      try {
        std::rethrow_exception(one);
      } catch (const std::exception& error) {
        std::printf("- %s\n", error.what());
      }
    }
  }
}

// Ends between two items of work when it is asked to, in the middle of one when it must.
void worker(const char* name, weft::Duration item) {
  struct Log {
    const char* name;
    int done = 0;
    ~Log() { std::printf("%s: %d items\n", name, done); }
  } log{name};
  while (!weft::this_fiber::stopping()) {
    weft::sleep_for(item);
    ++log.done;
  }
  std::printf("%s: put its things away\n", name);
}

void shutdown() {
  weft::nursery({.name = "workers"}, [](weft::Nursery& n) {
    n.spawn([] { worker("swift", 10s); });
    n.spawn([] { worker("slow", 1h); });
    weft::sleep_for(95s);
    n.cancel(30s);  // stopping() is true from now on; those who still run in 30 s are cancelled
  });
}

}  // namespace

int main() {
  weft::SimIo io;  // in virtual time
  io.run([] {
    nightly_jobs();
    shutdown();
    std::printf("elapsed %lld s of virtual time\n",
                static_cast<long long>(weft::Clock::now().time_since_epoch() / 1s));
  });
}
