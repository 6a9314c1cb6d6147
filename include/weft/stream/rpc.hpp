// Calls over a channel: each request carries the sender for its reply.
//
//   weft::RpcClient<int, int> square = weft::rpc<int, int>(n, [](int v) { return v * v; }, 4);
//   int nine = square.call(3);
//
//   auto a = square.start(1), b = square.start(2);      // two at once, from one fiber
//   use(a.get(), b.get());
#pragma once

#include <weft/channel.hpp>
#include <weft/nursery.hpp>

#include <concepts>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

namespace weft {

// Thrown by a call that gets no reply: the server has ended, or gave the request up.
class RpcServerGone : public std::runtime_error {
 public:
  RpcServerGone() : std::runtime_error("weft: the rpc server is gone, and has not replied") {}
};

// What a server receives. One that is destroyed without a reply makes its call throw RpcServerGone.
template <class Request, class Reply>
class RpcRequest {
 public:
  RpcRequest(Request with, Sender<Reply> to) : value(std::move(with)), tx_(std::move(to)) {}

  // Once. False: the caller does not wait any more.
  bool reply(Reply result) { return tx_.send(std::move(result)); }
  // The call throws `error`.
  void fail(std::exception_ptr error) { tx_.close(std::move(error)); }
  // Whether the caller does not wait any more.
  [[nodiscard]] bool abandoned() const { return tx_.closed(); }
  // That, as an arm.
  [[nodiscard]] auto on_abandoned() const noexcept { return tx_.on_peer_gone(); }

  Request value;

 private:
  Sender<Reply> tx_;
};

// A reply to come. Destroyed before, it is not missed.
template <class Reply>
class [[nodiscard]] RpcReply {
 public:
  explicit RpcReply(Receiver<Reply> rx) noexcept : rx_(std::move(rx)) {}

  // Waits for it: the reply, or the error of the server's function, or RpcServerGone. Once. Cancel
  // point.
  Reply get() {
    std::optional<Reply> reply = rx_.recv();
    if (!reply) throw RpcServerGone{};
    return *std::move(reply);
  }
  // As an arm: its value() is the reply, or empty if there will be none.
  [[nodiscard]] auto on_reply() const noexcept { return rx_.on_recv(); }

 private:
  Receiver<Reply> rx_;
};

// Copies call the same server, which ends when the last of them is gone.
template <class Request, class Reply>
class RpcClient {
 public:
  RpcClient() = default;
  explicit RpcClient(Sender<RpcRequest<Request, Reply>> tx) noexcept : tx_(std::move(tx)) {}

  // start(request).get(). A call that is cancelled leaves nothing behind: a request that nobody has
  // received yet never will be, and the reply to one that was is dropped.
  Reply call(Request request) const { return start(std::move(request)).get(); }
  // Returns when the server has received the request. Throws RpcServerGone. Cancel point.
  RpcReply<Reply> start(Request request) const {
    Channel<Reply> reply = oneshot<Reply>("rpc reply");
    if (!tx_.send(RpcRequest<Request, Reply>{std::move(request), std::move(reply.tx)}))
      throw RpcServerGone{};
    return RpcReply<Reply>{std::move(reply.rx)};
  }
  void drop() noexcept { tx_.drop(); }

 private:
  Sender<RpcRequest<Request, Reply>> tx_;
};

// A client, and the requests of its copies: for servers that decide by themselves when to reply to
// whom.
template <class Request, class Reply>
struct RpcEnds {
  RpcClient<Request, Reply> client;
  Receiver<RpcRequest<Request, Reply>> requests;
};
template <class Request, class Reply>
[[nodiscard]] RpcEnds<Request, Reply> rpc() {
  Channel<RpcRequest<Request, Reply>> ch{{.name = "rpc"}};
  return {RpcClient<Request, Reply>{std::move(ch.tx)}, std::move(ch.rx)};
}

namespace stream_detail {

template <class Request, class Reply, class F>
void serve(const Receiver<RpcRequest<Request, Reply>>& requests, F& f) {
  while (std::optional<RpcRequest<Request, Reply>> request = requests.recv()) {
    if (request->abandoned()) continue;
    std::optional<Reply> reply;
    std::exception_ptr error;  // the asker's alone once it is told: see OrderedTask::outcome()
    try {
      reply.emplace(std::invoke(f, std::move(request->value)));
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      error = std::current_exception();
    }
    if (reply) static_cast<void>(request->reply(*std::move(reply)));
    else request->fail(std::move(error));
  }
}

}  // namespace stream_detail

// A server that replies f(request), for up to `width` requests at once, in fibers of `n` that end
// when the last copy of the client is gone. Each reply goes to its own caller as soon as there is
// one. An error of `f` is thrown by that call, and the server goes on. With a width above 1, `f` is
// called by several fibers. Throws std::invalid_argument for a width of 0.
//
//   call(2) ─▶ ┐                ┌ ─▶ 4
//   call(3) ─▶ ┴ rpc(n, square) ┴ ─▶ 9
template <class Request, class Reply, class F>
[[nodiscard]] RpcClient<Request, Reply> rpc(Nursery& n, F f, std::size_t width = 1) {
  static_assert(!std::is_void_v<Reply>, "rpc: a reply is a value; std::monostate says nothing");
  static_assert(std::is_invocable_r_v<Reply, F&, Request>,
                "rpc: the function does not make a reply of a request");
  if (width == 0) throw std::invalid_argument("weft: rpc with a width of 0");
  auto [client, requests] = rpc<Request, Reply>();
  auto shared = std::make_shared<F>(std::move(f));
  for (std::size_t i = 0; i < width; ++i)
    n.spawn("rpc", [shared, rx = requests] { stream_detail::serve(rx, *shared); });
  return std::move(client);
}

}  // namespace weft
