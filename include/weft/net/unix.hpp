// Unix sockets: streams between processes of one machine, named by files or by abstract names.
#pragma once

#include <weft/net/listener_socket.hpp>
#include <weft/net/stream_socket.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace weft::net {

struct UnixConnectOptions {
  Duration timeout = Duration::max();
};

class UnixStream : public StreamSocket {
 public:
  UnixStream() = default;  // closed
  // Takes over a connected socket that does not block. If that fails, it is closed.
  static Result<UnixStream> adopt(int fd);

  // While the listener's backlog is full, it waits and tries again. Cancel point.
  static Result<UnixStream> connect(const Endpoint& to, const UnixConnectOptions& options = {});
  // The same; a leading '@': an abstract name.
  static Result<UnixStream> connect(std::string_view path, const UnixConnectOptions& options = {}) {
    return connect(Endpoint::unix_socket(path), options);
  }

  // Two that are connected with each other.
  static Result<std::pair<UnixStream, UnixStream>> pair();

 private:
  friend class UnixListener;
  explicit UnixStream(Descriptor socket) noexcept : StreamSocket(std::move(socket)) {}
};

struct UnixListenOptions {
  int backlog = 4096;
  // A socket file that nobody listens on any more is removed first. Without it, and always when
  // somebody does listen, or when the file is something else: std::errc::address_in_use.
  bool remove_stale = false;
  bool unlink_at_close = false;  // the file goes with the listener
  OnPause on_pause{};
};

class UnixListener : public ListenerSocket {
 public:
  UnixListener() = default;  // closed
  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&& other) noexcept;
  ~UnixListener();

  static Result<UnixListener> listen(const Endpoint& at, const UnixListenOptions& options = {});
  static Result<UnixListener> listen(std::string_view path, const UnixListenOptions& options = {}) {
    return listen(Endpoint::unix_socket(path), options);
  }

  // The next connection.
  Result<UnixStream> accept() const;
  Result<void> close() noexcept;

 private:
  UnixListener(Descriptor socket, Endpoint local, OnPause on_pause, std::string unlinked) noexcept
      : ListenerSocket(std::move(socket), std::move(local), std::move(on_pause)),
        unlinked_(std::move(unlinked)) {}

  std::string unlinked_;  // the file that goes with us, if any
};

}  // namespace weft::net
