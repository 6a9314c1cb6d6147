// How a server is cancelled: who accepts waits in the scope of serve()'s caller, and is woken by
// its cancel like any other wait. Handlers live in a nursery behind a shield, where that does not
// reach them; when nobody accepts any more, they are told to stop, and cancelled after the grace.
#include <weft/net/serve.hpp>

#include <weft/core/error.hpp>

#include <cstdio>
#include <string>

namespace weft::net {

Server::Round::Round(Server& server)
    : server_(server),
      places_(server.options_.max_connections != 0 ? server.options_.max_connections
                                                   : std::numeric_limits<std::size_t>::max(),
              "max_connections") {}

void Server::report(const std::exception_ptr& error) const {
  if (options_.on_error) return options_.on_error(error);
  std::string what = "not a std::exception";
  try {
    std::rethrow_exception(error);
  } catch (const Deadlock&) {
    return;  // told by who finds it
  } catch (const std::exception& thrown) {
    what = thrown.what();
  } catch (...) {
  }
  std::fprintf(stderr, "weft: a connection of server \"%s\" failed: %s\n", options_.name.c_str(),
               what.c_str());
}

void Server::Round::fail(std::exception_ptr error) noexcept {
  const Locked locked{lock_};
  if (!error_) error_ = std::move(error);
}

// The only way in which a handler fails without our knowing it.
void Server::Round::without_stack(const std::exception_ptr& error) noexcept {
  server_.failed_.fetch_add(1, kRelaxed);
  try {
    server_.report(error);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Server::Round::drain(Nursery& handlers) const noexcept {
  if (handlers.live() == 0) return;
  if (server_.options_.drain_grace == Duration::max()) return handlers.ask_to_stop();
  try {
    handlers.cancel(server_.options_.drain_grace);
  } catch (const std::bad_alloc&) {
    handlers.cancel();  // no memory for a timer
  }
}

void Server::Round::run(const std::function<void(Nursery&)>& body) {
  Fiber& self = weft::detail::fiber_with_scopes();
  CancelScope& caller = *self.scope;
  bool unwound = true;
  const auto in_the_callers_scope = [&](Nursery& handlers) {
    struct Drain {
      const Round& round;
      Nursery& handlers;
      ~Drain() { round.drain(handlers); }
    };
    const Drain drain{*this, handlers};
    const Entered entered{self, caller};
    try {
      body(handlers);
      unwound = false;
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      unwound = false;
      fail(std::current_exception());
    }
  };
  try {
    shielded([&] {
      nursery({.name = server_.options_.name,
               .on_error = ErrorPolicy::supervise,
               .on_suppressed = [this](std::exception_ptr error,
                                       FiberId) { without_stack(error); }},
              in_the_callers_scope);
    });
  } catch (...) {
    without_stack(std::current_exception());
  }
  if (error_) std::rethrow_exception(error_);
  if (unwound) attend(self);
}

}  // namespace weft::net
