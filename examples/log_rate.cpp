// A log as it grows, its errors alone, and how many there were in each second. In virtual time: a
// minute of log takes no time at all, and prints the same each time.
#include <weft/weft.hpp>

#include <cstdio>
#include <string>

using namespace std::chrono_literals;

struct Line {
  bool error;
  std::string text;
};

// What another process would append to a file: a burst of errors in the fourth second.
void write_log(const weft::Sender<Line>& log) {
  for (int i = 0; i < 600; ++i) {
    weft::sleep_for(i % 3 == 0 ? 5ms : 15ms);
    const bool burst = i >= 250 && i < 340;
    if (!log.send(Line{.error = burst ? i % 2 == 0 : i % 50 == 0, .text = "line"})) return;
  }
}

int main() {
  weft::SimIo io{{.seed = 1}};
  io.run([] {
    weft::nursery([](weft::Nursery& n) {
      weft::Channel<Line> log{64};
      n.spawn("log", [tx = std::move(log.tx)] { write_log(tx); });

      const weft::Instant begin = weft::Clock::now();
      weft::stream(n, std::move(log.rx))
          | weft::where([](const Line& line) { return line.error; })
          | weft::chunk(1'000, 1s)                      // what came within a second of the first
          | weft::for_each([begin](const std::vector<Line>& errors) {
              const auto at = std::chrono::duration_cast<std::chrono::milliseconds>(
                  weft::Clock::now() - begin);
              std::printf("%5lld ms: %zu errors\n", static_cast<long long>(at.count()),
                          errors.size());
            });
    });
  });
}
