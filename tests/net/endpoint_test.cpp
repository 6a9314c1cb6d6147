#include <weft/net/endpoint.hpp>

#include <gtest/gtest.h>

#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace weft::net {
namespace {

using Kind = Endpoint::Kind;

TEST(Endpoint, IsMadeOfAHostAndAPort) {
  EXPECT_EQ(Endpoint{}.kind(), Kind::none);
  const Endpoint four{"127.0.0.1", 8080};
  EXPECT_EQ(four.kind(), Kind::ipv4);
  EXPECT_EQ(four.ipv4(), (Endpoint::Ipv4{127, 0, 0, 1}));
  EXPECT_EQ(four.port(), 8080);
  EXPECT_TRUE(four.is_loopback());
  const Endpoint six{"fe80::1%3", 1};
  EXPECT_EQ(six.kind(), Kind::ipv6);
  EXPECT_EQ(six.scope(), 3U);
  EXPECT_EQ(six.host(), "fe80::1%3");
  EXPECT_EQ((Endpoint{"example.org", 80}).kind(), Kind::name);
  EXPECT_EQ((Endpoint{"example.org", 80}).host(), "example.org");
  EXPECT_TRUE((Endpoint{"fe80::1%eth0", 80}).is_name()) << "only the system knows eth0";
  EXPECT_TRUE((Endpoint{"127.0.0.1%1", 80}).is_name());
  EXPECT_TRUE((Endpoint{"::", 0}).is_any());
  EXPECT_TRUE((Endpoint{"0.0.0.0", 0}).is_any());
  EXPECT_TRUE((Endpoint{"::1", 0}).is_loopback());
  EXPECT_TRUE((Endpoint{"224.0.0.251", 0}).is_multicast());
  EXPECT_TRUE((Endpoint{"ff02::1", 0}).is_multicast());
  EXPECT_FALSE((Endpoint{"localhost", 0}).is_loopback()) << "who knows";
}

TEST(Endpoint, ParsesWhatItPrints) {
  for (const char* const text :
       {"1.2.3.4:80", "[::1]:80", "[fe80::1%2]:443", "host:80", "a-b_c.example.org:0",
        "example.org.:65535", "unix:/run/x.sock", "unix:relative", "unix:@abstract",
        "[fe80::1%eth0]:80", "[::ffff:1.2.3.4]:7", "3com.example:1"}) {
    const Result<Endpoint> parsed = Endpoint::parse(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message();
    EXPECT_EQ(to_string(*parsed), text);
    std::ostringstream out;
    out << *parsed;
    EXPECT_EQ(out.str(), text);
  }
  EXPECT_EQ(to_string(Endpoint::parse("[0:0:0:0:0:0:0:1]:080").value()), "[::1]:80");
  EXPECT_EQ(to_string(Endpoint{}), "none");
}

TEST(Endpoint, SaysWhatIsWrongWithAText) {
  const std::vector<std::pair<std::string, EndpointError>> bad{
      {"", EndpointError::empty},
      {":80", EndpointError::no_host},
      {"[]:80", EndpointError::no_host},
      {"host", EndpointError::no_port},
      {"[::1]", EndpointError::no_port},
      {"host:", EndpointError::bad_port},
      {"host:http", EndpointError::bad_port},
      {"host:65536", EndpointError::bad_port},
      {"host:-1", EndpointError::bad_port},
      {"host:+1", EndpointError::bad_port},
      {"host: 1", EndpointError::bad_port},
      {"host:1 ", EndpointError::bad_port},
      {"[::1]80", EndpointError::bad_port},
      {"[::1]:", EndpointError::bad_port},
      {"::1:80", EndpointError::bare_ipv6},
      {"[::1:80", EndpointError::unclosed_bracket},
      {"[host]:80", EndpointError::bad_host},
      {"[127.0.0.1]:80", EndpointError::bad_host},
      {"[::1%]:80", EndpointError::bad_host},
      {"[::1%a b]:80", EndpointError::bad_host},
      {"1.2.3:80", EndpointError::bad_host},
      {"256.1.1.1:80", EndpointError::bad_host},
      {"01.2.3.4:80", EndpointError::bad_host},
      {"a..b:80", EndpointError::bad_host},
      {".:80", EndpointError::bad_host},
      {"two words:80", EndpointError::bad_host},
      {std::string{"a\0b:80", 6}, EndpointError::bad_host},
      {std::string(64, 'a') + ":80", EndpointError::bad_host},
      {"unix:", EndpointError::no_path},
      {"unix:/" + std::string(107, 'x'), EndpointError::path_too_long},
      {std::string{"unix:/a\0b", 9}, EndpointError::bad_path},
  };
  std::set<std::string> messages;
  for (const auto& [text, error] : bad) {
    const Result<Endpoint> parsed = Endpoint::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error(), error) << text << ": " << parsed.error().message();
    EXPECT_EQ(parsed.error(), std::errc::invalid_argument) << text;
    messages.insert(parsed.error().message());
  }
  EXPECT_EQ(messages.size(), 10U) << "each has words of its own";
}

TEST(Endpoint, GoesToTheKernelAndBack) {
  for (const Endpoint& endpoint :
       {Endpoint{"1.2.3.4", 80}, Endpoint{"fe80::1%2", 443}, Endpoint::unix_socket("/run/x"),
        Endpoint::unix_socket("@lift"), Endpoint::unix_socket(std::string_view{"\0a\0b", 4}),
        Endpoint::unix_socket("/" + std::string(106, 'x')),
        Endpoint::unix_socket("@" + std::string(107, 'x')), Endpoint::unix_socket("")}) {
    const Result<SocketAddress> address = endpoint.address();
    ASSERT_TRUE(address) << endpoint << ": " << address.error().message();
    EXPECT_EQ(Endpoint::of(*address), endpoint) << endpoint;
  }
  EXPECT_EQ((Endpoint{"host", 1}).address().error(), std::errc::destination_address_required);
  EXPECT_EQ(Endpoint{}.address().error(), std::errc::invalid_argument);
  EXPECT_EQ(Endpoint::unix_socket("@" + std::string(108, 'x')).address().error(),
            EndpointError::path_too_long);
  EXPECT_EQ(Endpoint::of(SocketAddress{}), Endpoint{});
}

TEST(Endpoint, AFileCalledAtIsNoAbstractName) {
  SocketAddress address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
  un.sun_family = AF_UNIX;
  std::strcpy(un.sun_path, "@file");
  address.length = offsetof(sockaddr_un, sun_path) + 6;
  const Endpoint file = Endpoint::of(address);
  EXPECT_FALSE(file.is_abstract());
  EXPECT_EQ(file.path(), "./@file");
}

TEST(Endpoint, MapsIpv4IntoIpv6AndBack) {
  const Endpoint four{"1.2.3.4", 80};
  EXPECT_EQ(to_string(four.mapped()), "[::ffff:1.2.3.4]:80");
  EXPECT_EQ(four.mapped().unmapped(), four);
  EXPECT_EQ((Endpoint{"::1", 1}).unmapped(), (Endpoint{"::1", 1}));
  EXPECT_EQ((Endpoint{"::1", 1}).mapped(), (Endpoint{"::1", 1}));
}

TEST(Endpoint, ComparesAndHashes) {
  const std::vector<Endpoint> different{
      {"1.2.3.4", 80}, {"1.2.3.4", 81},   {"1.2.3.5", 80}, {"::1", 80},
      {"::1%1", 80},   {"102:304::", 80}, {"host", 80},    Endpoint::unix_socket("host"),
      Endpoint{},      Endpoint::unix_socket("@host")};
  EXPECT_EQ(std::set<Endpoint>(different.begin(), different.end()).size(), different.size());
  EXPECT_EQ(std::unordered_set<Endpoint>(different.begin(), different.end()).size(),
            different.size());
  EXPECT_EQ(Endpoint::parse("[::1]:80").value(), (Endpoint{"0::1", 80}));
  EXPECT_EQ((Endpoint{"::1", 80}).with_port(81), (Endpoint{"::1", 81}));
  EXPECT_LT((Endpoint{"1.2.3.4", 80}), (Endpoint{"1.2.3.4", 81}));
}

}  // namespace
}  // namespace weft::net
