#include <weft/net.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <net/sockets.hpp>
#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::let_others_block;
using testing::on_workers;

// A directory for sockets, whose paths must be short.
class Directory {
 public:
  Directory() {
    std::string path = (std::filesystem::temp_directory_path() / "weft.XXXXXX").string();
    if (!::mkdtemp(path.data())) throw std::runtime_error{"no directory for the test"};
    path_ = path;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string abstract_name() {
  static int made = 0;
  return "@weft-test-" + std::to_string(::getpid()) + "-" + std::to_string(++made);
}

TEST(Unix, PathsAndAbstractNamesConnect) {
  const Directory directory;
  int made = 0;
  const auto talk = [&] {
    const std::string path = directory / std::to_string(++made).c_str();
    for (const std::string& name : {path, abstract_name()}) {
      SCOPED_TRACE(name);
      const auto listener = UnixListener::listen(name).value();
      const auto client = UnixStream::connect(name).value();
      const auto server = listener.accept().value();
      EXPECT_TRUE(client.write_all("hello"));
      EXPECT_EQ(read_text(server, 5), "hello");
      EXPECT_EQ(client.peer_endpoint().value(), Endpoint::unix_socket(name));
      EXPECT_EQ(server.peer_endpoint().value(), Endpoint::unix_socket("")) << "it has no name";
      EXPECT_EQ(listener.local_endpoint(), Endpoint::unix_socket(name));
    }
  };
  on_workers({1U, 2U}, talk);
  BlockingIo{}.run(talk);
}

TEST(Unix, PairsAreConnected) {
  const auto talk = [] {
    const auto [a, b] = UnixStream::pair().value();
    EXPECT_TRUE(a.write_all("there"));
    EXPECT_TRUE(b.write_all("and back"));
    std::array<std::byte, 16> buffer{};
    EXPECT_EQ(read_text(b, 5), "there");
    EXPECT_EQ(read_text(a, 8), "and back");
    EXPECT_TRUE(a.shutdown_write());
    EXPECT_TRUE(b.read_some(buffer).value().empty());
  };
  in_every_world(talk);
  BlockingIo{}.run(talk);
}

TEST(Unix, MegabytesGoBothWaysAtOnce) {
  in_every_world([] {
    const auto [a, b] = UnixStream::pair().value();
    const std::vector<std::byte> sent = pattern(2'000'000);
    std::vector<std::byte> there(sent.size());
    std::vector<std::byte> back(sent.size());
    nursery([&, a = &a, b = &b](Nursery& n) {
      n.spawn([&, a] { EXPECT_TRUE(a->write_all(sent)); });
      n.spawn([&, b] { EXPECT_TRUE(b->write_all(sent)); });
      n.spawn([&, a] { EXPECT_TRUE(a->read_exactly(back)); });
      n.spawn([&, b] { EXPECT_TRUE(b->read_exactly(there)); });
    });
    EXPECT_TRUE(there == sent);
    EXPECT_TRUE(back == sent);
  });
}

TEST(Unix, AFullBacklogIsWaitedFor) {
  in_every_world([] {
    const std::string name = abstract_name();
    const auto listener = UnixListener::listen(name, {.backlog = 1}).value();
    std::vector<UnixStream> clients;
    for (;;) {  // until it is full
      auto client = UnixStream::connect(name, {.timeout = 20ms});
      if (!client) {
        EXPECT_EQ(client.error(), std::errc::timed_out);
        break;
      }
      clients.push_back(*std::move(client));
      ASSERT_LT(clients.size(), 100U);
    }
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(UnixStream::connect(name)); });
      let_others_block();
      for (std::size_t i = 0; i <= clients.size(); ++i) EXPECT_TRUE(listener.accept());
    });
  });
}

TEST(Unix, OnlyAStaleFileIsRemovedAndOnlyIfAsked) {
  on_workers({1U}, [] {
    const Directory directory;
    const std::string path = directory / "socket";
    { const auto gone = UnixListener::listen(path).value(); }
    EXPECT_TRUE(std::filesystem::exists(path)) << "it stays, unless asked";
    EXPECT_EQ(UnixStream::connect(path).error(), std::errc::connection_refused);
    EXPECT_EQ(UnixListener::listen(path).error(), std::errc::address_in_use);
    auto second = UnixListener::listen(path, {.remove_stale = true}).value();
    EXPECT_EQ(UnixListener::listen(path, {.remove_stale = true}).error(),
              std::errc::address_in_use)
        << "somebody listens";
    EXPECT_TRUE(UnixStream::connect(path));
    const std::string file = directory / "file";
    std::ofstream{file} << "precious";
    EXPECT_EQ(UnixListener::listen(file, {.remove_stale = true}).error(),
              std::errc::address_in_use);
    EXPECT_TRUE(std::filesystem::exists(file)) << "no socket: not ours to remove";
  });
}

TEST(Unix, TheFileGoesWithTheListenerIfAsked) {
  on_workers({1U}, [] {
    const Directory directory;
    const std::string path = directory / "socket";
    auto listener = UnixListener::listen(path, {.unlink_at_close = true}).value();
    UnixListener moved = std::move(listener);
    listener = UnixListener{};
    EXPECT_TRUE(std::filesystem::exists(path)) << "it has moved";
    EXPECT_TRUE(UnixStream::connect(path));
    EXPECT_TRUE(moved.close());
    EXPECT_FALSE(std::filesystem::exists(path));
    const auto other = UnixListener::listen(path).value();
    EXPECT_TRUE(moved.close());
    moved = UnixListener{};
    EXPECT_TRUE(std::filesystem::exists(path)) << "it is another's by now";
  });
}

TEST(Unix, SaysWhatIsWrong) {
  in_every_world([] {
    EXPECT_EQ(UnixStream::connect(abstract_name()).error(), std::errc::connection_refused);
    EXPECT_EQ(UnixStream::connect("/nowhere/at/all").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(UnixStream::connect(std::string(200, 'x')).error(), EndpointError::path_too_long);
    EXPECT_EQ(UnixStream::connect("").error(), EndpointError::no_path);
    EXPECT_EQ(UnixStream::connect(Endpoint{"127.0.0.1", 1}).error(),
              std::errc::address_family_not_supported);
    EXPECT_EQ(connect(Endpoint::unix_socket("@x")).error(),
              std::errc::address_family_not_supported);
  });
}

TEST(Unix, ClosingWakesWhoAccepts) {
  in_every_world([] {
    auto listener = UnixListener::listen(abstract_name()).value();
    std::error_code error;
    nursery([&](Nursery& n) {
      n.spawn([&] { error = listener.accept().error(); });
      let_others_block();
      EXPECT_TRUE(listener.close());
    });
    EXPECT_EQ(error, IoError::closed);
  });
}

}  // namespace
}  // namespace weft::net
