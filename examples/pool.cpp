// A few connections for many: docs/ordered-tasks-and-pools.md shows parts of this.
#include <weft/weft.hpp>

#include <cstdio>
#include <optional>
#include <string>

using namespace std::chrono_literals;

namespace {

class Connection {
 public:
  explicit Connection(int number) : number_(number) { weft::sleep_for(20ms); }
  void query(const char*) {
    weft::sleep_for(5ms);
    in_transaction_ = true;
    if (++queries_ == 3) open_ = false;  // servers are like that
  }
  void rollback() { in_transaction_ = false; }
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] bool in_transaction() const { return in_transaction_; }
  [[nodiscard]] int number() const { return number_; }

 private:
  const int number_;
  int queries_ = 0;
  bool open_ = true;
  bool in_transaction_ = false;
};

struct Server {
  int connected = 0;
  int hung_up = 0;

  // ── a pool ────────────────────────────────────────────────────────────────────────────────────
  weft::Pool<Connection> pool{{
      .capacity = 2,
      .on_create = [this] { return Connection{++connected}; },  // may wait, may throw
      .on_reset = [](Connection& c) { c.rollback(); },          // before the next one has it
      .on_destroy = [this](Connection&) { ++hung_up; },
      .healthy = [](Connection& c) { return c.is_open(); },     // else another is made
      .name = "connections",
  }};
};

void many_users(Server& server) {
  weft::nursery([&](weft::Nursery& n) {
    for (int user = 0; user < 6; ++user)
      n.spawn([&] {
        weft::Lease<Connection> connection = server.pool.acquire();
        if (connection->in_transaction()) std::puts("somebody forgot to roll back");
        connection->query("select 1");
      });  // goes back here, also if the query throws or is cancelled
  });
  std::printf("%d connections for 6 users, %zu idle\n", server.connected, server.pool.idle());
}

// ── not for ever ────────────────────────────────────────────────────────────────────────────────

void impatient(Server& server) {
  weft::Lease<Connection> one = server.pool.acquire();
  weft::Lease<Connection> two = server.pool.acquire();
  if (!server.pool.acquire_for(10ms)) std::puts("busy");

  one.discard();  // it is broken: destroyed, not lent again
  weft::select(
      server.pool.on_acquire([](weft::Lease<Connection> c) {
        std::printf("connection %d\n", c->number());
      }),
      weft::after(10ms, [] { std::puts("busy"); }));
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

void shut_down(Server& server) {
  weft::nursery([&](weft::Nursery& n) {
    weft::Lease<Connection> one = server.pool.acquire();
    weft::Lease<Connection> two = server.pool.acquire();
    n.spawn([&] {
      try {
        static_cast<void>(server.pool.acquire());
      } catch (const weft::PoolClosed&) {
        std::puts("too late");
      }
    });
    weft::sleep_for(1ms);
    server.pool.close();
  });
  std::printf("%d connected, %d hung up\n", server.connected, server.hung_up);
}

}  // namespace

int main() {
  weft::SimIo io{{.seed = 3}};
  io.run([] {
    Server server;
    many_users(server);
    impatient(server);
    shut_down(server);
  });
}
