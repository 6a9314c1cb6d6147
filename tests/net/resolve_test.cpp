#include <weft/net/resolve.hpp>

#include "engine/reactor_hook.hpp"

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/sim_world.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <netdb.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include <net/kernel_between.hpp>
#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;

// A name server that says what it was told to.
class NameServer final : public testing::KernelBetween {
 public:
  NameServer() { engine::kernel_in_between.store(this); }
  ~NameServer() { engine::kernel_in_between.store(nullptr); }

  int resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) override {
    asked.fetch_add(1);
    begun.set();
    if (hangs.load()) may_answer.wait();
    const auto at = hosts.find(host);
    if (at == hosts.end()) return EAI_NONAME;
    system_error = at->second.system_error;
    for (const Endpoint& address : at->second.addresses) found.push_back(address.address().value());
    answered.set();
    return at->second.code;
  }

  struct Host {
    int code = 0;
    std::vector<Endpoint> addresses{};
    int system_error = 0;
  };
  std::map<std::string, Host> hosts{
      {"both", {0, {{"1.2.3.4", 0}, {"::5", 0}, {"1.2.3.4", 0}}}},
      {"later", {EAI_AGAIN}},
      {"refused", {EAI_FAIL}},
      {"bare", {EAI_NODATA}},
      {"broken", {EAI_SYSTEM, {}, EMFILE}},
      {"empty", {}},
  };
  std::atomic<int> asked{0};
  std::atomic<bool> hangs{false};
  Event begun;
  Event may_answer;
  Event answered;
};

TEST(Resolve, AddressesAreTheirOwnAnswer) {
  NameServer server;
  const auto body = [] {
    using Endpoints = std::vector<Endpoint>;
    EXPECT_EQ(resolve("127.0.0.1", 80).value(), (Endpoints{{"127.0.0.1", 80}}));
    EXPECT_EQ(resolve("fe80::1%2", 80).value(), (Endpoints{{"fe80::1%2", 80}}));
    const Endpoint unix_socket = Endpoint::unix_socket("@x");
    EXPECT_EQ(resolve(unix_socket).value(), (Endpoints{unix_socket}));
    EXPECT_EQ(resolve("::1", 80, {.family = Family::ipv4}).error(), ResolveError::no_such_family);
    EXPECT_EQ(resolve("", 80).error(), EndpointError::no_host);
    EXPECT_EQ(resolve(std::string_view{"a\0b", 3}, 80).error(), EndpointError::bad_host);
    EXPECT_EQ(resolve(Endpoint{}).error(), std::errc::invalid_argument);
  };
  FiberIo{}.run(body);
  BlockingIo{}.run(body);
  EXPECT_EQ(server.asked.load(), 0);
}

TEST(Resolve, NamesAreAskedFor) {
  NameServer server;
  const auto body = [] {
    using Endpoints = std::vector<Endpoint>;
    EXPECT_EQ(resolve("both", 80).value(), (Endpoints{{"1.2.3.4", 80}, {"::5", 80}}));
    EXPECT_EQ(resolve("both", 80, {.family = Family::ipv6}).value(), (Endpoints{{"::5", 80}}));
    EXPECT_EQ(resolve("nobody", 80).error(), ResolveError::host_not_found);
    EXPECT_EQ(resolve("later", 80).error(), ResolveError::try_again);
    EXPECT_EQ(resolve("later", 80).error(), std::errc::resource_unavailable_try_again);
    EXPECT_EQ(resolve("refused", 80).error(), ResolveError::failed);
    EXPECT_EQ(resolve("bare", 80).error(), ResolveError::no_address);
    EXPECT_EQ(resolve("empty", 80).error(), ResolveError::no_address);
    EXPECT_EQ(resolve("broken", 80).error(), std::errc::too_many_files_open);
    EXPECT_EQ(make_error_code(ResolveError::host_not_found).message(),
              "no host of that name is known");
  };
  FiberIo{{.workers = 1}}.run(body);
  FiberIo{{.workers = 2}}.run(body);
  BlockingIo{}.run(body);
}

TEST(Resolve, ATimeoutDoesNotWaitForTheLookup) {
  for (const unsigned workers : {1U, 2U}) {
    NameServer server;
    server.hangs = true;
    FiberIo{{.workers = workers}}.run([&] {
      EXPECT_EQ(resolve("both", 80, {.timeout = 1ms}).error(), std::errc::timed_out);
      EXPECT_FALSE(timeout(1ms, [] { return resolve("both", 80).has_value(); }));
      server.begun.wait();
      EXPECT_FALSE(server.answered.is_set()) << "it goes on without us";
      server.may_answer.set();
      EXPECT_TRUE(resolve("both", 80, {.timeout = 1h}));
    });
    EXPECT_TRUE(server.answered.is_set());
  }
}

