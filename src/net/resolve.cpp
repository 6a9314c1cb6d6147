#include <weft/net/resolve.hpp>

#include <weft/cancel.hpp>
#include <weft/core/io.hpp>
#include <weft/core/offload.hpp>
#include <weft/core/reactor.hpp>
#include <weft/event.hpp>

#include <netdb.h>

#include <algorithm>
#include <memory>
#include <new>

namespace weft::net {
namespace {

static_assert(EAI_NONAME == static_cast<int>(ResolveError::host_not_found));
static_assert(EAI_AGAIN == static_cast<int>(ResolveError::try_again));
static_assert(EAI_FAIL == static_cast<int>(ResolveError::failed));
static_assert(EAI_NODATA == static_cast<int>(ResolveError::no_address));
static_assert(EAI_ADDRFAMILY == static_cast<int>(ResolveError::no_such_family));
static_assert(EAI_MEMORY == static_cast<int>(ResolveError::no_memory));

using Addresses = Result<std::vector<SocketAddress>>;

class ResolveCategory final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "resolve"; }
  [[nodiscard]] std::string message(int code) const override {
    switch (static_cast<ResolveError>(code)) {
      case ResolveError::host_not_found: return "no host of that name is known";
      case ResolveError::try_again: return "the name server does not answer";
      case ResolveError::failed: return "the name server refuses to answer";
      case ResolveError::no_address: return "the host has no address";
      case ResolveError::no_such_family: return "the host has no address of a kind that is wanted";
      case ResolveError::no_memory: return "no memory to look the host up";
    }
    return ::gai_strerror(code);
  }
  [[nodiscard]] std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<ResolveError>(code)) {
      case ResolveError::try_again: return std::errc::resource_unavailable_try_again;
      case ResolveError::no_memory: return std::errc::not_enough_memory;
      default: return {code, *this};
    }
  }
};

// One question to the system. It belongs to who asks and, from submit() until it is answered, to
// itself: who asks may leave before.
class Lookup final : public OffloadJob {
 public:
  Lookup(std::shared_ptr<Reactor> reactor, std::string_view host)
      : reactor_(std::move(reactor)), host_(host) {}

  void ask() noexcept {
    try {
      code_ = reactor_->kernel().resolve(host_.c_str(), found_, system_error_);
    } catch (const std::bad_alloc&) {
      code_ = EAI_MEMORY;
    }
  }
  void run() noexcept override {
    const std::shared_ptr<Lookup> self = std::move(self_);
    ask();
    answered.set();
  }
  [[nodiscard]] Addresses answer() {
    if (code_ == EAI_SYSTEM) return Unexpected::of(system_error_);
    if (code_ != 0) return Unexpected{std::error_code{code_, resolve_category()}};
    if (found_.empty()) return Unexpected{ResolveError::no_address};
    return std::move(found_);
  }

  // Among those who asked. The destructor takes the question back, if nobody has come to it.
  class [[nodiscard]] Asked {
   public:
    Asked(std::shared_ptr<Lookup> lookup, Offload& threads) noexcept
        : lookup_(std::move(lookup)), threads_(threads) {
      lookup_->self_ = lookup_;
      threads_.submit(*lookup_);
    }
    ~Asked() {
      if (!lookup_->answered.is_set() && threads_.withdraw(*lookup_)) lookup_->self_.reset();
    }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;

   private:
    const std::shared_ptr<Lookup> lookup_;
    Offload& threads_;
  };

  Event answered{"lookup of a host"};

 private:
  const std::shared_ptr<Reactor> reactor_;
  const std::string host_;
  std::vector<SocketAddress> found_;
  int code_ = 0;
  int system_error_ = 0;
  std::shared_ptr<Lookup> self_;
};

Addresses look_up(std::string_view host) {
  checkpoint(Fiber::current());
  std::shared_ptr<Reactor> reactor = io().reactor();
  if (!reactor) return Unexpected{IoError::no_reactor};
  const auto lookup = std::make_shared<Lookup>(std::move(reactor), host);
  if (Offload* const threads = io().offload()) {
    const Lookup::Asked asked{lookup, *threads};
    lookup->answered.wait();
  } else {
    lookup->ask();
  }
  return lookup->answer();
}

Addresses look_up(std::string_view host, Duration timeout) {
  if (timeout == Duration::max()) return look_up(host);
  const auto found = weft::timeout(timeout, [&] { return look_up(host); });
  if (!found) return Unexpected{std::errc::timed_out};
  return *found;
}

Addresses look_up(std::string_view host, const ResolveOptions& options) {
  if (!options.cache) return look_up(host, options.timeout);
  if (std::optional<Addresses> known = options.cache->find(host)) return *std::move(known);
  Addresses found = look_up(host, options.timeout);
  options.cache->remember(host, found);
  return found;
}

bool is_wanted(const Endpoint& endpoint, Family family) noexcept {
  switch (family) {
    case Family::ipv4: return endpoint.kind() == Endpoint::Kind::ipv4;
    case Family::ipv6: return endpoint.kind() == Endpoint::Kind::ipv6;
    case Family::any: break;
  }
  return true;
}

}  // namespace

const std::error_category& resolve_category() noexcept {
  static const ResolveCategory category;
  return category;
}

Result<std::vector<Endpoint>> resolve(std::string_view host, std::uint16_t port,
                                      const ResolveOptions& options) {
  return resolve(Endpoint{host, port}, options);
}

Result<std::vector<Endpoint>> resolve(const Endpoint& endpoint, const ResolveOptions& options) {
  std::vector<Endpoint> out;
  if (endpoint.kind() == Endpoint::Kind::none) return Unexpected{std::errc::invalid_argument};
  if (!endpoint.is_name()) {
    if (!is_wanted(endpoint, options.family)) return Unexpected{ResolveError::no_such_family};
    out.push_back(endpoint);
    return out;
  }
  const std::string host = endpoint.host();
  if (host.empty()) return Unexpected{EndpointError::no_host};
  if (host.find('\0') != std::string::npos) return Unexpected{EndpointError::bad_host};
  const Addresses found = look_up(host, options);
  if (!found) return found.failure();
  for (const SocketAddress& address : *found) {
    Endpoint one = Endpoint::of(address).with_port(endpoint.port());
    if (one.is_ip() && is_wanted(one, options.family) &&
        std::find(out.begin(), out.end(), one) == out.end())
      out.push_back(std::move(one));
  }
  if (out.empty()) return Unexpected{ResolveError::no_such_family};
  return out;
}

}  // namespace weft::net
