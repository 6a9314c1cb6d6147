// What the tests of the simulated network share.
#pragma once

#include <weft/net.hpp>
#include <weft/sim_world.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>

namespace weft {

inline constexpr std::uint16_t kPort = 7000;

// A world with a client and a server, once for each seed; nothing is left open.
class SimNetTest : public ::testing::Test {
 protected:
  using Program = std::function<void(SimWorld&)>;

  static void on_worlds(const Program& program, std::uint64_t seeds = 50) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      SimIo io{{.seed = seed, .preempt = seed % 2 != 0}};
      SimWorld& world = io.world();
      world.host("server"), world.host("client");
      io.run([&] { program(world); });
      EXPECT_EQ(world.descriptors(), 0U);
      if (HasFailure()) return;
    }
  }
};

inline std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 131 + i / 251);
  return text;
}

inline std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span{text});
}
inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}

// All until the end, or until an error, which is stored.
inline std::string read_all(const net::TcpStream& stream, std::error_code* error = nullptr) {
  std::string all;
  std::string buffer(4096, '\0');
  for (;;) {
    const auto got = stream.read_some(bytes_of(buffer));
    if (!got && error) *error = got.error();
    if (!got || got->empty()) return all;
    all.append(buffer, 0, got->size());
  }
}

inline net::TcpListener listen_here(net::ListenOptions options = {}) {
  return net::listen({"0.0.0.0", kPort}, options).value();
}

// Connected streams: the client's end, and the server's.
inline void with_connection(
    SimWorld& world,
    const std::function<void(const net::TcpStream&, const net::TcpStream&)>& f) {
  std::optional<net::TcpStream> client, server;
  world.host("server").run([&] {
    const net::TcpListener listener = listen_here();
    world.host("client").run([&] { client = net::connect({"server", kPort}).value(); });
    server = listener.accept().value();
  });
  f(*client, *server);
}

}  // namespace weft
