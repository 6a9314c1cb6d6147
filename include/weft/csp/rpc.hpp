// Requests and replies over channels, in the CSP idiom.
#pragma once

#include <weft/csp/ends.hpp>

#include <functional>
#include <tuple>
#include <utility>

namespace weft::csp {
namespace detail {

template <class Rep, class F, class... Args>
Rep reply_of(F& f, std::tuple<Args...>&& args) {
  if constexpr (std::is_same_v<Rep, poke_t>) {
    static_cast<void>(std::apply(f, std::move(args)));
    return poke;
  } else {
    return std::apply(f, std::move(args));
  }
}

[[noreturn, gnu::cold]] inline void throw_rpc_dead() {
  throw microthread_error{"weft::csp: the server of an rpc is dead"};
}

}  // namespace detail

// ── two channels: one request at a time ─────────────────────────────────────────────────────────

// A function that asks and waits for the reply. Throws microthread_error if the server is dead.
template <class... Args, class Rep>
[[nodiscard]] auto rpc_client(writer<std::tuple<Args...>> requests, reader<Rep> replies) {
  return [requests = std::move(requests), replies = std::move(replies)](Args... args) -> Rep {
    if (alt(requests << std::tuple<Args...>{std::move(args)...}, ~replies) != 1)
      detail::throw_rpc_dead();
    std::optional<Rep> reply;
    if (!(replies >> reply)) detail::throw_rpc_dead();
    return *std::move(reply);
  };
}

// What serves until either end is dead: to be spawned.
template <class... Args, class Rep, class F>
[[nodiscard]] auto rpc_server(reader<std::tuple<Args...>> requests, writer<Rep> replies, F f) {
  return [requests = std::move(requests), replies = std::move(replies),
          f = std::move(f)]() mutable {
    for (std::optional<std::tuple<Args...>> args; prialt(~replies, requests >> args) > 0;)
      if (!(replies << detail::reply_of<Rep>(f, *std::move(args)))) return;
  };
}

// ── a reply channel in each request: as many at a time as one likes ─────────────────────────────

template <class Rep, class... Args>
class pipelined_client {
 public:
  explicit pipelined_client(writer<std::pair<std::tuple<Args...>, writer<Rep>>> requests) noexcept
      : requests_(std::move(requests)) {}

  // Asks, and returns the reader of the reply, which may be read later; it ends without one if the
  // server failed. Null if the server is dead.
  [[nodiscard]] reader<Rep> post(Args... args) const {
    Channel<Rep> reply = oneshot<Rep>();  // the server does not wait for us to read it
    if (!(requests_ << std::pair{std::tuple<Args...>{std::move(args)...},
                                 writer<Rep>{std::move(reply.tx)}}))
      return {};
    return std::move(reply.rx);
  }
  // Asks and waits for the reply. Throws microthread_error if there is none.
  Rep operator()(Args... args) const {
    const reader<Rep> reply = post(std::move(args)...);
    std::optional<Rep> value;
    if (!(reply >> value)) detail::throw_rpc_dead();
    return *std::move(value);
  }

 private:
  writer<std::pair<std::tuple<Args...>, writer<Rep>>> requests_;
};

template <class... Args, class Rep>
[[nodiscard]] pipelined_client<Rep, Args...> rpc_client(
    writer<std::pair<std::tuple<Args...>, writer<Rep>>> requests) {
  return pipelined_client<Rep, Args...>{std::move(requests)};
}

// Serves one request after another; several such servers may share the requests. A client that is
// gone does not stop it.
template <class... Args, class Rep, class F>
[[nodiscard]] auto rpc_server(reader<std::pair<std::tuple<Args...>, writer<Rep>>> requests, F f) {
  return [requests = std::move(requests), f = std::move(f)]() mutable {
    for (auto& [args, reply] : requests) reply << detail::reply_of<Rep>(f, std::move(args));
  };
}

}  // namespace weft::csp
