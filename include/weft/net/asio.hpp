// A weft stream as Boost.Asio sees streams, for libraries that are written against its concepts:
// Boost.Beast, for instance.
//
//   weft::net::TcpStream peer = ...;
//   weft::net::AsioStream stream{peer};
//   boost::beast::http::read(stream, buffer, request);      // parks this fiber, not its thread
//   boost::beast::http::write(stream, response);
//
// Needs Boost's headers, and is the only header of weft that does; <weft/weft.hpp> is without it.
#pragma once

#include <weft/net/stream_concepts.hpp>
#include <weft/result.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

#include <cstddef>
#include <span>
#include <system_error>

namespace weft::net {

// What Boost calls the same failure.
inline boost::system::error_code to_boost(std::error_code error) {
  if (error == IoError::closed) return boost::asio::error::operation_aborted;
  if (error == IoError::end_of_stream) return boost::asio::error::eof;
  if (error == IoError::too_long) return boost::asio::error::message_size;
  if (error.category() == std::system_category() || error.category() == std::generic_category())
    return {error.value(), boost::system::system_category()};
  return boost::system::errc::make_error_code(boost::system::errc::io_error);
}

// Models Asio's SyncReadStream and SyncWriteStream over a weft stream, which must outlive it. The
// end of the stream is boost::asio::error::eof, as there. Functions park and are cancel points as
// the stream's own: Cancelled passes through Asio's and Beast's functions like any exception.
template <class S>
  requires Readable<S> && Writable<S>
class AsioStream {
 public:
  explicit AsioStream(S& stream) noexcept : stream_(stream) {}

  // Into the first buffer that has room. No room at all: nothing is read, and that is no error.
  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers, boost::system::error_code& error) {
    error = {};
    const boost::asio::mutable_buffer room = first<boost::asio::mutable_buffer>(buffers);
    if (room.size() == 0) return 0;
    const Result<std::span<std::byte>> got =
        stream_.read_some({static_cast<std::byte*>(room.data()), room.size()});
    if (!got) error = to_boost(got.error());
    else if (got->empty()) error = boost::asio::error::eof;
    return got ? got->size() : 0;
  }
  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers) {
    boost::system::error_code error;
    const std::size_t count = read_some(buffers, error);
    if (error) throw boost::system::system_error{error, "read_some"};
    return count;
  }

  // Of the first buffer that holds anything.
  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers, boost::system::error_code& error) {
    error = {};
    const boost::asio::const_buffer bytes = first<boost::asio::const_buffer>(buffers);
    if (bytes.size() == 0) return 0;
    const Result<std::size_t> written =
        stream_.write_some({static_cast<const std::byte*>(bytes.data()), bytes.size()});
    if (!written) error = to_boost(written.error());
    return written ? *written : 0;
  }
  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers) {
    boost::system::error_code error;
    const std::size_t count = write_some(buffers, error);
    if (error) throw boost::system::system_error{error, "write_some"};
    return count;
  }

  [[nodiscard]] S& stream() noexcept { return stream_; }

 private:
  template <class Buffer, class Sequence>
  static Buffer first(const Sequence& buffers) {
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto it = boost::asio::buffer_sequence_begin(buffers); it != end; ++it)
      if (const Buffer buffer{*it}; buffer.size() != 0) return buffer;
    return {};
  }

  S& stream_;
};

}  // namespace weft::net
