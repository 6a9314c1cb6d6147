// Servers: an echo, and an HTTP server that says hello (W13), which run until they are told to stop
// while somebody else makes the load; and ten thousand connections with nothing to say (W20).
#include "workloads.hpp"

#include <weft/blocking.hpp>
#include <weft/engine.hpp>
#include <weft/net.hpp>
#include <weft/nursery.hpp>
#include <weft/stop_on_signal.hpp>
#include <weft/time.hpp>

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBuffer = 4096;  // as the peers have it, but on the fiber's stack

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ── what is served ──────────────────────────────────────────────────────────────────────────────

void echo(const net::TcpStream& peer) {
  std::array<std::byte, kBuffer> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (;;) {
    const auto got = peer.read_some(buffer);
    if (!got || got->empty() || !peer.write_all(*got)) return;
  }
}

constexpr std::string_view kHello =
    "HTTP/1.1 200 OK\r\n"
    "Content-Type: text/plain\r\n"
    "Content-Length: 12\r\n"
    "\r\n"
    "hello world\n";
constexpr std::string_view kOnlyGet =
    "HTTP/1.1 405 Method Not Allowed\r\n"
    "Allow: GET\r\n"
    "Connection: close\r\n"
    "Content-Length: 0\r\n"
    "\r\n";
constexpr std::string_view kTooLong =
    "HTTP/1.1 431 Request Header Fields Too Large\r\n"
    "Connection: close\r\n"
    "Content-Length: 0\r\n"
    "\r\n";

bool equal_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// The head of a request, without the empty line that ends it.
class Head {
 public:
  explicit Head(std::string_view lines) : lines_(lines) {}

  [[nodiscard]] bool is_get() const { return lines_.starts_with("GET "); }
  [[nodiscard]] bool is_last() const {
    const std::string_view request = lines_.substr(0, lines_.find("\r\n"));
    for (std::size_t at = 0; (at = lines_.find("\r\n", at)) != std::string_view::npos;) {
      at += 2;
      constexpr std::string_view kName = "connection:";
      if (!equal_but_for_case(lines_.substr(at, kName.size()), kName)) continue;
      std::string_view value = lines_.substr(at + kName.size());
      value = value.substr(0, value.find("\r\n"));
      value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
      return equal_but_for_case(value, "close");
    }
    return request.ends_with("HTTP/1.0");
  }

 private:
  std::string_view lines_;
};

// Answers that are sent at once: requests may come several at a time.
class Answers {
 public:
  explicit Answers(const net::TcpStream& peer) : peer_(peer) {}
  // False: the peer is gone.
  bool add_hello() { return ++hellos_ < kAtOnce || send(); }
  bool send() {
    return hellos_ == 0 || peer_
                               .write_all(std::string_view{kHellos}.substr(
                                   0, std::exchange(hellos_, std::size_t{0}) * kHello.size()))
                               .has_value();
  }

 private:
  static constexpr std::size_t kAtOnce = 32;
  static inline const std::string kHellos = [] {
    std::string all;
    for (std::size_t i = 0; i < kAtOnce; ++i) all += kHello;
    return all;
  }();

  const net::TcpStream& peer_;
  std::size_t hellos_ = 0;
};

// The same to every GET; requests have no bodies.
void hello(const net::TcpStream& peer) {
  std::array<std::byte, kBuffer> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t held = 0;                   // the beginning of a head
  Answers answers{peer};
  for (;;) {
    const auto got = peer.read_some(std::span{buffer}.subspan(held));
    if (!got || got->empty()) return;
    std::string_view asked = text(std::span{buffer}.first(held + got->size()));
    for (std::size_t end = 0; (end = asked.find("\r\n\r\n")) != std::string_view::npos;) {
      const Head head{asked.substr(0, end)};
      if (!head.is_get()) return static_cast<void>(answers.send() && peer.write_all(kOnlyGet));
      if (!answers.add_hello()) return;
      if (head.is_last()) return static_cast<void>(answers.send());
      asked.remove_prefix(end + 4);
    }
    if (!answers.send()) return;
    if (asked.size() == buffer.size()) return static_cast<void>(peer.write_all(kTooLong));
    std::copy(asked.begin(), asked.end(), reinterpret_cast<char*>(buffer.data()));
    held = asked.size();
  }
}

// A fiber per connection.
template <class Talk>
void serve(const net::TcpListener& listener, Talk talk) {
  nursery([&](Nursery& n) {
    for (;;) {
      net::TcpStream peer = listener.accept().value();
      n.spawn([talk, peer = std::move(peer)] { talk(peer); });
    }
  });
}

