#include <weft/file.hpp>

#include "net/whole.hpp"

#include <weft/blocking.hpp>

#include <fcntl.h>

#include <algorithm>
#include <optional>

namespace weft {
namespace {

// A call that a signal has cut short is made again.
template <class Call>
Kernel::Answer uninterrupted(Call call) {
  for (;;) {
    const Kernel::Answer answer = call();
    if (answer != -EINTR) return answer;
  }
}

Unexpected failure_of(Kernel::Answer answer) { return Unexpected::of(static_cast<int>(-answer)); }

// `call(kernel, fd)` on a thread that may be blocked. Who closes the file waits for it.
template <class Call>
Result<std::size_t> on_thread(const Descriptor& descriptor, Call call) {
  return descriptor.ask([&](Kernel& kernel, int fd) {
    return blocking([&] { return uninterrupted([&] { return call(kernel, fd); }); });
  });
}
template <class Call>
Result<void> done_on_thread(const Descriptor& descriptor, Call call) {
  const Result<std::size_t> done = on_thread(descriptor, call);
  if (!done) return done.failure();
  return {};
}

// `call(kernel)`, for what has no descriptor.
template <class Call>
Result<int> on_thread(Call call) {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  if (!kernel) return kernel.failure();
  const Kernel::Answer answer =
      blocking([&] { return uninterrupted([&] { return call(**kernel); }); });
  if (answer < 0) return failure_of(answer);
  return static_cast<int>(answer);
}
template <class Call>
Result<void> done_on_thread(Call call) {
  const Result<int> done = on_thread(call);
  if (!done) return done.failure();
  return {};
}

constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::int64_t>::max();

iovec part_of(std::span<std::byte> buffer) noexcept { return {buffer.data(), buffer.size()}; }
iovec part_of(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // which the kernel only reads
}

DirectoryEntry::Kind kind_of(mode_t mode) noexcept {
  if (S_ISREG(mode)) return DirectoryEntry::Kind::file;
  if (S_ISDIR(mode)) return DirectoryEntry::Kind::directory;
  if (S_ISLNK(mode)) return DirectoryEntry::Kind::link;
  return DirectoryEntry::Kind::other;
}

FileStatus status_of(const struct stat& from) noexcept {
  return {.kind = kind_of(from.st_mode),
          .size = static_cast<std::uint64_t>(from.st_size),
          .permissions = from.st_mode & 07777,
          .modified = std::chrono::seconds{from.st_mtim.tv_sec} +
                      std::chrono::nanoseconds{from.st_mtim.tv_nsec}};
}

// What open(2) calls them; below zero: they contradict each other.
int flags_of(const FileOptions& options) noexcept {
  const bool writes = options.write || options.append;
  if (!writes && (options.create || options.truncate)) return -EINVAL;
  if (options.exclusive && !options.create) return -EINVAL;
  int flags = !writes ? O_RDONLY : options.read ? O_RDWR : O_WRONLY;
  if (options.create) flags |= O_CREAT;
  if (options.exclusive) flags |= O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  if (options.append) flags |= O_APPEND;
  return flags;
}

// Else the kernel would take what is before the zero for it.
bool is_name(const std::string& path) noexcept { return path.find('\0') == std::string::npos; }

}  // namespace

Result<File> File::open(const std::string& path, FileOptions options) {
  const int flags = flags_of(options);
  if (flags < 0 || !is_name(path)) return Unexpected{std::errc::invalid_argument};
  const Result<int> fd = on_thread(
      [&](Kernel& kernel) { return kernel.open(path.c_str(), flags, options.permissions); });
  if (!fd) return fd.failure();
  Result<Descriptor> descriptor =
      Descriptor::adopt(*fd, Carries::messages, "file read", "file write");
  if (!descriptor) return descriptor.failure();
  return File{*std::move(descriptor)};
}

// ── at an offset ────────────────────────────────────────────────────────────────────────────────

Result<std::span<std::byte>> File::read_at(std::span<std::byte> buffer,
                                           std::uint64_t offset) const {
  if (offset > kOffsetMax) return Unexpected{std::errc::invalid_argument};
  const Result<std::size_t> count = on_thread(descriptor_, [&](Kernel& kernel, int fd) {
    std::size_t length = 0;
    while (length < buffer.size()) {
      const iovec part = part_of(buffer.subspan(length));
      const Kernel::Answer got = uninterrupted([&] {
        return kernel.read_at(fd, &part, 1, static_cast<std::int64_t>(offset + length));
      });
      if (got < 0 && length == 0) return got;
      if (got <= 0) break;
      length += static_cast<std::size_t>(got);
    }
    return static_cast<Kernel::Answer>(length);
  });
  if (!count) return count.failure();
  return buffer.first(*count);
}

Result<void> File::write_at(std::span<const std::byte> bytes, std::uint64_t offset) const {
  if (offset > kOffsetMax) return Unexpected{std::errc::invalid_argument};
  return done_on_thread(descriptor_, [&](Kernel& kernel, int fd) -> Kernel::Answer {
    std::size_t length = 0;
    while (length < bytes.size()) {
      const iovec part = part_of(bytes.subspan(length));
      const Kernel::Answer put = uninterrupted([&] {
        return kernel.write_at(fd, &part, 1, static_cast<std::int64_t>(offset + length));
      });
      if (put <= 0) return put < 0 ? put : -EIO;  // a device that takes nothing, for ever
      length += static_cast<std::size_t>(put);
    }
    return 0;
  });
}

// ── at the position ─────────────────────────────────────────────────────────────────────────────

Result<std::span<std::byte>> File::read_some(std::span<std::byte> buffer) const {
  const iovec part = part_of(buffer);
  const Result<std::size_t> count = on_thread(
      descriptor_, [&](Kernel& kernel, int fd) { return kernel.read(fd, &part, 1); });
  if (!count) return count.failure();
  return buffer.first(*count);
}

Result<void> File::read_exactly(std::span<std::byte> buffer) const {
  return net::read_exactly(buffer, [this](std::span<std::byte> rest) { return read_some(rest); });
}

Result<std::size_t> File::write_some(std::span<const std::byte> bytes) const {
  const iovec part = part_of(bytes);
  return on_thread(descriptor_, [&](Kernel& kernel, int fd) -> Kernel::Answer {
    const Kernel::Answer put = kernel.write(fd, &part, 1);
    return put == 0 && !bytes.empty() ? -EIO : put;
  });
}

Result<void> File::write_all(std::span<const std::byte> bytes) const {
  return net::write_all(bytes,
                        [this](std::span<const std::byte> rest) { return write_some(rest); });
}

namespace {

// How much there is to read. Zero: it does not say, as files of /proc do not.
std::size_t left_in(const File& file) {
  const Result<std::uint64_t> size = file.size();
  const Result<std::uint64_t> position = file.seek(0, From::position);
  return size && position && *size > *position ? static_cast<std::size_t>(*size - *position) : 0;
}

template <class Container>
Result<Container> all_of(const File& file, std::size_t limit) {
  return net::read_all<Container>(limit, left_in(file), [&](std::span<std::byte> buffer) {
    return file.read_some(buffer);
  });
}

}  // namespace

Result<std::string> File::read_all(std::size_t limit) const {
  return all_of<std::string>(*this, limit);
}
Result<std::vector<std::byte>> File::read_all_bytes(std::size_t limit) const {
  return all_of<std::vector<std::byte>>(*this, limit);
}

Result<std::uint64_t> File::seek(std::int64_t offset, From from) const {
  constexpr int kWhence[] = {SEEK_SET, SEEK_CUR, SEEK_END};
  const Result<std::size_t> position = descriptor_.ask([&](Kernel& kernel, int fd) {
    return kernel.seek(fd, offset, kWhence[static_cast<std::size_t>(from)]);
  });
  if (!position) return position.failure();
  return static_cast<std::uint64_t>(*position);
}

// ── the file itself ─────────────────────────────────────────────────────────────────────────────

Result<void> File::sync(Flush what) const {
  return done_on_thread(descriptor_, [&](Kernel& kernel, int fd) {
    return kernel.sync(fd, what == Flush::data_only);
  });
}

Result<FileStatus> File::status() const {
  struct stat found {};
  const Result<void> asked = done_on_thread(
      descriptor_, [&](Kernel& kernel, int fd) { return kernel.status(fd, found); });
  if (!asked) return asked.failure();
  return status_of(found);
}

Result<std::uint64_t> File::size() const {
  return status().transform([](const FileStatus& found) { return found.size; });
}

Result<void> File::set_permissions(mode_t permissions) const {
  const Result<FileStatus> now = status();
  if (!now) return now.failure();
  if (now->permissions == permissions) return {};  // all that some file systems can do
  return done_on_thread(descriptor_, [&](Kernel& kernel, int fd) {
    return kernel.set_permissions(fd, permissions);
  });
}

Result<void> File::truncate(std::uint64_t size) const {
  if (size > kOffsetMax) return Unexpected{std::errc::invalid_argument};
  return done_on_thread(descriptor_, [&](Kernel& kernel, int fd) {
    return kernel.truncate(fd, static_cast<std::int64_t>(size));
  });
}

// ── whole files ─────────────────────────────────────────────────────────────────────────────────

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  return File::open(path).and_then([&](File file) { return file.read_all(limit); });
}

