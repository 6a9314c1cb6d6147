// Addresses as people write them.
#pragma once

#include <weft/net/endpoint.hpp>

#include <string_view>

namespace weft::net::text {

// True: `host` is an IPv4 or IPv6 address, and `out` is now that one, with port 0.
bool read_ip(std::string_view host, Endpoint& out);

}  // namespace weft::net::text
