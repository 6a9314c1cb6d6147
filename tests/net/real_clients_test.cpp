// Servers on weft, and clients from Debian: nc, socat and wrk talk to them as to any other.
#include <weft/net.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/file.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/process.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <net/sockets.hpp>
#include <support/temp_dir.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;

// The program by one of these names, where shells find it; empty: it is not installed.
std::string program(std::initializer_list<const char*> names) {
  const char* const path = std::getenv("PATH");
  for (const char* const name : names) {
    std::istringstream directories{path ? path : ""};
    for (std::string directory; std::getline(directories, directory, ':');)
      if (std::filesystem::exists(directory + "/" + name)) return directory + "/" + name;
  }
  return {};
}

template <class Peer>
void echo(const Peer& peer) {
  std::array<std::byte, 4096> buffer{};
  while (auto got = peer.read_some(buffer)) {
    if (got->empty()) return;
    if (!peer.write_all(*got)) return;
  }
}

// As small a server of HTTP as can be: whatever is asked for, the answer is the same.
void answer_requests(const TcpStream& peer) {
  constexpr std::string_view kAnswer =
      "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/plain\r\n\r\nhello\n";
  constexpr std::string_view kEnd = "\r\n\r\n";
  std::string asked;
  std::array<std::byte, 4096> buffer{};
  while (auto got = peer.read_some(buffer)) {
    if (got->empty()) return;
    asked += text_of(*got);
    for (std::size_t end = 0; (end = asked.find(kEnd)) != std::string::npos;) {
      asked.erase(0, end + kEnd.size());
      if (!peer.write_all(kAnswer)) return;
    }
  }
}

// Runs `client` while `handler` is called for each connection of `listener`.
template <class Listener, class Handler>
void with_server(const Listener& listener, Handler handler, const std::function<void()>& client) {
  race(
      [&] {
        nursery([&](Nursery& n) {
          while (auto peer = listener.accept())
            n.spawn([&handler, p = std::move(*peer)] { handler(p); });
        });
      },
      client);
}

// What the program has written.
std::string output_of(std::vector<std::string> argv, std::string input = {}) {
  const auto finished = run_process(
      {.argv = std::move(argv), .input = std::move(input), .timeout = 30s});
  if (!finished) return "no result: " + finished.error().message();
  EXPECT_TRUE(finished->status.success()) << to_string(finished->status) << finished->err;
  return finished->out;
}

class RealClients : public ::testing::TestWithParam<unsigned> {
 protected:
  template <class F>
  static void run(F&& f) {
    FiberIo{{.workers = GetParam()}}.run(std::forward<F>(f));
  }
};

#define WEFT_NEEDS_PROGRAM(path, package) \
  if (path.empty()) GTEST_SKIP() << "not installed: Debian's package " package

