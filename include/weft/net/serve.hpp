// serve: accepts connections, and runs a handler for each, until it is told to stop.
//
//   weft::FiberIo io;
//   const weft::StopOnSignal stop{io};                        // Ctrl-C and kill ...
//   io.run([] {
//     auto listener = weft::net::listen({"::", 8080}).value();
//     weft::net::serve(listener, echo, {.drain_grace = 5s}).value();
//   });                                                       // ... end it in order
//
// Stopping in order is: no more connections are accepted; handlers that are at work may finish
// within the grace; those that have not by then are cancelled; all are joined.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/cancel.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/result.hpp>
#include <weft/select.hpp>
#include <weft/semaphore.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace weft::net {

// What serve() accepts from: TcpListener, UnixListener, or what a layer above makes of them.
// on_closed() completes when it is closed, or earlier.
template <class L>
concept Listener = requires(L& listener) {
  typename decltype(listener.accept())::value_type;
  { listener.accept().error() } -> std::same_as<std::error_code>;
  { listener.is_open() } -> std::same_as<bool>;
  listener.close();
  listener.on_closed();
};
template <Listener L>
using ConnectionOf = typename decltype(std::declval<L&>().accept())::value_type;

struct ServeOptions {
  Name name{};
  // At a time, of each listener. Who connects when there are so many waits in its backlog. 0: no
  // limit; a listener that has accept_ahead() is asked to, then.
  std::size_t max_connections = 0;
  // How long handlers may go on when the server is stopped or cancelled; this_fiber::stopping()
  // tells them. Duration::max(): as long as they like.
  Duration drain_grace = Duration::zero();
  // Called with what a handler has thrown, on its fiber, maybe on several workers at a time.
  // Without one it is printed on standard error. If it throws, the server ends: all handlers are
  // cancelled, and serve() throws that.
  std::function<void(std::exception_ptr)> on_error{};
};

// The server as an object, for those who want to stop it from elsewhere, or to see how it is. Must
// outlive its serve(). Several listeners may be served at once; the counts are of all of them.
class Server {
 public:
  explicit Server(ServeOptions options = {}) : options_(std::move(options)) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Calls `handler(connection)` on a fiber of its own for each connection that `listener` accepts;
  // by reference, so that it must bear being called by several at once. Returns when the listener
  // has been closed and the last handler has ended, or after stop(), or when accepting has failed
  // for good, which is the only failure; the listener is closed then. Cancel point: cancelled, it
  // stops in order before it throws. A connection for which there is no stack is closed and counts
  // as failed.
  template <Listener L, class Handler>
    requires std::invocable<Handler&, ConnectionOf<L>>
  Result<void> serve(L& listener, Handler handler, Site site = Site::here());

  // Stops in order, now and for good. Never parks; from any fiber or thread. Idempotent.
  void stop() noexcept { stop_.request_stop(); }

  [[nodiscard]] std::uint64_t accepted() const noexcept { return accepted_.load(kRelaxed); }
  // Handlers that are at work.
  [[nodiscard]] std::size_t live() const noexcept { return live_.load(kRelaxed); }
  // Handlers that have thrown.
  [[nodiscard]] std::uint64_t failed() const noexcept { return failed_.load(kRelaxed); }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  class Round;
  class Place;
  template <class L, class Handler>
  struct Connection;

  void report(const std::exception_ptr& error) const;

  const ServeOptions options_;
  std::stop_source stop_;
  Atomic<std::uint64_t> accepted_{0};
  Atomic<std::size_t> live_{0};
  Atomic<std::uint64_t> failed_{0};
};

// One call of serve(), and all of its handlers.
class Server::Round {
 public:
  explicit Round(Server& server);
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  void entered() noexcept { members_.fetch_add(1, kRelaxed); }
  // By each handler, and by who accepts.
  void left() noexcept {
    if (members_.fetch_sub(1, std::memory_order_acq_rel) == 1) all_left_.set();
  }
  void wait_until_all_left() { all_left_.wait(); }

