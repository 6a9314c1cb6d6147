// Boost.Asio peer (sockets only): the stackful (spawn) and the C++20 coroutine (co) echo server.
// usage: asio echo <spawn|co> <port>
#include <boost/asio.hpp>
#include <boost/asio/spawn.hpp>
#include <string>
namespace asio = boost::asio;
using asio::ip::tcp;

static asio::awaitable<void> session(tcp::socket s) {
  char buf[4096];
  try {
    for (;;) {
      size_t n = co_await s.async_read_some(asio::buffer(buf), asio::use_awaitable);
      co_await asio::async_write(s, asio::buffer(buf, n), asio::use_awaitable);
    }
  } catch (boost::system::system_error&) {
  }
}
int main(int, char** argv) {
  asio::io_context io(1);
  tcp::acceptor acc(io, tcp::endpoint(asio::ip::address_v4::loopback(), std::atoi(argv[3])));
  if (std::string(argv[2]) == "spawn")
    asio::spawn(
        io,
        [&](asio::yield_context y) {
          for (;;) {
            tcp::socket s(io);
            acc.async_accept(s, y);
            s.set_option(tcp::no_delay(true));
            asio::spawn(
                io,
                [s = std::move(s)](asio::yield_context y) mutable {
                  char buf[4096];
                  boost::system::error_code ec;
                  for (;;) {
                    size_t n = s.async_read_some(asio::buffer(buf), y[ec]);
                    if (ec) return;
                    asio::async_write(s, asio::buffer(buf, n), y[ec]);
                    if (ec) return;
                  }
                },
                asio::detached);
          }
        },
        asio::detached);
  else
    asio::co_spawn(
        io,
        [&]() -> asio::awaitable<void> {
          for (;;) {
            tcp::socket s = co_await acc.async_accept(asio::use_awaitable);
            s.set_option(tcp::no_delay(true));
            asio::co_spawn(io, session(std::move(s)), asio::detached);
          }
        },
        asio::detached);
  io.run();
}