namespace {

Result<void> write_and_close(File& file, std::span<const std::byte> bytes) {
  Result<void> done = file.write_all(bytes);
  Result<void> closed = file.close();
  return done ? closed : done;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A name that the directory has got is lost in a crash unless the directory is synced, too. Not
// everybody may open it, and not every file system can do that.
Result<void> sync_directory(const std::string& path) {
  const Result<File> directory = File::open(path);
  if (directory.error() == std::errc::permission_denied) return {};
  if (!directory) return directory.failure();
  Result<void> synced = directory->sync();
  if (synced.error() == std::errc::invalid_argument) return {};
  return synced;
}

// `path` with an addition, so shortened that it is a name where `path` is: most file systems take
// 255 bytes.
std::string draft_name_for(const std::string& path) {
  constexpr std::size_t kBytesKept = 200;
  const std::size_t begin = path.rfind('/') + 1;  // 0: there is none
  return path.substr(0, begin + kBytesKept) + ".draft-" + std::to_string(io().random());
}

void remove_quietly(const std::string& path) noexcept {
  try {
    shielded([&] { static_cast<void>(remove(path)); });
  } catch (...) {  // out of memory, at worst: it stays
  }
}

// A file that is removed again unless it was put in its place.
class [[nodiscard]] Draft {
 public:
  static Result<Draft> beside(const std::string& path, mode_t permissions) {
    constexpr int kTries = 100;
    constexpr FileOptions kNew{.write = true, .create = true, .exclusive = true};
    for (int tries = 1;; ++tries) {
      std::string name = draft_name_for(path);
      FileOptions options = kNew;
      options.permissions = permissions;
      Result<File> file = File::open(name, options);
      if (file) return Draft{*std::move(file), std::move(name)};
      if (file.error() == std::errc::file_exists && tries < kTries) continue;
      // It may have been made, and the memory to hold it not be there.
      if (file.error() != std::errc::file_exists) remove_quietly(name);
      return file.failure();
    }
  }
  Draft(Draft&& other) noexcept
      : file_(std::move(other.file_)), name_(std::exchange(other.name_, {})) {}
  Draft& operator=(Draft&&) = delete;
  ~Draft() {
    if (name_.empty()) return;
    static_cast<void>(file_.close());
    remove_quietly(name_);
  }

  // Durably. `permissions`: whatever the umask has left of them so far; none: that will do.
  Result<void> write(std::span<const std::byte> bytes, std::optional<mode_t> permissions) {
    Result<void> done = file_.write_all(bytes);
    if (done && permissions) done = file_.set_permissions(*permissions);
    if (done) done = file_.sync();
    Result<void> closed = file_.close();
    return done ? closed : done;
  }
  Result<void> publish_as(const std::string& path) {
    Result<void> renamed = rename(name_, path);
    if (renamed) name_.clear();
    return renamed;
  }

 private:
  Draft(File opened, std::string name) noexcept
      : file_(std::move(opened)), name_(std::move(name)) {}

  File file_;
  std::string name_;
};

}  // namespace

Result<void> write_file(const std::string& path, std::span<const std::byte> bytes,
                        WriteFileOptions options) {
  if (!options.atomic) {
    Result<File> file = File::open(path, {.write = true,
                                          .create = true,
                                          .truncate = true,
                                          .permissions = options.permissions});
    if (!file) return file.failure();
    return write_and_close(*file, bytes);
  }
  const Result<FileStatus> before = status(path);
  // What it says of whose rights a program has is for the owner of the old file to say.
  std::optional<mode_t> kept;
  if (before) kept = before->permissions & ~mode_t{S_ISUID | S_ISGID};
  Result<Draft> draft = Draft::beside(path, kept.value_or(options.permissions));
  if (!draft) return draft.failure();
  if (Result<void> written = draft->write(bytes, kept); !written) return written;
  if (Result<void> published = draft->publish_as(path); !published) return published;
  return shielded([&] { return sync_directory(directory_of(path)); });
}

// ── directories ─────────────────────────────────────────────────────────────────────────────────

Result<std::vector<DirectoryEntry>> list_directory(const std::string& path) {
  if (!is_name(path)) return Unexpected{std::errc::invalid_argument};
  std::vector<DirectoryEntry> entries;
  const Result<void> listed = done_on_thread([&](Kernel& kernel) {
    entries.clear();
    return kernel.list_directory(path.c_str(), entries);
  });
  if (!listed) return listed.failure();
  std::ranges::sort(entries, {}, &DirectoryEntry::name);
  return entries;
}

namespace {

Kernel::Answer make_directory(Kernel& kernel, const char* path, mode_t permissions) noexcept {
  const Kernel::Answer made = kernel.make_directory(path, permissions);
  if (made >= 0) return made;
  struct stat there {};
  if (kernel.status(path, there) < 0) return made;
  return S_ISDIR(there.st_mode) ? 0 : -ENOTDIR;
}

}  // namespace

Result<void> create_directories(const std::string& path, mode_t permissions) {
  if (path.empty()) return Unexpected{std::errc::no_such_file_or_directory};
  if (!is_name(path)) return Unexpected{std::errc::invalid_argument};
  return done_on_thread([&](Kernel& kernel) {
    Kernel::Answer made = 0;
    for (std::size_t end = 0; end < path.size() && made >= 0;) {
      end = std::min(path.find('/', end + 1), path.size());
      made = make_directory(kernel, path.substr(0, end).c_str(), permissions);
    }
    return made;
  });
}

Result<void> remove(const std::string& path) {
  if (!is_name(path)) return Unexpected{std::errc::invalid_argument};
  return done_on_thread([&](Kernel& kernel) { return kernel.remove(path.c_str()); });
}

Result<void> rename(const std::string& from, const std::string& to) {
  if (!is_name(from) || !is_name(to)) return Unexpected{std::errc::invalid_argument};
  return done_on_thread(
      [&](Kernel& kernel) { return kernel.rename(from.c_str(), to.c_str()); });
}

Result<FileStatus> status(const std::string& path) {
  if (!is_name(path)) return Unexpected{std::errc::invalid_argument};
  struct stat found {};
  const Result<void> asked =
      done_on_thread([&](Kernel& kernel) { return kernel.status(path.c_str(), found); });
  if (!asked) return asked.failure();
  return status_of(found);
}

Result<bool> exists(const std::string& path) {
  const Result<FileStatus> found = status(path);
  if (found) return true;
  if (found.error() == std::errc::no_such_file_or_directory ||
      found.error() == std::errc::not_a_directory)
    return false;
  return found.failure();
}

}  // namespace weft
