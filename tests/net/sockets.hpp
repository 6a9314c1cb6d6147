// What the tests of sockets share.
#pragma once

#include <weft/net.hpp>
#include <weft/sim.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft::net {

// On real sockets, and on those of the simulator, for some schedules.
inline void in_every_world(const std::function<void()>& f) {
  testing::on_workers({1U, 2U}, f);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("SimIo, seed " + std::to_string(seed));
    SimIo{{.seed = seed, .preempt = seed % 2 != 0}}.run(f);
  }
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

// The next bytes, so many; one read may give fewer.
inline std::string read_text(const StreamSocket& from, std::size_t size) {
  std::vector<std::byte> bytes(size);
  from.read_exactly(bytes).value();
  return text_of(bytes);
}

// Two ends of a connection over loopback.
struct Ends {
  TcpStream client;
  TcpStream server;
};
inline Ends connected(const Endpoint& at = {"127.0.0.1", 0}) {
  const auto listener = listen(at).value();
  TcpStream client = connect(listener.local_endpoint()).value();
  return {std::move(client), listener.accept().value()};
}

// Bytes that are different at every place, as far as that goes.
inline std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 1) {
  std::vector<std::byte> out(size);
  for (std::byte& byte : out) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(seed >> 56U);
  }
  return out;
}

}  // namespace weft::net