TEST_P(RealClients, NetcatIsEchoed) {
  const std::string nc = program({"nc.openbsd", "nc"});
  WEFT_NEEDS_PROGRAM(nc, "netcat-openbsd");
  run([&] {
    const auto listener = listen({"127.0.0.1", 0}).value();
    const std::string said = text_of(pattern(500'000));
    const std::string port = std::to_string(listener.port());
    with_server(listener, echo<TcpStream>, [&] {
      EXPECT_TRUE(output_of({nc, "-N", "127.0.0.1", port}, said) == said);
      EXPECT_EQ(output_of({nc, "-N", "127.0.0.1", port}), "");
      EXPECT_EQ(output_of({nc, "-z", "127.0.0.1", port}), "");
    });
  });
}

TEST_P(RealClients, NetcatOverUnixSockets) {
  const std::string nc = program({"nc.openbsd", "nc"});
  WEFT_NEEDS_PROGRAM(nc, "netcat-openbsd");
  const testing::TempDir directory;
  run([&] {
    const auto listener = UnixListener::listen(directory / "socket").value();
    with_server(listener, echo<UnixStream>, [&] {
      EXPECT_EQ(output_of({nc, "-N", "-U", directory / "socket"}, "over, under"), "over, under");
    });
  });
}

TEST_P(RealClients, NetcatIsTalkedToByOurs) {
  const std::string nc = program({"nc.openbsd", "nc"});
  WEFT_NEEDS_PROGRAM(nc, "netcat-openbsd");
  const testing::TempDir directory;
  run([&] {
    const std::string path = directory / "socket";
    auto server = Process::spawn({.argv = {nc, "-N", "-l", "-U", path},
                                  .in = Stdio::pipe,
                                  .out = Stdio::pipe}).value();
    auto stream = UnixStream::connect(path);
    while (!stream) {  // it is not there yet
      ASSERT_TRUE(stream.error() == std::errc::no_such_file_or_directory ||
                  stream.error() == std::errc::connection_refused)
          << stream.error().message();
      sleep_for(1ms);
      stream = UnixStream::connect(path);
    }
    EXPECT_TRUE(stream->write_all("to nc"));
    EXPECT_TRUE(server.in().write_all("from nc"));
    EXPECT_TRUE(server.in().close());
    std::array<std::byte, 64> buffer{};
    EXPECT_EQ(text_of(stream->read_up_to(buffer).value()), "from nc");
    EXPECT_TRUE(stream->shutdown_write());  // at our end it goes, whatever it had to say
    EXPECT_EQ(server.out().read_all().value(), "to nc");
    EXPECT_TRUE(server.wait().value().success());
  });
}

TEST_P(RealClients, SocatOverTcpUdpAndUnixSockets) {
  const std::string socat = program({"socat"});
  WEFT_NEEDS_PROGRAM(socat, "socat");
  const testing::TempDir directory;
  run([&] {
    const std::string said = text_of(pattern(100'000));
    const auto listener = listen({"::", 0}).value();
    with_server(listener, echo<TcpStream>, [&] {
      for (const char* const host : {"TCP4:127.0.0.1:", "TCP6:[::1]:"})
        EXPECT_TRUE(output_of({socat, "-t10", "-", host + std::to_string(listener.port())}, said) ==
                    said);
    });
    const auto local = UnixListener::listen("@weft-" + directory.path()).value();
    with_server(local, echo<UnixStream>, [&] {
      const std::string name = "ABSTRACT-CONNECT:weft-" + directory.path();
      EXPECT_TRUE(output_of({socat, "-t10", "-", name}, said) == said);
    });
    const auto datagrams = UdpSocket::bind({"127.0.0.1", 0}).value();
    const std::string port = std::to_string(datagrams.local_endpoint().value().port());
    race(
        [&] {
          std::array<std::byte, 64> buffer{};
          for (;;) {
            const Datagram got = datagrams.recv_from(buffer).value();
            EXPECT_TRUE(datagrams.send_to(got.bytes, got.from));
          }
        },
        [&] {
          EXPECT_EQ(output_of({socat, "-t1", "-", "UDP4:127.0.0.1:" + port}, "datagram"),
                    "datagram");
        });
  });
}

TEST_P(RealClients, WrkFindsNoErrors) {
  const std::string wrk = program({"wrk"});
  WEFT_NEEDS_PROGRAM(wrk, "wrk");
  run([&] {
    const auto listener = listen({"127.0.0.1", 0}).value();
    const std::string url = "http://127.0.0.1:" + std::to_string(listener.port()) + "/";
    with_server(listener, answer_requests, [&] {
      const std::string report = output_of({wrk, "-t1", "-c64", "-d1s", url});
      EXPECT_NE(report.find(" requests in "), std::string::npos) << report;
      EXPECT_EQ(report.find(" 0 requests in "), std::string::npos) << report;
      EXPECT_EQ(report.find("Socket errors"), std::string::npos) << report;
      EXPECT_EQ(report.find("Non-2xx"), std::string::npos) << report;
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Workers, RealClients, ::testing::Values(1U, 2U));

}  // namespace
}  // namespace weft::net
