// A fiber that computes and never gives way, and how one hears of it.
#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>

using namespace std::chrono_literals;

int main() {
  std::atomic<bool> reported{false};

  // Without a hook, finding.text goes to standard error.
  weft::set_stall_hook([&](const weft::Finding& finding) {
    std::printf("fiber \"%s\" does not give way\n", std::string{finding.name}.c_str());
    reported = true;
  });

  weft::FiberIo io{{.workers = 2, .stall_report_after = 20ms}};
  io.run([&] {
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("polite", [&] {
        while (!reported) weft::sleep_for(1ms);
      });
      n.spawn("checksum", [&] {
        while (!reported) {  // computes, and asks weft for nothing
        }
      });
    });
  });
  weft::set_stall_hook({});
}
