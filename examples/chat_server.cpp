// A chat server over TCP: each line that somebody types goes to everybody. A room is a Broadcast; a
// connection is two fibers, one for what its user types, one for what the others have typed.
#include <weft/weft.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

using weft::net::BufferedReader;
using weft::net::TcpStream;

namespace {

using Room = weft::Broadcast<std::string>;

void chat(TcpStream peer, Room& room) {
  BufferedReader reader{peer, {.line_bytes_max = 200}};
  const auto name = reader.read_line().value();  // the first line
  if (!name) return;
  const std::string who{*name};
  auto heard = room.subscribe();
  weft::race(
      [&] {
        while (auto line = heard.recv())
          if (!peer.write_all(*line + "\n")) return;
      },
      [&] {
        room.send("* " + who + " comes in");
        while (auto line = reader.read_line().value()) room.send(who + ": " + std::string{*line});
      });
  room.send("* " + who + " leaves");
}

// Somebody at a terminal.
class User {
 public:
  User(std::string name, std::uint16_t port)
      : name_(std::move(name)), stream_(weft::net::connect({"127.0.0.1", port}).value()) {
    type(name_);
  }
  void type(std::string_view line) { stream_.write_all(std::string{line} + "\n").value(); }
  void expect_line() {
    const auto line = screen_.read_line().value();
    std::printf("%-5s | %s\n", name_.c_str(), std::string{line.value_or("(hung up)")}.c_str());
  }

 private:
  std::string name_;
  TcpStream stream_;
  BufferedReader<TcpStream> screen_{stream_};
};

void an_evening(std::uint16_t port) {
  User ada{"ada", port};
  ada.expect_line();
  {
    User bob{"bob", port};
    bob.expect_line();
    ada.expect_line();
    bob.type("is anybody here?");
    bob.expect_line();
    ada.expect_line();
    ada.type("only me");
    ada.expect_line();
    bob.expect_line();
  }
  ada.expect_line();
}

}  // namespace

int main() {
  weft::run([] {
    Room room{100};
    auto listener = weft::net::listen({"127.0.0.1", 0}).value();
    weft::net::Server server;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("server", [&] {
        server.serve(listener, [&](TcpStream peer) { chat(std::move(peer), room); }).value();
      });
      an_evening(listener.port());
      server.stop();
    });
    std::printf("%d guests, nobody left: %zu\n", static_cast<int>(server.accepted()),
                server.live());
  });
}
