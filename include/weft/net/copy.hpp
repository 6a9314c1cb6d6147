// copy: what comes out of one stream goes into another.
//
//   weft::net::copy(from, to, {.progress = [&](std::uint64_t bytes) { bar.show(bytes); }}).value();
//   weft::net::copy_both(client, server).value();             // a proxy
#pragma once

#include <weft/core/descriptor.hpp>
#include <weft/file.hpp>
#include <weft/net/stream_concepts.hpp>
#include <weft/nursery.hpp>
#include <weft/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <type_traits>

namespace weft::net {

struct CopyOptions {
  // Stops after so many bytes. What comes then stays in the stream.
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  // Called with how many bytes have been written by now, after each piece.
  std::function<void(std::uint64_t)> progress{};
  std::size_t buffer_bytes = 64 * 1024;
};

namespace detail {

template <class From, class To>
inline constexpr bool kKernelCanCopy =
    std::same_as<std::remove_cvref_t<From>, File> &&
    requires(const std::remove_reference_t<To>& to) {
      { to.descriptor() } -> std::same_as<const Descriptor&>;
    };

// copy() by sendfile(2). Nothing: it cannot be done with these two, and nothing has happened.
std::optional<Result<std::uint64_t>> send_file(int from, const Descriptor& to,
                                               const CopyOptions& options);

}  // namespace detail

// Copies until `from` ends or the limit is reached. How many bytes that were. `to` stays open.
// Cancel point; cancelled or failed, up to `buffer_bytes` that were read may not have been written.
//
// From a File to a socket or pipe the kernel copies by itself, without a buffer: whatever happens,
// the file's position is behind what was sent. It must not be closed meanwhile.
template <Readable From, Writable To>
Result<std::uint64_t> copy(From&& from, To&& to, const CopyOptions& options = {}) {
  if constexpr (detail::kKernelCanCopy<From, To>)
    if (auto sent = detail::send_file(from.native_handle(), to.descriptor(), options)) return *sent;
  const std::size_t size = std::max<std::size_t>(options.buffer_bytes, 1);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(size);
  std::uint64_t copied = 0;
  while (copied < options.limit) {
    const std::span<std::byte> room{memory.get(), std::min<std::uint64_t>(
                                                      size, options.limit - copied)};
    const Result<std::span<std::byte>> got = from.read_some(room);
    if (!got) return got.failure();
    if (got->empty()) break;
    if (const Result<void> written = to.write_all(*got); !written) return written.failure();
    copied += got->size();
    if (options.progress) options.progress(copied);
  }
  return copied;
}

struct CopiedBoth {
  std::uint64_t forth = 0;  // from the first to the second
  std::uint64_t back = 0;
};

// Copies both ways until both streams have ended. When one ends, the other is told by
// shutdown_write(), and the way back goes on. The first failure ends both ways, and is what is
// returned. Neither stream is closed. Cancel point, as copy().
template <Duplex A, Duplex B>
Result<CopiedBoth> copy_both(A& a, B& b, const CopyOptions& options = {}) {
  CopiedBoth copied;
  Lock lock;  // protects `failed`
  std::error_code failed;
  const auto one_way = [&](Nursery& both, auto& from, auto& to, std::uint64_t& count) {
    const Result<std::uint64_t> done = copy(from, to, options);
    if (done) count = *done;
    const Result<void> told = done ? to.shutdown_write() : Result<void>{done.failure()};
    // A stream that is not there any more has ended, too.
    if (told || told.error() == std::errc::not_connected) return;
    {
      const Locked locked{lock};
      if (!failed) failed = told.error();
    }
    both.cancel();
  };
  nursery([&](Nursery& both) {
    both.spawn("copy back", [&] { one_way(both, b, a, copied.back); });
    one_way(both, a, b, copied.forth);
  });
  if (failed) return Unexpected{failed};
  return copied;
}

}  // namespace weft::net
