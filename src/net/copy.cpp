#include <weft/net/copy.hpp>

#include "no_sigpipe.hpp"

#include <weft/core/kernel.hpp>

#include <unistd.h>

#include <cerrno>

namespace weft::net::detail {
namespace {

constexpr std::uint64_t kSentAtOnce = 1024 * 1024;  // so that somebody else has a turn, too

// The kernel counts the position for itself while it sends; the file is where it should be again
// when this is destroyed, however that comes.
struct Position {
  Kernel& kernel;
  int fd;
  std::int64_t offset;
  ~Position() { static_cast<void>(kernel.seek(fd, offset, SEEK_SET)); }
};

}  // namespace

std::optional<Result<std::uint64_t>> send_file(int from, const Descriptor& to,
                                               const CopyOptions& options) {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  const Kernel::Answer begin = kernel ? (*kernel)->seek(from, 0, SEEK_CUR) : -ENOSYS;
  if (begin < 0) return std::nullopt;
  Position position{**kernel, from, begin};
  std::uint64_t copied = 0;
  while (copied < options.limit) {
    const std::uint64_t most = std::min(kSentAtOnce, options.limit - copied);
    // Not `most`: that less was sent may be because of the file's end, and not of a full socket.
    constexpr std::size_t kNotBytes = 0;
    const Result<std::size_t> sent = to.call(Way::out, kNotBytes, [&](Kernel& asked, int fd) {
      return without_sigpipe([&] { return asked.send_file(fd, from, position.offset, most); });
    });
    const bool unable = sent.error() == std::errc::invalid_argument ||
                        sent.error() == std::errc::function_not_supported;
    if (unable && copied == 0) return std::nullopt;
    if (!sent) return sent.failure();
    if (*sent == 0) break;
    copied += *sent;
    if (options.progress) options.progress(copied);
  }
  return copied;
}

}  // namespace weft::net::detail
