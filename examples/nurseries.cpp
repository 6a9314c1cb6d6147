// What nurseries promise, one function each. docs/nursery.md quotes them.
#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;

// ── locals of the body ──────────────────────────────────────────────────────────────────────────

// Never called: it is wrong, and AddressSanitizer would say so.
void wrong() {
  weft::nursery([&](weft::Nursery& n) {
    int hits = 0;  // dies when the body returns ...
    n.spawn([&] {
      weft::sleep_for(1ms);
      ++hits;  // ... and the child is joined after that
    });
  });
}

int right() {
  int hits = 0;  // outside the braces: outlives the join
  weft::nursery([&](weft::Nursery& n) {
    int step = 2;                            // inside: goes by value
    auto& log = n.make<std::vector<int>>();  // in the arena: lives until the join
    n.spawn([&hits, step] { hits += step; });
    n.spawn([&log] { log.push_back(1); });
  });
  return hits;
}

// ── what comes back ─────────────────────────────────────────────────────────────────────────────

// The body's value, once every child has ended.
int measured() {
  int children_ran = 0;
  return weft::nursery([&](weft::Nursery& n) {
    n.spawn([&] { ++children_ran; });
    return 41 + 1;
  });
}

// The first failure cancels the rest, and is thrown here.
std::string first_failure() {
  try {
    weft::nursery([](weft::Nursery& n) {
      n.spawn([] { weft::sleep_for(1h); });  // unwound, not waited for
      n.spawn([] { throw std::runtime_error{"disk on fire"}; });
    });
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "unreachable";
}

// A nursery's own cancel() ends there. No value: NurseryCancelled.
std::string no_value() {
  try {
    return weft::nursery([](weft::Nursery& n) -> std::string {
      n.spawn([&n] { n.cancel(); });
      weft::sleep_for(1h);
      return "an hour later";
    });
  } catch (const weft::NurseryCancelled&) {
    return "cancelled";
  }
}

// ── failures that are not thrown ────────────────────────────────────────────────────────────────

int suppressed() {
  std::atomic<int> others{0};
  const weft::NurseryOptions options{
      .name = "imports",
      .on_error = weft::ErrorPolicy::supervise,
      .on_suppressed = [&](std::exception_ptr, weft::FiberId) { ++others; },
  };
  try {
    weft::nursery(options, [](weft::Nursery& n) {
      for (int i = 0; i < 3; ++i) n.spawn([] { throw std::runtime_error{"no such file"}; });
    });
  } catch (const std::runtime_error&) {
    // the first of the three
  }
  return others;
}

// ── budgets ─────────────────────────────────────────────────────────────────────────────────────

// At most four downloads at a time; the loop goes no faster than they do.
bool never_more_than_four() {
  std::atomic<int> running{0};
  std::atomic<bool> too_many{false};
  weft::nursery({.name = "downloads", .max_live = 4}, [&](weft::Nursery& n) {
    for (int i = 0; i < 100; ++i)
      n.spawn([&] {
        if (++running > 4) too_many = true;
        weft::sleep_for(10ms);
        --running;
      });
  });
  return !too_many;
}

// A request may not start more than ten fibers, however it is made.
int spawned_within_budget() {
  int accepted = 0;
  weft::nursery({.max_spawns = 10}, [&](weft::Nursery& n) {
    while (n.try_spawn([] {})) ++accepted;  // spawn() would throw BudgetExhausted
  });
  return accepted;
}

// ── closing ─────────────────────────────────────────────────────────────────────────────────────

bool refuses_after_close() {
  return weft::nursery([](weft::Nursery& n) {
    n.spawn([] { weft::sleep_for(1s); });  // goes on, and is joined
    n.close();
    try {
      n.spawn([] {});
    } catch (const weft::NurseryClosed&) {
      return true;
    }
    return false;
  });
}

// ── the arena ───────────────────────────────────────────────────────────────────────────────────

// The destructors of what make() made are the ones that can see how the nursery ended.
void tells_how_it_ended() {
  using Kind = weft::NurseryResult::Kind;
  struct Report {
    explicit Report(weft::Nursery& of) : n(of) {}
    ~Report() {
      std::puts(n.result()->kind == Kind::cancelled ? "it was cancelled" : "it was not");
    }
    weft::Nursery& n;
  };
  weft::nursery([](weft::Nursery& n) {
    n.make<Report>(n);
    n.cancel();
  });
}

// ── grace ───────────────────────────────────────────────────────────────────────────────────────

int items_before_the_end() {
  int items = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn([&] {
      while (!weft::this_fiber::stopping()) {  // between two items; never in the middle of one
        weft::sleep_for(10s);
        ++items;
      }
    });
    weft::sleep_for(25s);
    n.cancel(1min);  // cancelled for real if it were still there a minute later
  });
  return items;
}

