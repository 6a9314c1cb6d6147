// Buffered streams: lines and other pieces of a stream, and many small writes in few calls.
//
//   weft::net::BufferedReader reader{peer};
//   weft::net::BufferedWriter writer{peer};
//   while (auto line = reader.read_line().value()) {        // throws if the connection breaks
//     (void)writer.print("you said: ", *line, '\n');
//     writer.flush().value();
//   }                                                       // the peer has ended its side
//
// Each refers to a stream, which must outlive it, and is for one fiber at a time; the reader and
// the writer of one stream may be used by two.
#pragma once

#include <weft/core/spec.hpp>
#include <weft/net/read_buffer.hpp>
#include <weft/net/stream_concepts.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft::net {

// What ends a line.
enum class LineEnd : std::uint8_t {
  lf_or_crlf,  // "\n", and a "\r" right before it is not part of the line
  lf,          // "\n"; every "\r" is
};

struct ReaderOptions {
  std::size_t buffer_bytes = 8 * 1024;     // it grows for longer lines, up to their limit
  std::size_t line_bytes_max = 64 * 1024;  // the limit of read_line() and read_until()
  LineEnd line_end = LineEnd::lf_or_crlf;
};

namespace detail {

// Where a piece ends: the length of its text, and of what ends it.
struct Piece {
  std::size_t text;
  std::size_t end;
};
// How much of a piece there is.
enum class Extent : std::uint8_t { whole, part, too_long };

// Looks for pieces that end with `delimiter`, of which `begun` bytes have been looked at before.
struct PieceSearch {
  std::string_view delimiter;
  std::size_t limit;
  bool drop_cr = false;
  std::size_t begun = 0;

  Extent in(std::string_view text, Piece& found) noexcept;
};

}  // namespace detail

// All functions that read are cancel points. Cancelled or failed, they have lost nothing: what was
// read by then is in the buffer, and the next call begins with it. Views and spans into the buffer
// are good until the next call that reads.
template <Readable S>
class BufferedReader {
 public:
  explicit BufferedReader(S& stream, ReaderOptions options = {}) noexcept
      : stream_(stream), options_(options), buffer_(options.buffer_bytes) {}

  // Some bytes, at least one, first of all from the buffer; none: the stream has ended. So that a
  // BufferedReader is Readable itself.
  Result<std::span<std::byte>> read_some(std::span<std::byte> room) {
    if (room.empty()) return room;
    if (buffer_.empty()) {
      if (room.size() >= buffer_.least()) return stream_.read_some(room);
      if (Result<bool> more = fill(); !more) return more.failure();
    }
    const std::size_t count = std::min(room.size(), buffer_.size());
    move_out(room.first(count));
    return room.first(count);
  }

  // Fills `room`. Fails with IoError::end_of_stream if the stream ends before; what it still had is
  // in the buffer.
  Result<void> read_exactly(std::span<std::byte> room) {
    if (room.size() > buffer_.least()) return read_large(room);
    while (buffer_.size() < room.size()) {
      const Result<bool> more = fill(room.size());
      if (!more) return more.failure();
      if (!*more) return Unexpected{IoError::end_of_stream};
    }
    move_out(room);
    return {};
  }

  // The next line, without what ends it; the last one need not be ended. Nothing: the stream has
  // ended. Fails with IoError::too_long if the line is longer than `limit` bytes, and the line is
  // still there: to be read with a higher limit, or passed over with read_some().
  Result<std::optional<std::string_view>> read_line() { return read_line(options_.line_bytes_max); }
  Result<std::optional<std::string_view>> read_line(std::size_t limit) {
    return read_piece({"\n", limit, options_.line_end == LineEnd::lf_or_crlf}, Unended::is_last);
  }

  // What comes before the next `delimiter`, which is passed over. Nothing: the stream has ended.
  // Fails with IoError::end_of_stream if it ended after something else, with IoError::too_long as
  // above, and with std::errc::invalid_argument if `delimiter` is empty.
  Result<std::optional<std::string_view>> read_until(std::string_view delimiter) {
    return read_until(delimiter, options_.line_bytes_max);
  }
  Result<std::optional<std::string_view>> read_until(std::string_view delimiter,
                                                     std::size_t limit) {
    if (delimiter.empty()) return Unexpected{std::errc::invalid_argument};
    return read_piece({delimiter, limit}, Unended::is_failure);
  }

