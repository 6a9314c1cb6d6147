// ListenerSocket: what TCP and Unix listeners have in common: others connect, and are accepted.
#pragma once

#include <weft/core/arm.hpp>
#include <weft/core/descriptor.hpp>
#include <weft/core/time.hpp>
#include <weft/net/endpoint.hpp>
#include <weft/result.hpp>

#include <functional>
#include <system_error>
#include <utility>

namespace weft::net {

// Called when accepting has to pause, with the reason and for how long. By whichever fiber accepts,
// so maybe by several at once.
using OnPause = std::function<void(std::error_code, Duration)>;

// A handle that owns its socket: it moves, and closes when it is destroyed. Any number of fibers
// may accept at once: each connection goes to one of them.
//
// accept() of its children parks until there is a connection, and is a cancel point: cancelled, it
// has taken none. A connection that broke before it was accepted is skipped. When the process or
// the system is out of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM), it does not fail,
// and does not spin: it waits for a millisecond, then for two, and so on up to a second, and tries
// again; who connects waits meanwhile in the backlog. IoError::closed: we have closed it.
class ListenerSocket {
 public:
  // Calls that are under way end with IoError::closed; waits for them to leave. Never a cancel
  // point. Idempotent.
  Result<void> close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return socket_.is_open(); }
  explicit operator bool() const noexcept { return is_open(); }

  // An arm that completes when accept() would not wait. Loses nothing when it loses.
  [[nodiscard]] Descriptor::Ready on_acceptable() const noexcept {
    return socket_.on_ready(Way::in);
  }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Descriptor::Ready, Handler> on_acceptable(Handler handler) const {
    return Handled<Descriptor::Ready, Handler>{std::move(handler), socket_, Way::in};
  }

  // From now on connections may be accepted before anybody asks for them, if the engine's reactor
  // can do that: io_uring takes them all with one operation, and accept() costs no system call. For
  // servers that take whatever comes: these connections count at once against the process's
  // descriptors, and their peers do not see that nobody is there for them yet. Those that nobody
  // has asked for are closed with the listener, as those in its backlog are. To be called before
  // the first accept(): one that is under way may be passed over in favour of later ones. Never
  // parks. Idempotent.
  void accept_ahead() const noexcept { socket_.accept_ahead(); }

  // An arm that completes when close() is called. It may complete before that: ask is_open(). For
  // those who do not accept at the moment.
  [[nodiscard]] Descriptor::Closed on_closed() const noexcept { return socket_.on_closed(); }

  [[nodiscard]] const Endpoint& local_endpoint() const noexcept { return local_; }
  [[nodiscard]] int native_handle() const noexcept { return socket_.fd(); }
  [[nodiscard]] const Descriptor& descriptor() const noexcept { return socket_; }

 protected:
  // How the sockets that it makes are to be taken over.
  struct Accepted {
    Carries carries;
    std::string_view reading;
    std::string_view writing;
  };

  ListenerSocket() = default;
  ListenerSocket(Descriptor socket, Endpoint local, OnPause on_pause) noexcept
      : socket_(std::move(socket)), local_(std::move(local)), on_pause_(std::move(on_pause)) {}
  ListenerSocket(ListenerSocket&&) noexcept = default;
  ListenerSocket& operator=(ListenerSocket&&) noexcept = default;
  ~ListenerSocket() = default;

  Result<Descriptor> accept_socket(const Accepted& as, SocketAddress* peer) const;

 private:
  Result<void> pause(std::error_code why, Duration length) const;

  Descriptor socket_;
  Endpoint local_;
  OnPause on_pause_;
};

}  // namespace weft::net
