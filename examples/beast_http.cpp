// Boost.Beast over weft's sockets: an HTTP server and its client, in Beast's synchronous style.
// What looks as if it blocked a thread parks a fiber.
#include <weft/weft.hpp>

#include <weft/net/asio.hpp>

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <cstdint>
#include <cstdio>
#include <string>

namespace beast = boost::beast;
namespace http = boost::beast::http;
using weft::net::AsioStream;
using weft::net::TcpStream;

namespace {

http::response<http::string_body> respond(const http::request<http::string_body>& request) {
  const bool known = request.target() == "/loom";
  http::response<http::string_body> response{known ? http::status::ok : http::status::not_found,
                                             request.version()};
  response.set(http::field::content_type, "text/plain");
  response.body() = known ? "over, under" : "no such thread";
  response.keep_alive(request.keep_alive());
  response.prepare_payload();
  return response;
}

void handle(TcpStream peer) {
  AsioStream stream{peer};
  beast::flat_buffer buffer;
  for (bool more = true; more;) {
    http::request<http::string_body> request;
    beast::error_code error;
    http::read(stream, buffer, request, error);
    if (error) return;  // the client has gone
    more = request.keep_alive();
    http::write(stream, respond(request));
  }
}

void get(TcpStream& server, const std::string& target) {
  AsioStream stream{server};
  http::request<http::empty_body> request{http::verb::get, target, 11};
  request.set(http::field::host, "localhost");
  http::write(stream, request);
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  http::read(stream, buffer, response);
  std::printf("%s: %u %s\n", target.c_str(), response.result_int(), response.body().c_str());
}

}  // namespace

int main() {
  weft::run([] {
    auto listener = weft::net::listen({"127.0.0.1", 0}).value();
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("server", [&] { weft::net::serve(listener, handle).value(); });
      auto server = weft::net::connect({"127.0.0.1", listener.port()}).value();
      get(server, "/loom");  // both over one connection
      get(server, "/shuttle");
      listener.close().value();
    });
  });
}
