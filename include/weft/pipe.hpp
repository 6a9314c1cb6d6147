// Pipes, and the three streams that every program is born with.
//
//   auto [reader, writer] = weft::pipe().value();
//   n.spawn([w = std::move(writer)] { static_cast<void>(w.write_all("over, under")); });
//   const std::string all = reader.read_all().value();
//
// A stream that nobody reads any more fails with EPIPE (std::errc::broken_pipe): SIGPIPE is never
// raised, whatever the program has made of that signal. All calls that wait are cancel points.
#pragma once

#include <weft/core/descriptor.hpp>
#include <weft/core/handle.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// Movable, closes itself. Calls from several fibers at once are fine; close() wakes them, and they
// fail with IoError::closed.
class PipeReader : public Handle {
 public:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  PipeReader() = default;  // none: every call fails with IoError::closed
  // Takes over `fd`, the end of a pipe that must not block; if that fails, it is closed.
  static Result<PipeReader> adopt(int fd);

  // What is there, at least one byte; none: nobody writes any more. Parks while it is empty.
  Result<std::span<std::byte>> read_some(std::span<std::byte> buffer) const;
  // All of `buffer`, or IoError::end_of_stream. Cancelled, what was read is gone.
  Result<void> read_exactly(std::span<std::byte> buffer) const;
  // Up to the end; IoError::too_long if that is more than `limit` bytes.
  Result<std::string> read_all(std::size_t limit = kNoLimit) const;

  // Completes when read_some() would not park.
  [[nodiscard]] Descriptor::Ready on_readable() const noexcept { return on_ready(Way::in); }
  // As read_some(), but std::errc::resource_unavailable_try_again instead of parking. No cancel
  // point.
  Result<std::span<std::byte>> try_read_some(std::span<std::byte> buffer) const;

 private:
  explicit PipeReader(Descriptor descriptor) noexcept : Handle(std::move(descriptor)) {}
};

// The same, for the other end. When it is closed, the reader finds the end, once it has read what
// is in the pipe.
class PipeWriter : public Handle {
 public:
  PipeWriter() = default;
  static Result<PipeWriter> adopt(int fd);

  // How many were written: at least one, unless there are none. Parks while the pipe is full.
  Result<std::size_t> write_some(std::span<const std::byte> bytes) const;
  // All of it. Cancelled, or after an error, some of it may have been written.
  Result<void> write_all(std::span<const std::byte> bytes) const;
  Result<void> write_all(std::string_view text) const {
    return write_all(std::as_bytes(std::span{text}));
  }

  // Completes when write_some() would not park, be it because nobody reads any more.
  [[nodiscard]] Descriptor::Ready on_writable() const noexcept { return on_ready(Way::out); }
  // As write_some(), but std::errc::resource_unavailable_try_again instead of parking. No cancel
  // point.
  Result<std::size_t> try_write_some(std::span<const std::byte> bytes) const;

 private:
  explicit PipeWriter(Descriptor descriptor) noexcept : Handle(std::move(descriptor)) {}
};

struct Pipe {
  PipeReader reader;
  PipeWriter writer;
};
// Never parks.
Result<Pipe> pipe();

// ── standard input, output and error ────────────────────────────────────────────────────────────

namespace detail {

// One of the descriptors 0, 1 and 2, whatever it is. Other programs may share it, a shell for one,
// and would not expect that it does not block; so it is never made so.
class Inherited {
 public:
  Inherited() = default;
  static Result<Inherited> open(int fd, Way way);

  Result<std::size_t> read(std::span<std::byte> buffer) const;
  Result<std::size_t> write(std::span<const std::byte> bytes) const;
  Result<void> close() noexcept { return descriptor_.close(); }
  [[nodiscard]] bool is_terminal() const noexcept;

 private:
  enum class Manner : std::uint8_t {
    reopened,  // a pipe or a terminal, opened once more, without blocking
    socket,    // each call says that it is not to block
    shared,    // neither can be done: calls are made on a thread, once they would not block
    file,      // calls are made on a thread
  };
  Inherited(Descriptor descriptor, Manner manner) noexcept
      : descriptor_(std::move(descriptor)), manner_(manner) {}

  template <class Call>
  Result<std::size_t> on_thread(Way way, Call call) const;

  Descriptor descriptor_;
  Manner manner_ = Manner::file;
};

}  // namespace detail

// A stream of bytes that came with the program: a terminal, a pipe, a file, whatever it is. Closing
// it does not close descriptor 0. Do not mix with std::cin and the like: those read ahead.
class StandardInput {
 public:
  // As PipeReader has them. Where it is a file, a call that has begun is waited for.
  Result<std::span<std::byte>> read_some(std::span<std::byte> buffer) const;
  Result<void> read_exactly(std::span<std::byte> buffer) const;
  Result<std::string> read_all(std::size_t limit = PipeReader::kNoLimit) const;
  [[nodiscard]] bool is_terminal() const noexcept { return stream_.is_terminal(); }
  Result<void> close() noexcept { return stream_.close(); }

 private:
  friend Result<StandardInput> standard_input();
  explicit StandardInput(detail::Inherited stream) noexcept : stream_(std::move(stream)) {}

  detail::Inherited stream_;
};

// Not buffered: what write_all() has returned from is out.
class StandardOutput {
 public:
  // As PipeWriter has them.
  Result<std::size_t> write_some(std::span<const std::byte> bytes) const;
  Result<void> write_all(std::span<const std::byte> bytes) const;
  Result<void> write_all(std::string_view text) const {
    return write_all(std::as_bytes(std::span{text}));
  }
  [[nodiscard]] bool is_terminal() const noexcept { return stream_.is_terminal(); }
  Result<void> close() noexcept { return stream_.close(); }

 private:
  friend Result<StandardOutput> standard_output();
  friend Result<StandardOutput> standard_error();
  explicit StandardOutput(detail::Inherited stream) noexcept : stream_(std::move(stream)) {}

  detail::Inherited stream_;
};

// In simulation, which has none: std::errc::operation_not_supported.
Result<StandardInput> standard_input();
Result<StandardOutput> standard_output();
Result<StandardOutput> standard_error();

}  // namespace weft
