#include "capacity.hpp"
#include "tour.hpp"

#include <weft/net.hpp>
#include <weft/process.hpp>
#include <weft/weft.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace weft::tour {
namespace {

constexpr long kOwnDescriptors = 100;  // of the engine, and of whoever started us

// As many descriptors as this process's ends of `connections` need, or as the system allows; until
// the end of the chapter. The clients have the same limit, and as many descriptors again.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(long connections) {
    expect(::getrlimit(RLIMIT_NOFILE, &before_) == 0, "the limit of descriptors is not to be had");
    const auto needed = static_cast<rlim_t>(connections + kOwnDescriptors);
    if (before_.rlim_cur >= needed) return;
    if (raise_to({needed, std::max(before_.rlim_max, needed)})) return;  // the privileged may
    raise_to({before_.rlim_max, before_.rlim_max});
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

  // How many of `wanted` connections it will do for.
  [[nodiscard]] static long allows(long wanted) {
    if (now() >= static_cast<rlim_t>(wanted + kOwnDescriptors)) return wanted;
    return std::max(static_cast<long>(now()) - kOwnDescriptors, 10L);
  }
  [[nodiscard]] static rlim_t now() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }

 private:
  static bool raise_to(const rlimit& limit) { return ::setrlimit(RLIMIT_NOFILE, &limit) == 0; }

  rlimit before_{};
};

// This program once more, which says how far its clients are: see clients.cpp.
class Clients {
 public:
  Clients(const net::Endpoint& to, long count)
      : process_(Process::spawn({.argv = {"/proc/self/exe", std::string{kClientsVerb},
                                          to_string(to), std::to_string(count)},
                                 .in = Stdio::pipe,
                                 .out = Stdio::pipe})
                     .value()) {}

  // The next number they say.
  long number() {
    const auto line = from_.read_line().value();
    expect(line.has_value(), "the clients are gone");
    long said = 0;
    expect(std::from_chars(line->begin(), line->end(), said).ptr == line->end(),
           "the clients say what is no number");
    return said;
  }
  void have_them_talk() { process_.in().write_all("talk\n").value(); }
  void have_them_go() {
    process_.in().close().value();
    expect(process_.wait().value().success(), "the clients have failed");
  }

 private:
  Process process_;
  net::BufferedReader<PipeReader> from_{process_.out()};
};

void echo(const net::TcpStream& peer) {
  std::array<std::byte, 256> buffer;
  while (const auto got = peer.read_some(buffer))
    if (got->empty() || !peer.write_all(*got)) return;
}

void meet_clients(Page& page, const net::Endpoint& to, long count) {
  const double before = resident_bytes();
  Clients clients{to, count};
  const double connecting = seconds([&] {
    Progress bar{page, "making " + grouped(count) + " connections"};
    for (long up = 0; up < count; bar.show(up, count)) up = clients.number();
  });
  page.figure("connections at a time", grouped(count));
  page.figure("resident memory, the server's end",
              (resident_bytes() - before) / static_cast<double>(count), "bytes each");
  page.figure("resident memory, the client's end", static_cast<double>(clients.number()),
              "bytes each");
  long messages = 0;
  const double talking = seconds([&] {
    clients.have_them_talk();
    messages = clients.number();
  });
  clients.have_them_go();
  page.figure("to connect and be answered once", connecting * 1e6 / static_cast<double>(count),
              "us");
  page.figure("messages there and back", grouped(messages));
  page.figure("of them in a second", rounded(static_cast<double>(messages) / talking));
}

}  // namespace

void connections(Page& page) {
  const long wanted = at_most(10'000, 2'000, 500);
  const DescriptorLimit limit{wanted};
  const long in_memory = affordable(2 * wanted) / 2;
  const long count = std::min(DescriptorLimit::allows(wanted), in_memory);
  const long descriptors = open_descriptors();
  net::Server server;
  {
    FiberIo io;
    page.say("Each end of a connection is a fiber that reads and writes as if it could block.");
    page.say("The server's are here; the clients' are in a process of their own, with the same");
    page.say("limit of open files. Underneath, " + io.reactor_report() + '.');
    io.run([&] {
      auto listener = net::listen({"127.0.0.1", 0}).value();
      const net::Endpoint to{"127.0.0.1", listener.port()};
      nursery([&](Nursery& n) {
        n.spawn("server", [&] { server.serve(listener, echo).value(); });
        meet_clients(page, to, count);
        server.stop();
      });
    });
  }
  expect(server.accepted() == static_cast<std::uint64_t>(count), "a connection was lost");
  expect(server.live() == 0 && server.failed() == 0, "a server's fiber did not end as it should");
  expect(open_descriptors() <= descriptors, "a descriptor was left open");
  if (count == wanted) return;
  const std::string limit_is = std::to_string(DescriptorLimit::now());
  page.say("Fewer than " + grouped(wanted) + ": " +
           (count < in_memory ? "the limit of open files (ulimit -Hn) is " + limit_is + '.'
                              : "there is not enough memory for more."));
}

}  // namespace weft::tour