  // What is in the buffer, once that is `least` bytes or more; fewer: the stream has ended. They
  // are not taken: consume() does that.
  Result<std::span<const std::byte>> peek(std::size_t least = 1) {
    while (buffer_.size() < least) {
      const Result<bool> more = fill(least);
      if (!more) return more.failure();
      if (!*more) break;
    }
    return buffer_.bytes();
  }
  // Takes so many bytes of the buffer, at most all of them. Never parks.
  void consume(std::size_t bytes) noexcept { buffer_.take(std::min(bytes, buffer_.size())); }

  // What was read from the stream and is not taken yet. Never parks.
  [[nodiscard]] std::span<const std::byte> buffered() const noexcept { return buffer_.bytes(); }
  [[nodiscard]] S& stream() noexcept { return stream_; }

 private:
  enum class Unended : std::uint8_t { is_last, is_failure };

  // Reads once more, with room for `wanted` bytes in all. False: the stream has ended.
  Result<bool> fill(std::size_t wanted = 1) {
    const Result<std::span<std::byte>> got = stream_.read_some(buffer_.room(wanted));
    if (!got) return got.failure();
    buffer_.filled(got->size());
    return !got->empty();
  }

  void move_out(std::span<std::byte> room) noexcept {
    if (room.empty()) return;
    std::memcpy(room.data(), buffer_.bytes().data(), room.size());
    buffer_.take(room.size());
  }

  // Straight into `room`, which holds more than the buffer. If that comes to nothing, what was read
  // goes to the buffer.
  Result<void> read_large(std::span<std::byte> room) {
    const std::size_t held = buffer_.size();
    if (held >= room.size()) return move_out(room), Result<void>{};
    std::size_t done = held;
    const auto put_back = [&] { buffer_.append(room.first(done).subspan(held)); };
    try {
      while (done < room.size()) {
        const Result<std::span<std::byte>> got = stream_.read_some(room.subspan(done));
        if (!got || got->empty()) {
          put_back();
          return got ? Unexpected{IoError::end_of_stream} : got.failure();
        }
        done += got->size();
      }
    } catch (...) {
      put_back();
      throw;
    }
    move_out(room.first(held));
    return {};
  }

  Result<std::optional<std::string_view>> read_piece(detail::PieceSearch search, Unended unended) {
    detail::Piece piece{};
    for (;;) {
      switch (search.in(buffer_.text(), piece)) {
        case detail::Extent::whole: return take(piece);
        case detail::Extent::too_long: return Unexpected{IoError::too_long};
        case detail::Extent::part: break;
      }
      const Result<bool> more = fill();
      if (!more) return more.failure();
      if (*more) continue;
      if (buffer_.empty()) return std::optional<std::string_view>{};
      if (unended == Unended::is_failure) return Unexpected{IoError::end_of_stream};
      if (buffer_.size() > search.limit) return Unexpected{IoError::too_long};
      return take({buffer_.size(), 0});
    }
  }

  std::optional<std::string_view> take(detail::Piece piece) noexcept {
    const std::string_view text = buffer_.text().substr(0, piece.text);
    buffer_.take(piece.text + piece.end);
    return text;
  }

  S& stream_;
  ReaderOptions options_;
  ReadBuffer buffer_;
};

struct WriterOptions {
  std::size_t buffer_bytes = 8 * 1024;
};

namespace detail {
void complain_unflushed(std::size_t bytes) noexcept;
}

// What print() takes.
template <class T>
concept Printable = std::convertible_to<const T&, std::string_view> ||
                    (std::is_arithmetic_v<T> && !std::same_as<T, bool>);

