#include "net/happy_eyeballs.hpp"

#include <weft/net.hpp>

#include "engine/reactor_hook.hpp"

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/sim_world.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <netinet/in.h>

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <net/kernel_between.hpp>
#include <net/sockets.hpp>
#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::on_workers;

TEST(HappyEyeballs, TakesFamiliesInTurn) {
  const Endpoint a4{"1.0.0.1", 1}, b4{"1.0.0.2", 1}, c4{"1.0.0.3", 1}, a6{"::1", 1}, b6{"::2", 1};
  using Endpoints = std::vector<Endpoint>;
  EXPECT_EQ(interleaved(Endpoints{a6, b6, a4, b4, c4}), (Endpoints{a6, a4, b6, b4, c4}));
  EXPECT_EQ(interleaved(Endpoints{a4, b4, a6}), (Endpoints{a4, a6, b4}));
  EXPECT_EQ(interleaved(Endpoints{a4}), (Endpoints{a4}));
}

// A server on each of some ports, and how long the way to it is.
class Hosts {
 public:
  explicit Hosts(std::uint64_t seed = 1) : io{{.seed = seed}} {}
  Endpoint add(const char* name, Duration latency, bool listens = true) {
    SimHost host = io.world().host(name);
    io.world().net().set_link(name, "localhost", {.latency = {latency, latency}});
    if (listens) listening_.push_back(host);
    return {host.address(), 80};
  }
  // Runs `f` while the servers accept.
  void run(const std::function<void()>& f) {
    io.run([&] {
      nursery([&](Nursery& n) {
        for (const SimHost& host : listening_)
          host.spawn(n, [] {
            const auto listener = listen({"0.0.0.0", 80}).value();
            for (;;) (void)listener.accept();
          });
        sleep_for(1ms);
        const std::size_t before = io.world().descriptors();
        f();
        EXPECT_EQ(io.world().descriptors(), before) << "something was left open";
        n.cancel();
      });
    });
  }

  SimIo io;

 private:
  std::vector<SimHost> listening_;
};

std::optional<Endpoint> winner(std::vector<Endpoint> endpoints, Duration stagger = 250ms) {
  Result<Descriptor> socket = HappyEyeballs{endpoints, stagger}.run();
  if (!socket) return {};
  return peer_endpoint_of(*socket).value();
}

TEST(HappyEyeballs, TheFirstHasAHeadStart) {
  Hosts hosts;
  const Endpoint slow = hosts.add("slow", 100ms);
  const Endpoint fast = hosts.add("fast", 1ms);
  hosts.run([&] {
    const Instant begin = Clock::now();
    EXPECT_EQ(winner({slow, fast}), slow) << "there and back within the head start";
    EXPECT_EQ(Clock::now() - begin, 200ms);
  });
}

TEST(HappyEyeballs, TheSecondStartsWhenTheFirstIsLate) {
  Hosts hosts;
  const Endpoint slow = hosts.add("slow", 10s);
  const Endpoint fast = hosts.add("fast", 1ms);
  hosts.run([&] {
    const Instant begin = Clock::now();
    EXPECT_EQ(winner({slow, fast}), fast);
    EXPECT_EQ(Clock::now() - begin, 252ms);
  });
}

TEST(HappyEyeballs, TheNextStartsAtOnceWhenOneFails) {
  Hosts hosts;
  const Endpoint deaf = hosts.add("deaf", 5ms, false);
  const Endpoint deaf_too = hosts.add("deaf too", 5ms, false);
  const Endpoint fast = hosts.add("fast", 1ms);
  hosts.run([&] {
    const Instant begin = Clock::now();
    EXPECT_EQ(winner({deaf, deaf_too, fast}), fast);
    EXPECT_EQ(Clock::now() - begin, 22ms);
    EXPECT_EQ(winner({deaf, deaf_too}), std::nullopt);
  });
}

TEST(HappyEyeballs, ALateOneStillWinsIfOthersFail) {
  Hosts hosts;
  const Endpoint slow = hosts.add("slow", 1s);
  const Endpoint deaf = hosts.add("deaf", 1ms, false);
  hosts.run([&] {
    const Instant begin = Clock::now();
    EXPECT_EQ(winner({slow, deaf}), slow);
    EXPECT_EQ(Clock::now() - begin, 2s);
  });
}

TEST(Connect, TimesOutAndLeavesNothingBehind) {
  Hosts hosts;
  const Endpoint slow = hosts.add("slow", 10s);
  hosts.run([&] {
    const Instant begin = Clock::now();
    EXPECT_EQ(connect(slow, {.timeout = 3s}).error(), std::errc::timed_out);
    EXPECT_EQ(connect({"slow", 80}, {.timeout = 3s}).error(), std::errc::timed_out);
    EXPECT_EQ(Clock::now() - begin, 6s);
    EXPECT_FALSE(timeout(1s, [&] { return connect(slow).has_value(); }));
    EXPECT_EQ(Clock::now() - begin, 7s);
  });
}

