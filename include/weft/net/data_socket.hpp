// DataSocket: what streams and UDP sockets have in common: two ends, and buffers in between.
#pragma once

#include <weft/core/handle.hpp>
#include <weft/net/endpoint.hpp>
#include <weft/result.hpp>

#include <concepts>
#include <cstddef>
#include <utility>

namespace weft::net {

class DataSocket : public Handle {
 public:
  // Arms: complete when the next call that reads (writes) would not wait, be it because there is an
  // end or an error to be found. Lose nothing when they lose.
  [[nodiscard]] Descriptor::Ready on_readable() const noexcept { return on_ready(Way::in); }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Descriptor::Ready, Handler> on_readable(Handler handler) const {
    return on_ready(Way::in, std::move(handler));
  }
  [[nodiscard]] Descriptor::Ready on_writable() const noexcept { return on_ready(Way::out); }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Descriptor::Ready, Handler> on_writable(Handler handler) const {
    return on_ready(Way::out, std::move(handler));
  }

  [[nodiscard]] Result<Endpoint> local_endpoint() const;
  [[nodiscard]] Result<Endpoint> peer_endpoint() const;

  // What the kernel may hold for us; it rounds as it likes (Linux doubles), hence the getters.
  Result<void> set_send_buffer(std::size_t bytes) const;
  Result<void> set_receive_buffer(std::size_t bytes) const;
  [[nodiscard]] Result<std::size_t> send_buffer() const;
  [[nodiscard]] Result<std::size_t> receive_buffer() const;

 protected:
  using Handle::Handle;
};

}  // namespace weft::net