TEST(Resolve, ALookupThatNobodyCameToIsTakenBack) {
  NameServer server;
  server.hangs = true;
  FiberIo{{.workers = 1, .max_blocking = 1}}.run([&] {
    nursery([&](Nursery& n) {
      n.spawn([] { EXPECT_TRUE(resolve("both", 80)); });
      server.begun.wait();
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(resolve("both", 80, {.timeout = 1ms}).error(), std::errc::timed_out);
      server.may_answer.set();
    });
  });
  EXPECT_EQ(server.asked.load(), 1);
}

TEST(Resolve, ManyFibersAskAtOnce) {
  NameServer server;
  std::atomic<int> found{0};
  FiberIo{{.workers = 2}}.run([&] {
    ResolverCache cache;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 100; ++i)
        n.spawn([&, i] {
          const auto got = i % 2 ? resolve("both", 80, {.cache = &cache}) : resolve("both", 80);
          if (got && got->size() == 2) found.fetch_add(1);
        });
    });
    EXPECT_EQ(cache.size(), 1U);
  });
  EXPECT_EQ(found.load(), 100);
}

TEST(Resolve, HostsOfTheSimulatedWorldHaveNames) {
  SimIo io{{.seed = 1}};
  const std::string address = io.world().host("server").address();
  io.run([&] {
    EXPECT_EQ(resolve("server", 80).value().front(), (Endpoint{address, 80}));
    EXPECT_EQ(resolve("nobody", 80).error(), ResolveError::host_not_found);
  });
}

TEST(ResolverCache, RemembersForAWhileOfVirtualTime) {
  SimIo io{{.seed = 1}};
  io.world().host("server");
  io.run([&] {
    ResolverCache cache{{.ttl = 60s, .negative_ttl = 5s}};
    const ResolveOptions cached{.cache = &cache};
    EXPECT_TRUE(resolve("server", 80, cached));
    EXPECT_EQ(resolve("upstart", 80, cached).error(), ResolveError::host_not_found);
    EXPECT_EQ(cache.size(), 2U);
    sim_world().host("upstart");
    sleep_for(4s);
    EXPECT_EQ(resolve("upstart", 80, cached).error(), ResolveError::host_not_found) << "cached";
    sleep_for(2s);
    EXPECT_TRUE(resolve("upstart", 80, cached)) << "asked anew";
    EXPECT_TRUE(cache.find("server"));
    sleep_for(60s);
    EXPECT_FALSE(cache.find("server"));
    EXPECT_EQ(cache.size(), 1U) << "what has expired is dropped when it is found";
    EXPECT_EQ(resolve("server", 443, cached).value().front().port(), 443);
    cache.forget("server");
    EXPECT_FALSE(cache.find("server"));
    cache.clear();
    EXPECT_EQ(cache.size(), 0U);
  });
}

TEST(ResolverCache, IsBoundedAndDropsTheOldest) {
  SimIo{{.seed = 1}}.run([] {
    ResolverCache cache{{.ttl = 60s, .max_entries = 3}};
    const ResolverCache::Answer found{std::vector<SocketAddress>(1)};
    for (const char* const host : {"a", "b", "c", "d"}) {
      cache.remember(host, found);
      sleep_for(1s);
    }
    EXPECT_EQ(cache.size(), 3U);
    EXPECT_FALSE(cache.find("a"));
    EXPECT_TRUE(cache.find("b"));
    EXPECT_TRUE(cache.find("d"));
    cache.remember("b", found);
    EXPECT_EQ(cache.size(), 3U) << "renewed in its place";
    ResolverCache none{{.max_entries = 0}};
    none.remember("a", found);
    EXPECT_EQ(none.size(), 0U);
  });
}

TEST(ResolverCache, DoesNotRememberWhatMayPass) {
  SimIo{{.seed = 1}}.run([] {
    ResolverCache cache;
    cache.remember("a", Unexpected{ResolveError::try_again});
    cache.remember("b", Unexpected{std::errc::timed_out});
    EXPECT_EQ(cache.size(), 0U);
    cache.remember("c", Unexpected{ResolveError::host_not_found});
    EXPECT_EQ(cache.size(), 1U);
    ResolverCache positive{{.negative_ttl = 0s}};
    positive.remember("c", Unexpected{ResolveError::host_not_found});
    EXPECT_EQ(positive.size(), 0U);
  });
}

}  // namespace
}  // namespace weft::net