// Functions that write are cancel points only when the buffer is full. The destructor does not
// wait: call flush(), or what is in the buffer is dropped, about which checked builds complain on
// standard error, unless an exception is unwinding or a write has failed.
template <Writable S>
class BufferedWriter {
 public:
  explicit BufferedWriter(S& stream, WriterOptions options = {}) noexcept
      : stream_(stream), capacity_(std::max<std::size_t>(options.buffer_bytes, 1)) {}
  BufferedWriter(const BufferedWriter&) = delete;
  BufferedWriter& operator=(const BufferedWriter&) = delete;
  ~BufferedWriter() {
    if constexpr (spec::kSpecAssert)
      if (sent_ != end_ && !failed_ && std::uncaught_exceptions() == 0)
        detail::complain_unflushed(end_ - sent_);
  }

  // Takes all of them; what does not fit into the buffer is sent. Failed or cancelled, it may have
  // taken a part, which is not lost.
  Result<void> write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const Result<std::size_t> taken = write_some(bytes);
      if (!taken) return taken.failure();
      bytes = bytes.subspan(*taken);
    }
    return {};
  }
  Result<void> write(std::string_view text) { return write(std::as_bytes(std::span{text})); }

  // Texts and numbers, one after another: print("id ", 7, '\n').
  template <Printable... Parts>
  Result<void> print(const Parts&... parts) {
    Result<void> done;
    static_cast<void>((... && (done = print_one(parts)).has_value()));
    return done;
  }
  // The same, and "\n".
  template <Printable... Parts>
  Result<void> print_line(const Parts&... parts) {
    return print(parts..., '\n');
  }

  // Sends what is in the buffer. Cancel point: what was sent by then has left the buffer, and what
  // has not is sent by the next call.
  Result<void> flush() {
    while (sent_ != end_) {
      const Result<std::size_t> sent = send({memory_.get() + sent_, end_ - sent_});
      if (!sent) return sent.failure();
      sent_ += *sent;
    }
    sent_ = end_ = 0;
    return {};
  }

  // Takes at least one byte, so that a BufferedWriter is Writable itself.
  Result<std::size_t> write_some(std::span<const std::byte> bytes) {
    if (bytes.empty()) return std::size_t{0};
    if (sent_ == end_ && bytes.size() >= capacity_) return send(bytes);
    if (end_ == capacity_)
      if (const Result<void> flushed = flush(); !flushed) return flushed.failure();
    if (sent_ == end_ && bytes.size() >= capacity_) return send(bytes);
    if (!memory_) memory_ = std::make_unique_for_overwrite<std::byte[]>(capacity_);
    const std::size_t count = std::min(bytes.size(), capacity_ - end_);
    std::memcpy(memory_.get() + end_, bytes.data(), count);
    end_ += count;
    return count;
  }
  Result<void> write_all(std::span<const std::byte> bytes) { return write(bytes); }

  // What is in the buffer and not sent. Never parks.
  [[nodiscard]] std::span<const std::byte> buffered() const noexcept {
    return {memory_.get() + sent_, end_ - sent_};
  }
  // The same, and it is the caller's from now on: it will not be sent.
  std::vector<std::byte> release() {
    std::vector<std::byte> rest{buffered().begin(), buffered().end()};
    sent_ = end_ = 0;
    return rest;
  }
  [[nodiscard]] S& stream() noexcept { return stream_; }

 private:
  Result<std::size_t> send(std::span<const std::byte> bytes) {
    Result<std::size_t> sent = stream_.write_some(bytes);
    failed_ = !sent;
    return sent;
  }

  template <class T>
  Result<void> print_one(const T& part) {
    if constexpr (std::same_as<T, char>) {
      return write(std::string_view{&part, 1});
    } else if constexpr (std::is_arithmetic_v<T>) {
      std::array<char, 64> digits;  // enough for the shortest form of every number
      const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), part);
      return write(std::string_view{digits.data(), written.ptr});
    } else {
      return write(std::string_view{part});
    }
  }

  S& stream_;
  std::size_t capacity_;
  std::unique_ptr<std::byte[]> memory_;  // taken when there is something to keep
  std::size_t sent_ = 0;
  std::size_t end_ = 0;
  bool failed_ = false;  // the last time bytes were sent
};

}  // namespace weft::net
