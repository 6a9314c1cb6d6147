#include "sim_open_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace weft::engine {
namespace {

constexpr std::size_t kAtOnce = std::size_t{1} << 24;  // no call carries more

}  // namespace

bool SimOpenFile::can_read() const noexcept { return (flags_ & O_ACCMODE) != O_WRONLY; }
bool SimOpenFile::can_write() const noexcept { return (flags_ & O_ACCMODE) != O_RDONLY; }

SimObject::Answer SimOpenFile::read_into(std::string& bytes, std::size_t count,
                                         std::int64_t offset) {
  if (!can_read()) return -EBADF;
  if (offset < 0) return -EINVAL;
  return disk().read(*file_, static_cast<std::uint64_t>(offset), count, bytes);
}

SimObject::Answer SimOpenFile::read_at(const iovec* parts, int count, std::int64_t offset) {
  if (count < 0) return -EINVAL;
  const auto buffers = static_cast<std::size_t>(count);
  std::string bytes;
  const Answer answer = read_into(bytes, bytes_in(parts, buffers), offset);
  if (answer > 0) scatter(bytes, parts, buffers);
  return answer;
}

SimObject::Answer SimOpenFile::write_at(const iovec* parts, int count, std::int64_t offset) {
  if (!can_write()) return -EBADF;
  if (count < 0 || offset < 0) return -EINVAL;
  const std::string bytes = gather(parts, static_cast<std::size_t>(count), kAtOnce);
  return disk().write(*file_, static_cast<std::uint64_t>(offset), bytes);
}

SimObject::Answer SimOpenFile::read(const iovec* parts, int count) {
  const Answer answer = read_at(parts, count, at_);
  if (answer > 0) at_ += answer;
  return answer;
}

SimObject::Answer SimOpenFile::write(const iovec* parts, int count) {
  if (flags_ & O_APPEND) at_ = static_cast<std::int64_t>(file_->bytes.size());
  const Answer answer = write_at(parts, count, at_);
  if (answer > 0) at_ += answer;
  return answer;
}

SimObject::Answer SimOpenFile::seek(std::int64_t offset, int whence) {
  const auto size = static_cast<std::int64_t>(file_->bytes.size());
  std::int64_t from = 0;
  if (whence == SEEK_CUR) from = at_;
  else if (whence == SEEK_END) from = size;
  else if (whence != SEEK_SET) return -EINVAL;
  std::int64_t to = 0;
  if (__builtin_add_overflow(from, offset, &to)) return -EOVERFLOW;
  if (to < 0) return -EINVAL;
  return at_ = to;
}

SimObject::Answer SimOpenFile::truncate(std::int64_t size) {
  return can_write() ? disk().truncate(*file_, size) : -EINVAL;
}

SimObject::Answer SimOpenFile::status(struct stat& to) const {
  SimDiskState::status(*file_, to);
  return 0;
}

short SimOpenFile::poll() { return POLLIN | POLLOUT; }

}  // namespace weft::engine
