// The programs of docs/supervision.md.
#include <weft/weft.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;

// ── restarts ────────────────────────────────────────────────────────────────────────────────────

// Started again until it returns.
int starts_of_a_flaky_child() {
  int starts = 0;
  weft::supervise([&](weft::Supervisor& s) {
    s.child("fetch", [&] {
      if (++starts < 3) throw std::runtime_error{"connection refused"};
    });
  });
  return starts;
}

// A child for each connection: one that breaks is told of, and the others go on.
void connections() {
  const weft::SupervisorOptions options{
      .name = "server", .on_suppressed = [](std::string_view child, std::exception_ptr) {
        std::printf("lost: %.*s\n", static_cast<int>(child.size()), child.data());
      }};
  weft::supervise(options, [](weft::Supervisor& s) {
    for (int i = 0; i < 3; ++i)
      s.child({.name = "peer " + std::to_string(i), .restart = weft::Restart::never}, [i] {
        weft::sleep_for(i * 1s);
        if (i == 1) throw std::runtime_error{"reset by peer"};
      });
  });
}

// ── back-off and the end of patience ────────────────────────────────────────────────────────────

// What happens to a child that cannot work.
std::string hopeless() {
  const weft::SupervisorOptions options{
      .name = "crawler",
      .max_restarts = 4,
      .within = 1min,
      .backoff = {.first = 100ms, .factor = 3, .most = 2s, .jitter = 0},
      .on_restart = [](const weft::RestartEvent& event) {
        std::printf("restart %zu in %lld ms\n", event.attempt,
                    static_cast<long long>(event.delay / 1ms));
      }};
  try {
    weft::supervise(options, [](weft::Supervisor& s) {
      s.child("fetch", [] { throw std::runtime_error{"no such host"}; });
    });
  } catch (const weft::RestartsExhausted& error) {
    return error.what();
  }
  return "unreachable";
}

// The inner supervisor gives up, and the outer one starts it again, with everything in it.
int starts_of_the_leaf() {
  int starts = 0;
  try {
    weft::supervise({.name = "outer", .max_restarts = 1}, [&](weft::Supervisor& s) {
      s.child("subsystem", [&] {
        weft::supervise({.name = "inner", .max_restarts = 2}, [&](weft::Supervisor& t) {
          t.child("leaf", [&] {
            ++starts;
            throw std::runtime_error{"disk on fire"};
          });
        });
      });
    });
  } catch (const weft::RestartsExhausted& error) {
    std::printf("the outer one gave up on: %.*s\n", static_cast<int>(error.child().size()),
                error.child().data());
  }
  return starts;
}

// ── groups ──────────────────────────────────────────────────────────────────────────────────────

// Says when it goes, for whatever reason.
struct Stage {
  const char* name;
  ~Stage() { std::printf("%s ends\n", name); }
};

// Who feeds on a stage that failed is started again with it; who feeds it is not disturbed.
void pipeline() {
  bool broken = false;
  weft::supervise({.strategy = weft::Strategy::rest_for_one}, [&](weft::Supervisor& s) {
    s.child("read", [] {
      const Stage stage{"read"};
      weft::sleep_for(1min);
    });
    s.child("parse", [&broken] {
      const Stage stage{"parse"};
      weft::sleep_for(10s);
      if (!std::exchange(broken, true)) throw std::runtime_error{"cannot parse that"};
    });
    s.child("store", [] {
      const Stage stage{"store"};
      weft::sleep_for(30s);
    });
  });
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

// The newest is stopped first, and has ended before the next is told.
void orderly_shutdown() {
  weft::supervise({.name = "server"}, [](weft::Supervisor& s) {
    for (const char* const name : {"database", "cache", "http"})
      s.child({.name = weft::Name{std::string_view{name}}, .restart = weft::Restart::always},
              [name] {
                const Stage stage{name};
                weft::sleep_for(24h);
              });
    weft::sleep_for(1h);
    s.stop();
  });
}

int main() {
  weft::SimIo io;
  io.run([] {
    std::printf("starts of a flaky child: %d\n", starts_of_a_flaky_child());
    connections();
    std::printf("%s\n", hopeless().c_str());
    std::printf("starts of the leaf: %d\n", starts_of_the_leaf());
    std::puts("a pipeline:");
    pipeline();
    std::puts("a shutdown:");
    orderly_shutdown();
  });
}