// ── W13 ─────────────────────────────────────────────────────────────────────────────────────────

// Until a signal comes.
template <class Talk>
void run_server(unsigned workers, std::uint16_t port, const std::string& name, Talk talk) {
  FiberIo io{Options{.workers = workers}};
  const StopOnSignal stop{io};
  io.run([&] {
    const net::TcpListener listener = net::listen({"127.0.0.1", port}).value();
    emit("port", listener.port(), name.c_str());
    std::fflush(stdout);
    serve(listener, talk);
  });
  emit(name + "_server_cpu", cpu_seconds(), "s");
}

// ── W20 ─────────────────────────────────────────────────────────────────────────────────────────

void need_descriptors(long count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  constexpr long kOthers = 64;
  if (limit.rlim_cur < static_cast<rlim_t>(count + kOthers))
    throw NotHere{"idle_connections needs " + std::to_string(count + kOthers) +
                  " descriptors, but ulimit -Hn is " + std::to_string(limit.rlim_max)};
}

// The other side, in a process of its own: it has as many descriptors again. Made before there are
// threads.
class Crowd {
 public:
  explicit Crowd(long count) {
    expect(::pipe(to_child_.data()) == 0 && ::pipe(from_child_.data()) == 0, "pipes");
    child_ = ::fork();
    expect(child_ >= 0, "a process");
    ::close(child_ ? to_child_[0] : to_child_[1]);
    ::close(child_ ? from_child_[1] : from_child_[0]);
    if (child_ == 0) ::_exit(run(count) ? 0 : 1);
  }
  ~Crowd() {
    ::close(to_child_[1]);
    ::close(from_child_[0]);
    ::waitpid(child_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // Returns when all connections are made and each has had an answer. Blocks. False: they have not.
  [[nodiscard]] bool connect_to(std::uint16_t port) const {
    char done = 0;
    return ::write(to_child_[1], &port, sizeof port) == sizeof port &&
           ::read(from_child_[0], &done, 1) == 1;
  }

 private:
  // In the child.
  [[nodiscard]] bool run(long count) const {
    std::uint16_t port = 0;
    if (::read(to_child_[0], &port, sizeof port) != sizeof port) return false;
    for (long i = 0; i < count; ++i)
      if (!talk_once(port)) return false;
    char nothing = 0;
    return ::write(from_child_[1], &nothing, 1) == 1 &&
           ::read(to_child_[0], &nothing, 1) == 0;  // until the parent has seen enough
  }
  // The connection stays.
  static bool talk_once(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::array<char, 64> said{"once"}, heard{};
    return fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
           ::send(fd, said.data(), said.size(), MSG_NOSIGNAL) == ssize_t{said.size()} &&
           ::recv(fd, heard.data(), heard.size(), MSG_WAITALL) == ssize_t{heard.size()} &&
           said == heard;
  }

  std::array<int, 2> to_child_{}, from_child_{};
  pid_t child_ = -1;
};

// What the server has for each of them, buffers and stacks included, but not the kernel's sockets.
void idle_connections(unsigned workers) {
  const long count = scaled(10'000);
  need_descriptors(count);
  const Crowd crowd{count};
  FiberIo io{Options{.workers = workers}};
  const auto look = [&](std::uint16_t port) {
    const Memory before = Memory::now();
    expect(blocking([&] { return crowd.connect_to(port); }), "idle_connections: every answer");
    const Memory after = Memory::now();
    const double cpu_before = cpu_seconds();
    sleep_for(lasting(5s));
    const double cpu = cpu_seconds() - cpu_before;
    const auto bytes_each = [&](double bytes) { return bytes / static_cast<double>(count); };
    emit("conn_10k", bytes_each(after.resident - before.resident), "B");
    emit("conn_10k_tables", bytes_each(after.page_tables - before.page_tables), "B");
    emit("conn_10k_cpu", cpu * 1e3, "ms");
  };
  io.run([&] {
    const net::TcpListener listener = net::listen({"127.0.0.1", 0}).value();
    race([&] { serve(listener, echo); }, [&] { look(listener.port()); });
  });
}

}  // namespace

bool run_net_workload(std::string_view workload, unsigned workers, std::uint16_t port) {
  if (workload == "echo") {
    run_server(workers, port, "echo", echo);
  } else if (workload == "http") {
    run_server(workers, port, "http", hello);
  } else if (workload == "idle_connections") {
    idle_connections(workers);
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::bench
