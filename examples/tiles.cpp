// An image in tiles: they are computed on all cores, whichever is done first, and printed in order.
#include <weft/weft.hpp>

#include <cstdio>
#include <string>

constexpr int kWidth = 64;
constexpr int kHeight = 24;
constexpr int kTileRows = 3;

constexpr long kOne = 1 << 12;  // whole numbers: the same picture on every machine

char shade(long x, long y) {
  long re = 0;
  long im = 0;
  int steps = 0;
  for (; steps < 200 && re * re + im * im < 4 * kOne * kOne; ++steps) {
    const long next = (re * re - im * im) / kOne + x;
    im = 2 * re * im / kOne + y;
    re = next;
  }
  return steps < 4 ? ' ' : steps < 8 ? '.' : steps < 16 ? ':' : steps < 200 ? '+' : '#';
}

// Rows of the Mandelbrot set; those in the middle take the longest.
std::string render(int tile) {
  std::string rows;
  for (int row = tile * kTileRows; row < (tile + 1) * kTileRows; ++row) {
    std::string line;
    for (int column = 0; column < kWidth; ++column)
      line += shade(kOne * (32 * column - 22 * kWidth) / (10 * kWidth),
                    kOne * (12 * (2 * row + 1) - 12 * kHeight) / (10 * kHeight));
    rows += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return rows;
}

int main() {
  weft::FiberIo io;
  io.run([] {
    weft::nursery([](weft::Nursery& n) {
      weft::stream(n, weft::iota(0, kHeight / kTileRows))
          | weft::par_map(4, render)
          | weft::for_each([](const std::string& rows) { std::fputs(rows.c_str(), stdout); });
    });
  });
}