// ── futures ─────────────────────────────────────────────────────────────────────────────────────

int sum_of_two() {
  return weft::nursery([](weft::Nursery& n) {
    weft::Future<int> left = n.async([] { return 20; });
    weft::Future<int> right = n.async([] { return 22; });
    return left.get() + right.get();
  });
}

// One child is told to stop; its siblings and the nursery go on.
std::string one_child_cancelled() {
  return weft::nursery([](weft::Nursery& n) -> std::string {
    weft::Future<int> slow = n.async([] {
      weft::sleep_for(1h);
      return 1;
    });
    slow.cancel();
    try {
      return std::to_string(slow.get());
    } catch (const weft::ChildCancelled&) {
      return "none";
    }
  });
}

// Whichever is ready first, or neither within a second.
std::string ready_first() {
  return weft::nursery([](weft::Nursery& n) -> std::string {
    auto quick = n.async([] { weft::sleep_for(20ms); });
    auto slow = n.async([] { weft::sleep_for(50ms); });
    auto on_quick = quick.on_ready();
    auto on_slow = slow.on_ready();
    auto too_late = weft::after(1s);
    weft::Waitable* const arms[] = {&on_quick, &on_slow, &too_late};
    constexpr std::array kNames{"quick", "slow", "neither"};
    return kNames[weft::wait(arms)];
  });
}

std::string first_mirror_that_answers() {
  auto answer = weft::any([]() -> std::string { throw std::runtime_error{"refused"}; },
                          [] {
                            weft::sleep_for(30ms);
                            return std::string{"mirror 2"};
                          },
                          [] {
                            weft::sleep_for(1h);
                            return std::string{"mirror 3"};
                          });
  return std::visit([](std::string& text) { return text; }, answer);
}

int how_many_succeeded() {
  auto [a, b] = weft::all_settled([] { return 1; }, []() -> int { throw std::logic_error{"no"}; });
  return (a ? 1 : 0) + (b ? 1 : 0);  // a.value() is 1; b.value() throws, b.error() keeps it
}

long sum_of_squares() {
  std::vector<long> squares(1000);
  weft::parallel_for(squares.size(), [&](std::size_t i) {
    squares[i] = static_cast<long>(i) * static_cast<long>(i);
  });
  weft::parallel_for(squares, [](long& square) { square += 1; });  // every element of a range
  return std::accumulate(squares.begin(), squares.end(), 0L);
}

int main() {
  weft::SimIo io;
  io.run([] {
    std::printf("right %d\n", right());
    std::printf("measured %d\n", measured());
    std::printf("first failure: %s\n", first_failure().c_str());
    std::printf("no value: %s\n", no_value().c_str());
    std::printf("suppressed %d\n", suppressed());
    std::printf("never more than four: %s\n", never_more_than_four() ? "yes" : "no");
    std::printf("spawned within budget %d\n", spawned_within_budget());
    std::printf("refuses after close: %s\n", refuses_after_close() ? "yes" : "no");
    tells_how_it_ended();
    std::printf("items before the end %d\n", items_before_the_end());
    std::printf("sum of two %d\n", sum_of_two());
    std::printf("of the cancelled one: %s\n", one_child_cancelled().c_str());
    std::printf("ready first: %s\n", ready_first().c_str());
    std::printf("first mirror that answers: %s\n", first_mirror_that_answers().c_str());
    std::printf("how many succeeded: %d\n", how_many_succeeded());
    std::printf("sum of squares %ld\n", sum_of_squares());
  });
}
