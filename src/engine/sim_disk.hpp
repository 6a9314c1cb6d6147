// SimDiskState: the files of a simulated host, as programs see them and as they are on the disk.
//
// Each file has its bytes twice, and between the two the writes that were not synced. Each
// directory has its entries twice. A crash throws away what programs saw, and goes on with the
// rest. See SimDisk in <weft/sim_world.hpp> for what a sync makes durable.
#pragma once

#include "sim_bytes.hpp"
#include "sim_events.hpp"

#include <weft/core/kernel.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::engine {

struct SimFile {
  enum class Kind : std::uint8_t { file, directory, socket };
  // Bytes to be written, or with `resizes` a new size.
  struct Pending {
    std::uint64_t offset = 0;
    std::string bytes{};
    bool resizes = false;
  };
  using Entries = std::map<std::string, std::shared_ptr<SimFile>, std::less<>>;

  Kind kind = Kind::file;
  std::uint64_t number = 0;
  mode_t permissions = 0;
  Instant changed{};
  SparseBytes bytes, durable;
  std::vector<Pending> pending;
  Entries entries, durable_entries;
  bool is_linked = true;  // else there are only descriptors left
};

class SimDiskState {
 public:
  using Answer = Kernel::Answer;
  using FilePtr = std::shared_ptr<SimFile>;

  explicit SimDiskState(SimEvents& events);

  // ── by path ─────────────────────────────────────────────────────────────────────────────────
  Answer open(std::string_view path, int flags, mode_t permissions, FilePtr& opened);
  Answer status(std::string_view path, struct stat& status) const;
  Answer rename(std::string_view from, std::string_view to);
  Answer remove(std::string_view path);
  Answer make_directory(std::string_view path, mode_t permissions);
  Answer list(std::string_view path, std::vector<DirectoryEntry>& entries) const;
  // A name for a Unix socket. -EADDRINUSE: there is something of that name.
  Answer make_socket(std::string_view path);
  [[nodiscard]] FilePtr find(std::string_view path) const;  // null: none

  // ── by file ─────────────────────────────────────────────────────────────────────────────────
  Answer read(const SimFile& file, std::uint64_t offset, std::size_t count, std::string& bytes);
  Answer write(SimFile& file, std::uint64_t offset, std::string_view bytes);
  Answer sync(const FilePtr& file);
  Answer truncate(SimFile& file, std::int64_t size);
  static void status(const SimFile& file, struct stat& status) noexcept;

  void crash();
  [[nodiscard]] std::uint64_t used() const;

  std::uint64_t capacity = std::uint64_t{1} << 30;
  int error = 0;
  double error_probability = 0;
  double short_transfers = 0;
  double survival = 0;

 private:
  // A path, taken apart and followed up to its last name.
  struct Way {
    Answer answer = 0;    // else why there is none
    FilePtr directory{};  // null: it is the root itself
    std::string name{};
    FilePtr file{};       // null: nothing of that name
  };
  [[nodiscard]] Way follow(std::string_view path) const;
  FilePtr create(const Way& way, SimFile::Kind kind, mode_t permissions);
  [[nodiscard]] bool fails() noexcept { return events_.chance(error_probability); }
  void make_path_durable(const FilePtr& file);
  void forget_pages(const SimFile& file) noexcept;
  void recover(SimFile& file);
  void recount();

  SimEvents& events_;
  FilePtr root_;
  std::uint64_t numbers_ = 1;
  std::uint64_t used_ = 0;  // by what programs see
};

// The names that lead to a file, from the root on; "." and ".." are followed.
std::vector<std::string> names_in(std::string_view path);

}  // namespace weft::engine
