// How cancellation reaches a fiber, and how far it goes. docs/cancellation.md quotes this.
#include <weft/weft.hpp>

#include <cstdio>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

using namespace std::chrono_literals;

// ── scopes ──────────────────────────────────────────────────────────────────────────────────────

// Empty: the scope was cancelled. Cancelled itself never leaves it.
std::optional<int> by_hand() {
  return weft::cancel_scope([](weft::CancelScope& scope) {
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([&scope] { scope.cancel(); });  // from any fiber or thread that can see it
      weft::sleep_for(1h);
    });
    return 42;
  });
}

// The earliest deadline counts, whichever scope has it.
bool tightest_wins() {
  const weft::Instant begin = weft::Clock::now();
  const bool ended = weft::timeout(1s, [] {
    static_cast<void>(weft::timeout(1h, [] { weft::sleep_for(1min); }));
    std::puts("never printed: it is the outer scope that was cancelled");
  });
  return !ended && weft::Clock::now() - begin == 1s;
}

// A deadline may move: as long as something comes, there is more time.
int heartbeats() {
  int beats = 0;
  static_cast<void>(weft::cancel_scope([&](weft::CancelScope& scope) {
    for (weft::Duration pause = 10ms;; pause *= 2) {  // 10, 20, 40 ... 640 ms, and one too many
      scope.set_deadline(weft::Clock::now() + 1s);
      weft::sleep_for(pause);
      ++beats;
    }
  }));
  return beats;
}

// A body that finishes in spite of the cancel has its value returned.
std::optional<int> finished_all_the_same() {
  return weft::cancel_scope([](weft::CancelScope& scope) {
    scope.cancel();
    return 42;  // no cancel point between the cancel and the end
  });
}

// ── where it is delivered ───────────────────────────────────────────────────────────────────────

// A loop that waits for nothing must look by itself; every so often is enough.
long tried_until_cancelled() {
  long tried = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn([&] {
      for (;; ++tried)
        if (tried % 1000 == 0) weft::this_fiber::yield();  // checkpoint(), to keep the core
    });
    weft::this_fiber::yield();
    n.cancel();
  });
  return tried;
}

// ── level-triggered ─────────────────────────────────────────────────────────────────────────────

int swallowed_and_raised_again() {
  int raised = 0;
  static_cast<void>(weft::timeout(1s, [&] {
    for (int attempt = 0; attempt < 3; ++attempt) {
      try {
        weft::sleep_for(1h);
      } catch (...) {  // catches Cancelled, too
        ++raised;      // the first after a second, the others at once
      }
    }
  }));
  return raised;
}

// What a handler should do that must see everything, and cannot name what it sees.
void logs_and_passes_on() {
  try {
    weft::sleep_for(1h);
  } catch (const weft::Cancelled& cancelled) {
    std::printf("unwound: %s\n", std::string{weft::to_string(cancelled.reason())}.c_str());
    throw;
  } catch (...) {
    std::puts("failed");
    throw;
  }
}

// ── shields, and destructors that wait ──────────────────────────────────────────────────────────

class Session {
 public:
  explicit Session(std::string name) : name_(std::move(name)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    weft::shielded([this] {
      weft::sleep_for(50ms);  // say goodbye; takes its time even in a cancelled scope
      std::printf("%s: closed in order\n", name_.c_str());
    });
  }

 private:
  std::string name_;
};

// Cleanup that must wait, but not for ever.
bool flush_within(weft::Duration limit) {
  return weft::shielded([&] { return weft::timeout(limit, [] { weft::sleep_for(1h); }); });
}

// ── without exceptions ──────────────────────────────────────────────────────────────────────────

int ticks_without_exceptions() {
  int ticks = 0;
  static_cast<void>(weft::timeout(1s, [&] {
    while (weft::sleep_for(300ms, weft::no_throw)) ++ticks;  // false: cancelled
  }));
  return ticks;
}

// Any operation: make it, and wait for it with no_throw.
std::string answer_or_not(weft::Event& answer) {
  auto on_answer = answer.on_set();
  return weft::wait(on_answer, weft::no_throw) ? "answered" : "cancelled";
}

// ── std::stop_token ─────────────────────────────────────────────────────────────────────────────

// In: whoever holds the stop_source cancels the scope.
bool stopped_from_outside() {
  std::stop_source source;
  const std::jthread outside{[&] { source.request_stop(); }};
  return !weft::with_stop(source.get_token(), [] { weft::Event{}.wait(); });
}

// Out: code that knows nothing of fibers hears of the cancel.
bool heard_outside() {
  bool heard = false;
  static_cast<void>(weft::cancel_scope([&](weft::CancelScope& scope) {
    const std::stop_callback callback{scope.stop_token(), [&] { heard = true; }};
    scope.cancel();  // the callback runs in here
  }));
  return heard;
}

int main() {
  weft::SimIo simulated;
  simulated.run([] {
    std::printf("by hand: %s\n", by_hand() ? "a value" : "empty");
    std::printf("tightest wins: %s\n", tightest_wins() ? "yes" : "no");
    std::printf("heartbeats: %d\n", heartbeats());
    std::printf("finished all the same: %d\n", finished_all_the_same().value());
    std::printf("tried in steps of 1000: %s\n", tried_until_cancelled() % 1000 == 0 ? "yes" : "no");
    std::printf("raised %d times\n", swallowed_and_raised_again());
    static_cast<void>(weft::timeout(1s, logs_and_passes_on));
    static_cast<void>(weft::timeout(1s, [] {
      const Session session{"session"};
      weft::sleep_for(1h);
    }));
    std::printf("flushed: %s\n", flush_within(5s) ? "yes" : "gave up");
    std::printf("ticks without exceptions: %d\n", ticks_without_exceptions());
    weft::Event answer{"answer"};
    static_cast<void>(weft::timeout(1s, [&] { std::puts(answer_or_not(answer).c_str()); }));
    std::printf("heard outside: %s\n", heard_outside() ? "yes" : "no");
  });
  weft::FiberIo real;  // a simulation is alone in the world: no thread could stop it
  real.run(
      [] { std::printf("stopped from outside: %s\n", stopped_from_outside() ? "yes" : "no"); });
}
