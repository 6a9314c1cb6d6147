// What a fiber inherits, and where it runs. docs/context.md quotes these functions.
#include <weft/weft.hpp>

#include <cstdio>
#include <string>

// ── values that go down the tree ────────────────────────────────────────────────────────────────

weft::fiber_local<std::string> request{"no request"};

void log(const char* what) { std::printf("[%s] %s\n", request->c_str(), what); }

void query(const char* table) { log(table); }

// Nobody hands the request's name down: the fibers inherit it.
void handle(const std::string& name) {
  request.with(name, [] {
    log("begins");
    weft::nursery([](weft::Nursery& n) {
      n.spawn([] { query("users"); });
    });
    log("ends");
  });
}

// ── what belongs to one fiber ───────────────────────────────────────────────────────────────────

// A child sees what its parent had when it was spawned. What either sets later is its own.
void later_changes() {
  weft::fiber_local<int> depth{0};
  depth.set(1);
  weft::nursery([&](weft::Nursery& n) {
    n.spawn([&] {
      depth.set(*depth + 1);
      std::printf("child: %d\n", *depth);
    });
  });
  std::printf("parent: %d\n", *depth);
}

// ── where am I ──────────────────────────────────────────────────────────────────────────────────

void paths() {
  weft::nursery([](weft::Nursery& n) {
    n.spawn("server", [] {
      weft::nursery([](weft::Nursery& connections) {
        connections.spawn("connection 7",
                          [] { std::printf("%s\n", weft::this_fiber::path().c_str()); });
      });
    });
  });
}

// ── fibers that stay on their thread ────────────────────────────────────────────────────────────

// A library with state in thread_local variables: all calls must come from one thread.
namespace bound {
thread_local int handles = 0;
void open() { ++handles; }
void close() { --handles; }
int count() { return handles; }
}  // namespace bound

int stay() {
  int left = -1;
  weft::nursery({.migration = weft::Migration::pinned}, [&](weft::Nursery& n) {
    n.spawn([&left] {
      bound::open();
      weft::this_fiber::yield();  // others may run here meanwhile, but we come back to this thread
      bound::close();
      left = bound::count();
    });
  });
  return left;
}

int main() {
  weft::FiberIo{{.workers = 2}}.run([] {
    handle("GET /");
    log("is over");
    later_changes();
    paths();
    std::printf("handles left: %d\n", stay());
  });
}