TEST(Connect, ByNameInTheSimulatedWorld) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Hosts hosts{seed};
    hosts.add("server", 1ms);
    hosts.add("deaf", 1ms, false);
    hosts.run([&] {
      EXPECT_TRUE(connect({"server", 80}));
      EXPECT_EQ(connect({"server", 81}).error(), std::errc::connection_refused);
      EXPECT_EQ(connect({"deaf", 80}).error(), std::errc::connection_refused);
      EXPECT_EQ(connect({"nobody", 80}).error(), ResolveError::host_not_found);
    });
  }
}

TEST(Connect, ByNameInTheRealOne) {
  const auto body = [] {
    const auto listener = listen({"localhost", 0}, {}).value();
    EXPECT_TRUE(connect({"localhost", listener.port()}));
    std::uint16_t nobody = 0;
    { nobody = listen({"127.0.0.1", 0}).value().port(); }
    EXPECT_EQ(connect({"127.0.0.1", nobody}).error(), std::errc::connection_refused);
    EXPECT_EQ(connect({"", 80}).error(), EndpointError::no_host);
  };
  on_workers({1U, 2U}, body);
  BlockingIo{}.run(body);
}

// What is between us and the kernel.
class Meddler final : public testing::KernelBetween {
 public:
  Meddler() { engine::kernel_in_between.store(this); }
  ~Meddler() { engine::kernel_in_between.store(nullptr); }

  Answer connect(int fd, const sockaddr* address, socklen_t length) noexcept override {
    if (address->sa_family == AF_INET6 && !has_ipv6) return -ENETUNREACH;
    if (address->sa_family != AF_INET || to_itself == 0)
      return real_.connect(fd, address, length);
    // The port that the system might have chosen.
    --to_itself;
    ++met_itself;
    sockaddr_in local = reinterpret_cast<const sockaddr_in&>(*address);
    const int on = 1;
    static_cast<void>(real_.set_option(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    const Answer bound = real_.bind(fd, reinterpret_cast<const sockaddr*>(&local), sizeof local);
    if (bound < 0) return bound;
    return real_.connect(fd, address, length);
  }
  int resolve(const char*, std::vector<SocketAddress>& found, int&) override {
    found.push_back(Endpoint{"2001:db8::1", 0}.address().value());
    found.push_back(Endpoint{"127.0.0.1", 0}.address().value());
    return 0;
  }

  Answer accept(int fd, SocketAddress& peer) noexcept override {
    if (accept_errors.empty()) return real_.accept(fd, peer);
    const int error = accept_errors.back();
    accept_errors.pop_back();
    return -error;
  }

  std::vector<int> accept_errors;  // the last one comes first
  bool has_ipv6 = true;
  int to_itself = 0;
  int met_itself = 0;
};

TEST(Connect, DoesNotTalkToItself) {
  Meddler meddler;
  on_workers({1U}, [&] {
    std::uint16_t nobody = 0;
    { nobody = listen({"127.0.0.1", 0}).value().port(); }
    meddler.to_itself = 3;
    meddler.met_itself = 0;
    EXPECT_EQ(connect({"127.0.0.1", nobody}).error(), std::errc::connection_refused);
    EXPECT_EQ(meddler.met_itself, 3) << "and then it was refused";
    meddler.to_itself = 1000;
    EXPECT_EQ(connect({"127.0.0.1", nobody}).error(), std::errc::connection_refused);
    EXPECT_GT(meddler.to_itself, 900) << "at some time it gives up";
    meddler.to_itself = 0;
  });
}

TEST(Connect, TheErrorIsTheMostTellingOne) {
  Meddler meddler;
  meddler.has_ipv6 = false;
  on_workers({1U}, [&] {
    std::uint16_t nobody = 0;
    { nobody = listen({"127.0.0.1", 0}).value().port(); }
    EXPECT_EQ(connect({"somewhere", nobody}).error(), std::errc::connection_refused)
        << "not that there is no way to IPv6";
    EXPECT_EQ(connect({"somewhere", nobody}, {.family = Family::ipv6}).error(),
              std::errc::network_unreachable);
    const auto listener = listen({"127.0.0.1", 0}).value();
    EXPECT_TRUE(connect({"somewhere", listener.port()}));
  });
}

TEST(Accept, SkipsConnectionsThatBroke) {
  Meddler meddler;
  on_workers({1U}, [&] {
    int pauses = 0;
    const auto on_pause = [&](std::error_code, Duration) { ++pauses; };
    const auto listener = listen({"127.0.0.1", 0}, {.on_pause = on_pause}).value();
    const auto client = connect(listener.local_endpoint()).value();
    meddler.accept_errors = {ECONNABORTED, EPROTO, EINTR, ENETDOWN, EHOSTUNREACH};
    EXPECT_TRUE(listener.accept());
    EXPECT_EQ(pauses, 0);
    const auto second = connect(listener.local_endpoint()).value();
    meddler.accept_errors = {ENOBUFS, ENOMEM, ENFILE, EMFILE};
    EXPECT_TRUE(listener.accept());
    EXPECT_EQ(pauses, 4);
    meddler.accept_errors = {EPERM};
    EXPECT_EQ(listener.accept().error(), std::errc::operation_not_permitted) << "no spinning";
  });
}

}  // namespace
}  // namespace weft::net
