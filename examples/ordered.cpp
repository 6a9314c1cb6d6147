// Tasks that run at the same time, and results that come in order: docs/ordered-tasks-and-pools.md
// shows parts of this.
#include <weft/weft.hpp>

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

// The later the page, the sooner it is there.
std::string fetch(int page) {
  weft::sleep_for(std::chrono::milliseconds{100 - 10 * page});
  if (page == 3) throw std::runtime_error{"page 3 is not there"};
  return "page " + std::to_string(page);
}

// ── in order ────────────────────────────────────────────────────────────────────────────────────

void print_in_order() {
  weft::nursery([](weft::Nursery& n) {
    weft::OrderedTasks<std::string> pages{n, 4};  // at most four in flight
    n.spawn([pages] {                             // a handle: children get a copy
      for (int page = 0; page < 3; ++page)
        if (!pages.submit([page] { return fetch(page); })) return;
      pages.close();
    });
    for (const std::string& page : pages) std::printf("%s\n", page.c_str());
  });
}

// ── failures ────────────────────────────────────────────────────────────────────────────────────

void one_is_missing() {
  weft::nursery([](weft::Nursery& n) {
    weft::OrderedTasks<std::string> pages{n, 8};
    for (int page = 2; page < 5; ++page) pages.submit([page] { return fetch(page); });
    pages.close();
    for (;;) try {
        const std::optional<std::string> page = pages.next();
        if (!page) break;
        std::printf("%s\n", page->c_str());
      } catch (const std::runtime_error& error) {
        std::printf("%s\n", error.what());  // the next call goes on with the next page
      }
  });
}

// ── with other things to wait for ───────────────────────────────────────────────────────────────

void with_patience() {
  weft::nursery([](weft::Nursery& n) {
    weft::OrderedTasks<std::string> pages{n, 2};
    for (int page = 0; page < 2; ++page) pages.submit([page] { return fetch(page); });
    pages.close();
    for (bool more = true; more;)
      weft::select(pages.on_next([&](std::optional<std::string> page) {
                     if (page) std::printf("%s\n", page->c_str());
                     else more = false;
                   }),
                   weft::after(60ms, [] { std::puts("… still waiting"); }));
  });
}

// ── enough ──────────────────────────────────────────────────────────────────────────────────────

void the_first_two() {
  weft::nursery([](weft::Nursery& n) {
    weft::OrderedTasks<int> squares{n, 3};
    n.spawn([squares] {
      int i = 0;
      while (squares.submit([i] { return i * i; })) ++i;  // until nobody wants more
    });
    for (int taken = 0; taken < 2; ++taken) std::printf("%d\n", squares.next().value());
    squares.close();  // else the one who submits would wait for ever
  });
}

}  // namespace

int main() {
  weft::SimIo io{{.seed = 3}};
  io.run([] {
    print_in_order();
    one_is_missing();
    with_patience();
    the_first_two();
  });
}
