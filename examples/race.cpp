// Several functions at once: the first one decides, or all of them do.
#include <weft/weft.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

namespace {

std::string from_cache() {
  weft::sleep_for(5ms);
  return "cache";
}

std::string from_disk() {
  weft::sleep_for(80ms);
  std::puts("never printed");
  return "disk";
}

}  // namespace

int main() {
  weft::SimIo io{{.seed = 3}};
  io.run([] {
    std::variant<std::string, std::string> first = weft::race(from_cache, from_disk);
    std::visit([](auto& s) { std::puts(s.c_str()); }, first);  // losers are cancelled AND joined

    auto [a, b] = weft::all(
        [] {
          weft::sleep_for(3ms);
          return 20;
        },
        [] { return 22; });
    std::printf("%d\n", a + b);

    try {
      weft::all([]() -> int { throw std::runtime_error("disk on fire"); },
                [] {
                  weft::sleep_for(1h);  // cancelled, not waited for
                  return 0;
                });
    } catch (const std::exception& error) {
      std::printf("first error wins: %s\n", error.what());
    }
  });
}
