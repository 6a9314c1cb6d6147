// What streams do, one function each. docs/streams.md quotes them.
#include <weft/weft.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

// ── a source, stages, an end ────────────────────────────────────────────────────────────────────

// The squares of the even numbers up to 10, and what they make together.
int sum_of_squares() {
  return weft::nursery([](weft::Nursery& n) {
    return weft::stream(n, weft::iota(1, 11))                   // a source
           | weft::where([](int v) { return v % 2 == 0; })      // steps, in one fiber of n
           | weft::map([](int v) { return v * v; })
           | weft::reduce(0, [](int a, int b) { return a + b; });  // an end, in this fiber
  });
}

// ── three ways to start stages ──────────────────────────────────────────────────────────────────

std::string three_ways() {
  std::string seen;
  const auto shout = [] {
    return weft::map([](std::string s) { return s + "!"; }) |
           weft::where([](const std::string& s) { return s.size() > 3; });
  };
  weft::nursery([&](weft::Nursery& n) {
    // From a receiver: what comes out is a receiver again.
    weft::Channel<std::string> words{3};
    for (const char* word : {"a", "warp", "weft"}) static_cast<void>(words.tx.send(word));
    words.tx.drop();
    const weft::Receiver<std::string> loud =
        weft::stream(n, std::move(words.rx)) | shout() | weft::out();
    for (const std::string& s : loud) seen += s;

    // Into a sender: what one gets is a sender.
    weft::Channel<std::string> results;
    n.spawn([tx = weft::through<std::string>(n, shout(), std::move(results.tx))] {
      static_cast<void>(tx.send("loom"));
    });
    for (const std::string& s : results.rx) seen += s;

    // Alone: both ends.
    auto ends = weft::through<std::string>(n, shout());
    n.spawn([tx = std::move(ends.tx)] { static_cast<void>(tx.send("reed")); });
    for (const std::string& s : ends.rx) seen += s;
  });
  return seen;
}

// ── how it ends ─────────────────────────────────────────────────────────────────────────────────

// Nobody wants more than three: the source, endless as it is, ends.
std::vector<int> enough() {
  return weft::nursery([](weft::Nursery& n) {
    return weft::stream(n, weft::iota(1)) | weft::map([](int v) { return 10 * v; }) |
           weft::take(3) | weft::collect();
  });
}

// A stage that throws fails its nursery, as any child does: the rest is cancelled.
std::string failing() {
  try {
    weft::nursery([&](weft::Nursery& n) {
      weft::stream(n, weft::from_range(std::vector<std::string>{"1", "2", "three"}))
          | weft::map([](const std::string& s) { return std::stoi(s); })
          | weft::for_each([](int) {});
    });
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "a surprise";
}

// ── side by side ────────────────────────────────────────────────────────────────────────────────

// Four calls at a time. The slow ones hold nobody up but those who wait for their turn to leave.
std::vector<int> side_by_side() {
  return weft::nursery([](weft::Nursery& n) {
    return weft::stream(n, weft::iota(0, 8))
           | weft::par_map(4, [](int v) {
               weft::sleep_for(1ms * (10 - v));  // the first takes the longest
               return v * v;
             })
           | weft::collect();
  });
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

// Readings come at any time; every 100 ms, or when there are three, they go on together.
std::vector<std::size_t> in_chunks() {
  return weft::nursery([](weft::Nursery& n) {
    weft::Channel<double> readings;
    n.spawn([tx = std::move(readings.tx)] {
      for (const auto pause : {10ms, 10ms, 10ms, 10ms, 200ms, 10ms}) {
        weft::sleep_for(pause);
        if (!tx.send(20.5)) return;
      }
    });
    return weft::stream(n, std::move(readings.rx))
           | weft::chunk(3, 100ms)
           | weft::map([](const std::vector<double>& chunk) { return chunk.size(); })
           | weft::collect();
  });
}

int main() {
  weft::SimIo io{{.seed = 1}};
  io.run([] {
    std::printf("sum of squares: %d\n", sum_of_squares());
    std::printf("three ways: %s\n", three_ways().c_str());
    std::printf("enough:");
    for (const int v : enough()) std::printf(" %d", v);
    std::printf("\nfailing: %s\nside by side:", failing().c_str());
    for (const int v : side_by_side()) std::printf(" %d", v);
    std::printf("\nin chunks:");
    for (const std::size_t size : in_chunks()) std::printf(" %zu", size);
    std::printf("\n");
  });
}
