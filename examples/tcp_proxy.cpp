// A proxy: whoever connects to it is connected with a server behind it, and bytes go both ways
// until both have ended. That one side has no more to say is passed on, and the answer still comes.
#include <weft/weft.hpp>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <string>

using weft::net::TcpListener;
using weft::net::TcpStream;

namespace {

// Answers when it has heard everything, in capital letters.
void shout(TcpStream peer) {
  std::string heard;
  weft::net::BufferedReader reader{peer};
  while (auto line = reader.read_line().value()) heard.append(*line).append("!");
  for (char& letter : heard) letter = static_cast<char>(std::toupper(letter));
  peer.write_all(heard).value();
}

void proxy(TcpStream client, std::uint16_t port) {
  auto server = weft::net::connect({"127.0.0.1", port}).value();
  const auto copied = weft::net::copy_both(client, server).value();
  std::printf("proxy: %llu bytes there, %llu back\n",
              static_cast<unsigned long long>(copied.forth),
              static_cast<unsigned long long>(copied.back));
}

std::string ask(std::uint16_t port, std::string_view text) {
  auto stream = weft::net::connect({"127.0.0.1", port}).value();
  stream.write_all(text).value();
  stream.shutdown_write().value();  // all is said
  weft::net::BufferedReader answer{stream};
  return std::string{answer.read_line().value().value_or("nothing")};
}

}  // namespace

int main() {
  weft::run([] {
    TcpListener behind = weft::net::listen({"127.0.0.1", 0}).value();
    TcpListener front = weft::net::listen({"127.0.0.1", 0}).value();
    std::string answer;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("server", [&] { weft::net::serve(behind, shout).value(); });
      n.spawn("proxy", [&] {
        const auto through = [&](TcpStream client) { proxy(std::move(client), behind.port()); };
        weft::net::serve(front, through).value();
      });
      answer = ask(front.port(), "over\nunder\n");
      front.close().value();  // both finish what they are at, and end
      behind.close().value();
    });
    std::printf("client: %s\n", answer.c_str());
  });
}
