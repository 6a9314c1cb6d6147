// Files and directories.
//
//   const std::string text = weft::read_file("notes.txt").value();
//   if (auto done = weft::write_file("notes.txt", text, {.atomic = true}); !done) complain(done);
//
// A file is never "not ready": its calls block their thread, and so they are made on one that may
// be blocked, as weft::blocking() does; where an engine has none, in simulation and in BlockingIo,
// they are made in place. Every call here that may block is a cancel point before it begins; once
// begun, it is waited for, so that no data is lost and the caller's buffer is not touched later.
#pragma once

#include <weft/core/descriptor.hpp>
#include <weft/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// To read only, if it is neither `write` nor `append`.
struct FileOptions {
  bool read = false;
  bool write = false;
  bool create = false;     // if it is not there
  bool exclusive = false;  // with `create`: it must not be there
  bool truncate = false;   // what was in it is gone
  bool append = false;     // every write goes to its end, wherever that is by then
  mode_t permissions = 0666;  // of a file that is created, less the umask
};

struct FileStatus {
  DirectoryEntry::Kind kind = DirectoryEntry::Kind::other;
  std::uint64_t size = 0;
  mode_t permissions = 0;
  std::chrono::nanoseconds modified{};  // since 1970
};

enum class From : std::uint8_t { begin, position, end };
enum class Flush : std::uint8_t {
  everything,
  data_only,  // and of what is said about it only what is needed to read it
};

// An open file. Movable, closes itself. Calls from several fibers at once are fine; those that use
// the file's position share it. After close() they fail with IoError::closed.
class File {
 public:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  File() = default;  // none: every call fails with IoError::closed

  // Options that contradict each other (`truncate` of a file that is not written) are
  // std::errc::invalid_argument; else the error is what open(2) says.
  static Result<File> open(const std::string& path, FileOptions options = {});

  // ── at an offset; the position stays where it is ────────────────────────────────────────────

  // The part of `buffer` that was filled: less than all of it only at the end of the file, or
  // before an error, which the next call finds.
  Result<std::span<std::byte>> read_at(std::span<std::byte> buffer, std::uint64_t offset) const;
  // All of it. A file that ends before `offset` has a gap then, which reads as zeros. After an
  // error some of it may have been written.
  Result<void> write_at(std::span<const std::byte> bytes, std::uint64_t offset) const;
  Result<void> write_at(std::string_view text, std::uint64_t offset) const {
    return write_at(std::as_bytes(std::span{text}), offset);
  }

  // ── at the position, which moves on ─────────────────────────────────────────────────────────

  // At least one byte, or at the end none.
  Result<std::span<std::byte>> read_some(std::span<std::byte> buffer) const;
  // All of `buffer`, or IoError::end_of_stream.
  Result<void> read_exactly(std::span<std::byte> buffer) const;
  // How many were written: at least one, unless there are none.
  Result<std::size_t> write_some(std::span<const std::byte> bytes) const;
  // All of it. Cancelled, or after an error, some of it may have been written.
  Result<void> write_all(std::span<const std::byte> bytes) const;
  Result<void> write_all(std::string_view text) const {
    return write_all(std::as_bytes(std::span{text}));
  }
  // From the position to the end; IoError::too_long if that is more than `limit` bytes.
  Result<std::string> read_all(std::size_t limit = kNoLimit) const;
  Result<std::vector<std::byte>> read_all_bytes(std::size_t limit = kNoLimit) const;
  // Moves it; the new position, counted from the begin.
  Result<std::uint64_t> seek(std::int64_t offset, From from = From::begin) const;

  // ── the file itself ─────────────────────────────────────────────────────────────────────────

  // Returns when what was written has reached the device.
  Result<void> sync(Flush what = Flush::everything) const;
  Result<std::uint64_t> size() const;
  Result<FileStatus> status() const;
  // Whatever the umask. In simulation, where there is none, they are what open() made them:
  // std::errc::operation_not_supported.
  Result<void> set_permissions(mode_t permissions) const;
  // Cuts it off, or fills it up with zeros.
  Result<void> truncate(std::uint64_t size) const;

  [[nodiscard]] bool is_open() const noexcept { return descriptor_.is_open(); }
  explicit operator bool() const noexcept { return is_open(); }
  // Valid until close(); stays ours.
  [[nodiscard]] int native_handle() const noexcept { return descriptor_.fd(); }
  // Waits for the calls that are under way, then closes. Idempotent; never a cancel point. What was
  // written is not on the device by that: see sync().
  Result<void> close() noexcept { return descriptor_.close(); }

 private:
  explicit File(Descriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}

  Descriptor descriptor_;
};

// ── whole files ─────────────────────────────────────────────────────────────────────────────────

Result<std::string> read_file(const std::string& path, std::size_t limit = File::kNoLimit);

struct WriteFileOptions {
  // Whoever reads the file, at whatever time, be it after a crash, sees the old content or the new
  // one, whole: a new file beside it is written, synced and put in its place. It has the old one's
  // permissions (not set-user-ID and set-group-ID: it may be another user's), but is another file:
  // a symbolic or hard link to the old one does not follow. The directory is synced, too, unless
  // we may not open it, or its file system has no such thing.
  bool atomic = false;
  mode_t permissions = 0666;  // if there is no such file yet; less the umask
};
// The file holds `bytes` and nothing else. Cancelled, or after an error, an atomic write has left
// no trace (but for an error of its last step: then the new content is there, and may be the old
// one again after a crash), and the other kind any part of it.
Result<void> write_file(const std::string& path, std::span<const std::byte> bytes,
                        WriteFileOptions options = {});
inline Result<void> write_file(const std::string& path, std::string_view text,
                               WriteFileOptions options = {}) {
  return write_file(path, std::as_bytes(std::span{text}), options);
}

// ── directories ─────────────────────────────────────────────────────────────────────────────────

// What is in it, sorted by name; "." and ".." are not.
Result<std::vector<DirectoryEntry>> list_directory(const std::string& path);
// With those above it. What is there already is no error, unless it is no directory.
Result<void> create_directories(const std::string& path, mode_t permissions = 0777);
// A file or an empty directory.
Result<void> remove(const std::string& path);
// Replaces a file that is there.
Result<void> rename(const std::string& from, const std::string& to);
// Of what a symbolic link leads to.
Result<FileStatus> status(const std::string& path);
Result<bool> exists(const std::string& path);

}  // namespace weft
