// Streams and listeners in memory, for what is built on them.
#pragma once

#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/result.hpp>
#include <weft/select.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace weft::testing {

inline std::string text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

// Never waits: gives `input` in pieces, and takes what is written in pieces, into `output`.
struct ScriptedStream {
  std::string input{};
  std::size_t piece = std::numeric_limits<std::size_t>::max();
  std::error_code read_error{};  // after the input, instead of its end
  std::string output{};
  std::error_code write_error{};
  std::size_t reads = 0;
  std::size_t writes = 0;

  Result<std::span<std::byte>> read_some(std::span<std::byte> room) {
    ++reads;
    if (input.empty() && read_error) return Unexpected{read_error};
    const std::size_t count = std::min({room.size(), piece, input.size()});
    if (count != 0) std::memcpy(room.data(), input.data(), count);
    input.erase(0, count);
    return room.first(count);
  }
  Result<std::size_t> write_some(std::span<const std::byte> bytes) {
    ++writes;
    if (write_error) return Unexpected{write_error};
    const std::size_t count = std::min(bytes.size(), piece);
    output += text_in(bytes.first(count));
    return count;
  }
  Result<void> write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const Result<std::size_t> written = write_some(bytes);
      if (!written) return written.failure();
      bytes = bytes.subspan(*written);
    }
    return {};
  }
};

// One end of a connection whose other end is a stream like it. Waits like a socket.
class FakeStream {
 public:
  FakeStream(Sender<std::string> tx, Receiver<std::string> rx)
      : tx_(std::move(tx)), rx_(std::move(rx)) {}

  Result<std::span<std::byte>> read_some(std::span<std::byte> room) {
    while (rest_.empty()) {
      std::optional<std::string> got = rx_.recv();
      if (!got) return room.first(0);
      rest_ = std::move(*got);
    }
    const std::size_t count = std::min(room.size(), rest_.size());
    std::memcpy(room.data(), rest_.data(), count);
    rest_.erase(0, count);
    return room.first(count);
  }
  Result<std::size_t> write_some(std::span<const std::byte> bytes) {
    if (write_error) return Unexpected{write_error};
    if (!tx_ || !tx_.send(text_in(bytes))) return Unexpected{std::errc::broken_pipe};
    return bytes.size();
  }
  Result<void> write_all(std::span<const std::byte> bytes) {
    const Result<std::size_t> written = write_some(bytes);
    return written ? Result<void>{} : Result<void>{written.failure()};
  }
  Result<void> shutdown_write() {
    tx_.drop();
    return {};
  }
  Result<void> close() {
    tx_.drop();
    rx_.drop();
    return {};
  }

  std::error_code write_error{};

 private:
  Sender<std::string> tx_;
  Receiver<std::string> rx_;
  std::string rest_;
};

inline std::pair<FakeStream, FakeStream> fake_connection(std::size_t capacity = 4) {
  Channel<std::string> there{capacity};
  Channel<std::string> back{capacity};
  return {FakeStream{std::move(there.tx), std::move(back.rx)},
          FakeStream{std::move(back.tx), std::move(there.rx)}};
}

// Accepts what connect() makes. The backlog is large.
class FakeListener {
 public:
  FakeStream connect() {
    auto [ours, theirs] = fake_connection();
    EXPECT_TRUE(backlog_.tx.send(std::move(theirs)));
    return std::move(ours);
  }

  Result<FakeStream> accept() {
    if (accept_error) return Unexpected{accept_error};
    auto closed = closed_.on_set();
    auto next = backlog_.rx.on_recv();
    if (select_first(closed, next) == 0) return Unexpected{IoError::closed};
    return std::move(*next.value());
  }
  void close() noexcept { closed_.set(); }
  [[nodiscard]] bool is_open() const noexcept { return !closed_.is_set(); }
  [[nodiscard]] Event::Wait on_closed() noexcept { return closed_.on_set(); }
  [[nodiscard]] std::size_t waiting() const { return backlog_.rx.size(); }

  std::error_code accept_error{};

 private:
  Channel<FakeStream> backlog_{1000};
  Event closed_;
};

}  // namespace weft::testing