  // run() throws this, unless something else was first.
  void fail(std::exception_ptr error) noexcept;
  // Runs `body(nursery)` in the caller's scope, but what it spawns is not cancelled with that: when
  // the body has ended, however it did, they have the grace. Returns when all have ended.
  void run(const std::function<void(Nursery&)>& body);

  [[nodiscard]] Server& server() const noexcept { return server_; }
  [[nodiscard]] Semaphore& places() noexcept { return places_; }

 private:
  void without_stack(const std::exception_ptr& error) noexcept;
  void drain(Nursery& handlers) const noexcept;

  Server& server_;
  Semaphore places_;
  Event all_left_{"connections"};
  Atomic<std::size_t> members_{1};  // who accepts is one
  Lock lock_;                       // protects error_
  std::exception_ptr error_;
};

// One of max_connections.
class Server::Place {
 public:
  Place(Round& round, Semaphore::Permit permit) noexcept
      : round_(&round), permit_(std::move(permit)) {
    round_->entered();
    round_->server().live_.fetch_add(1, kRelaxed);
  }
  Place(Place&& other) noexcept
      : round_(std::exchange(other.round_, nullptr)), permit_(std::move(other.permit_)) {}
  Place& operator=(Place&&) = delete;
  ~Place() {
    if (!round_) return;
    round_->server().live_.fetch_sub(1, kRelaxed);
    permit_.release();
    round_->left();
  }

 private:
  Round* round_;
  Semaphore::Permit permit_;
};

template <class L, class Handler>
struct Server::Connection {
  Round& round;
  L& listener;
  Handler& handler;
  Nursery& nursery;
  Place place;  // given back after the connection is closed
  ConnectionOf<L> stream;

  void operator()() && {
    try {
      std::invoke(handler, std::move(stream));
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      failed(std::current_exception());
    }
  }
  void failed(const std::exception_ptr& error) {
    round.server().failed_.fetch_add(1, kRelaxed);
    try {
      round.server().report(error);
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      round.fail(std::current_exception());
      static_cast<void>(listener.close());  // wakes who accepts
      nursery.cancel();
    }
  }
};

template <Listener L, class Handler>
  requires std::invocable<Handler&, ConnectionOf<L>>
Result<void> Server::serve(L& listener, Handler handler, Site site) {
  static_assert(std::is_void_v<std::invoke_result_t<Handler&, ConnectionOf<L>>>,
                "serve() drops no results: the handler returns void");
  if constexpr (requires { listener.accept_ahead(); })
    if (options_.max_connections == 0) listener.accept_ahead();
  Round round{*this};
  const auto accept_all = [&](Nursery& n) -> Result<void> {
    while (listener.is_open()) {
      if (select_first(round.places().on_acquire(), listener.on_closed()) != 0) continue;
      Semaphore::Permit permit{round.places()};
      auto accepted = listener.accept();
      if (!accepted && accepted.error() == IoError::closed) break;
      if (!accepted) return accepted.failure();
      accepted_.fetch_add(1, kRelaxed);
      Connection<L, Handler> connection{
          round, listener, handler, n, Place{round, std::move(permit)}, std::move(*accepted)};
      if (!n.try_spawn(std::move(connection), site)) break;  // a handler has ended the server
    }
    return {};
  };
  Result<void> ended;
  round.run([&](Nursery& n) {
    static_cast<void>(with_stop(stop_.get_token(), [&] {
      struct Close {
        L& of;
        ~Close() { static_cast<void>(of.close()); }
      };
      {
        const Close close{listener};
        ended = accept_all(n);
      }
      if (!ended) return;
      round.left();
      round.wait_until_all_left();
    }));
  });
  return ended;
}

// A Server that nobody else knows: what ends it is a close of the listener, or a cancel.
template <Listener L, class Handler>
  requires std::invocable<Handler&, ConnectionOf<L>>
Result<void> serve(L& listener, Handler handler, ServeOptions options = {},
                   Site site = Site::here()) {
  Server server{std::move(options)};
  return server.serve(listener, std::move(handler), site);
}

}  // namespace weft::net
