// StreamSocket: what TCP and Unix streams have in common: bytes in order, both ways, until an end.
#pragma once

#include <weft/core/descriptor.hpp>
#include <weft/net/data_socket.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace weft::net {

// A handle that owns its socket: it moves, and closes when it is destroyed. Reading and writing
// may go on at once in different fibers. Two that read at once share the bytes between them, two
// that write at once mix them, but nothing worse happens. Belongs to the engine it was made in.
//
// All that read or write park until something can be done, and are cancel points: cancelled, they
// throw before anything was done; read_exactly(), read_up_to() and the forms that write all may
// have done a part by then. Errors are the system's: a peer that has gone away shows as
// std::errc::connection_reset or broken_pipe, never as a signal. IoError::closed: we have closed it
// ourselves, be it in another fiber while the call was under way.
//
// A buffer of no bytes asks for nothing: the call succeeds at once, unless it is closed, and says
// nothing about the peer.
class StreamSocket : public DataSocket {
 public:
  // The bytes that were read, at the beginning of `buffer`; empty: the peer has ended the stream.
  Result<std::span<std::byte>> read_some(std::span<std::byte> buffer) const;
  // Fills `buffer`, unless the stream ends before: then what is returned is shorter.
  Result<std::span<std::byte>> read_up_to(std::span<std::byte> buffer) const;
  // Fills `buffer`. IoError::end_of_stream: the stream has ended before; use read_up_to() to know
  // how much there was.
  Result<void> read_exactly(std::span<std::byte> buffer) const;
  // Into several buffers, one after the other. How many bytes; 0: the end.
  Result<std::size_t> readv(std::span<const std::span<std::byte>> parts) const;
  Result<std::size_t> readv(std::span<const iovec> parts) const;

  // How many bytes were taken, at least one. They may still be on their way when it returns.
  Result<std::size_t> write_some(std::span<const std::byte> bytes) const;
  Result<void> write_all(std::span<const std::byte> bytes) const;
  Result<void> write_all(std::string_view text) const {
    return write_all(std::as_bytes(std::span{text}));
  }
  // Of several buffers, one after the other; some of the bytes, or all of them.
  Result<std::size_t> writev(std::span<const std::span<const std::byte>> parts) const;
  Result<std::size_t> writev(std::span<const iovec> parts) const;
  Result<void> writev_all(std::span<const std::span<const std::byte>> parts) const;
  Result<void> writev_all(std::span<const iovec> parts) const;

  // No more will be written: the peer reads the end. Reading goes on. Never parks.
  Result<void> shutdown_write() const;

 protected:
  StreamSocket() = default;
  explicit StreamSocket(Descriptor socket) noexcept : DataSocket(std::move(socket)) {}
  StreamSocket(StreamSocket&&) noexcept = default;
  StreamSocket& operator=(StreamSocket&&) noexcept = default;
  ~StreamSocket() = default;

 private:
  Result<std::size_t> nothing_asked() const;
};

}  // namespace weft::net
