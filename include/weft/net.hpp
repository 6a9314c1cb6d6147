// Sockets: TCP, UDP and Unix, the names of hosts, and what stands on streams. docs/io.md
#pragma once

#include <weft/net/buffered.hpp>
#include <weft/net/copy.hpp>
#include <weft/net/endpoint.hpp>
#include <weft/net/resolve.hpp>
#include <weft/net/serve.hpp>
#include <weft/net/tcp.hpp>
#include <weft/net/udp.hpp>
#include <weft/net/unix.hpp>
