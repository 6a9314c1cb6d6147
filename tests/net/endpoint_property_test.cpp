#include <weft/net/endpoint.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cstdint>
#include <string>

namespace weft::net {
namespace {

Endpoint any_endpoint() {
  const auto port = *rc::gen::arbitrary<std::uint16_t>();
  switch (*rc::gen::inRange(0, 5)) {
    case 0: return {*rc::gen::arbitrary<Endpoint::Ipv4>(), port};
    case 1: {
      // Zeros in a row are what is written shorter.
      auto bytes = *rc::gen::arbitrary<Endpoint::Ipv6>();
      const auto from = *rc::gen::inRange<std::size_t>(0, bytes.size());
      const auto to = *rc::gen::inRange<std::size_t>(from, bytes.size() + 1);
      for (std::size_t i = from; i < to; ++i) bytes[i] = 0;
      return {bytes, port, *rc::gen::arbitrary<std::uint32_t>()};
    }
    case 2: {
      const auto label = rc::gen::container<std::string>(rc::gen::elementOf(std::string{"az-_09"}));
      const auto labels = *rc::gen::container<std::vector<std::string>>(3, label);
      std::string name;
      for (const std::string& one : labels) name += "l" + one.substr(0, 62) + ".";
      return {name + "org", port};
    }
    case 3: {
      const auto bytes = *rc::gen::arbitrary<std::string>();  // of an abstract name: any
      return Endpoint::unix_socket("@" + bytes.substr(0, 107));
    }
    default: {
      const auto path = *rc::gen::container<std::string>(rc::gen::inRange('!', '~'));
      return Endpoint::unix_socket("/" + path.substr(0, 106));
    }
  }
}

TEST(EndpointProperty, PrintsWhatParseReads) {
  EXPECT_TRUE(rc::check("parse(to_string(e)) == e", [] {
    const Endpoint endpoint = any_endpoint();
    const Result<Endpoint> parsed = Endpoint::parse(to_string(endpoint));
    RC_ASSERT(parsed.has_value());
    RC_ASSERT(*parsed == endpoint);
    RC_ASSERT(parsed->hash() == endpoint.hash());
  }));
}

TEST(EndpointProperty, GoesToTheKernelAndBack) {
  EXPECT_TRUE(rc::check("of(address(e)) == e", [] {
    const Endpoint endpoint = any_endpoint();
    const Result<SocketAddress> address = endpoint.address();
    RC_ASSERT(address.has_value() != endpoint.is_name());
    if (address) RC_ASSERT(Endpoint::of(*address) == endpoint);
  }));
}

TEST(EndpointProperty, AnyTextIsReadOrRefused) {
  EXPECT_TRUE(rc::check("what is read prints as what is read again", [] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::oneOf(rc::gen::elementOf(std::string{"[]:.%@/unix0123456789af"}),
                       rc::gen::arbitrary<char>()));
    const Result<Endpoint> parsed = Endpoint::parse(text);
    if (!parsed) {
      RC_ASSERT(!parsed.error().message().empty());
      return;
    }
    RC_ASSERT(Endpoint::parse(to_string(*parsed)).value() == *parsed);
  }));
}

}  // namespace
}  // namespace weft::net
