#include "sim_disk.hpp"

#include <fcntl.h>

#include <cerrno>
#include <climits>
#include <functional>
#include <set>

namespace weft::engine {
namespace {

constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 44;  // as a common file system has it

using Kind = SimFile::Kind;

bool is_within(const SimFile& directory, const SimFile& file) {
  if (&directory == &file) return true;
  for (const auto& [name, entry] : directory.entries)
    if (entry->kind == Kind::directory && is_within(*entry, file)) return true;
  return false;
}

mode_t type_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::directory: return S_IFDIR;
    case Kind::socket: return S_IFSOCK;
    case Kind::file: break;
  }
  return S_IFREG;
}

}  // namespace

std::vector<std::string> names_in(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    if (name.empty() || name == ".") continue;
    if (name != "..") names.emplace_back(name);
    else if (!names.empty()) names.pop_back();
  }
  return names;
}

SimDiskState::SimDiskState(SimEvents& events)
    : events_(events), root_(std::make_shared<SimFile>()) {
  root_->kind = Kind::directory;
  root_->number = numbers_++;
  root_->permissions = 0755;
  for (const char* const usual : {"/tmp", "/var", "/home"}) {
    static_cast<void>(make_directory(usual, 0755));
    make_path_durable(find(usual));
  }
}

// ── by path ─────────────────────────────────────────────────────────────────────────────────────

SimDiskState::Way SimDiskState::follow(std::string_view path) const {
  if (path.empty()) return Way{-ENOENT};
  if (path.size() >= PATH_MAX) return Way{-ENAMETOOLONG};
  Way way;
  way.file = root_;
  for (const std::string& name : names_in(path)) {
    if (name.size() > NAME_MAX) return Way{-ENAMETOOLONG};
    if (!way.file) return Way{-ENOENT};
    if (way.file->kind != Kind::directory) return Way{-ENOTDIR};
    way.directory = way.file;
    way.name = name;
    const auto at = way.directory->entries.find(name);
    way.file = at == way.directory->entries.end() ? nullptr : at->second;
  }
  if (way.file && path.back() == '/' && way.file->kind != Kind::directory)
    way.answer = -ENOTDIR;
  return way;
}

SimDiskState::FilePtr SimDiskState::find(std::string_view path) const {
  const Way way = follow(path);
  return way.answer < 0 ? nullptr : way.file;
}

SimDiskState::FilePtr SimDiskState::create(const Way& way, Kind kind, mode_t permissions) {
  const auto file = std::make_shared<SimFile>();
  file->kind = kind;
  file->number = numbers_++;
  file->permissions = permissions & 07777;
  file->changed = way.directory->changed = events_.now();
  way.directory->entries[way.name] = file;
  return file;
}

SimDiskState::Answer SimDiskState::open(std::string_view path, int flags, mode_t permissions,
                                        FilePtr& opened) {
  const Way way = follow(path);
  if (way.answer < 0) return way.answer;
  if (fails()) return -error;
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (!way.file) {
    if (!(flags & O_CREAT)) return -ENOENT;
    if (path.back() == '/') return -EISDIR;
    if (!way.directory->is_linked) return -ENOENT;
    opened = create(way, Kind::file, permissions);
    return 0;
  }
  if ((flags & O_CREAT) && (flags & O_EXCL)) return -EEXIST;
  if (way.file->kind == Kind::socket) return -ENXIO;
  if ((flags & O_DIRECTORY) && way.file->kind != Kind::directory) return -ENOTDIR;
  if (way.file->kind == Kind::directory && (writes || (flags & O_CREAT))) return -EISDIR;
  opened = way.file;
  if ((flags & O_TRUNC) && writes) return truncate(*opened, 0);
  return 0;
}

SimDiskState::Answer SimDiskState::status(std::string_view path, struct stat& to) const {
  const Way way = follow(path);
  if (way.answer < 0) return way.answer;
  if (!way.file) return -ENOENT;
  status(*way.file, to);
  return 0;
}

SimDiskState::Answer SimDiskState::rename(std::string_view from, std::string_view to) {
  const Way source = follow(from);
  if (source.answer < 0) return source.answer;
  const Way target = follow(to);
  if (target.answer < 0) return target.answer;
  if (!source.file) return -ENOENT;
  if (!source.directory || !target.directory) return -EBUSY;
  const bool is_directory = source.file->kind == Kind::directory;
  if (is_directory && is_within(*source.file, *target.directory)) return -EINVAL;
  if (source.file == target.file) return 0;
  if (target.file) {
    const bool onto_directory = target.file->kind == Kind::directory;
    if (is_directory != onto_directory) return is_directory ? -ENOTDIR : -EISDIR;
    if (!target.file->entries.empty()) return -ENOTEMPTY;
    target.file->is_linked = false;
    forget_pages(*target.file);
  }
  source.directory->entries.erase(source.name);
  target.directory->entries[target.name] = source.file;
  source.directory->changed = target.directory->changed = events_.now();
  return 0;
}

SimDiskState::Answer SimDiskState::remove(std::string_view path) {
  const Way way = follow(path);
  if (way.answer < 0) return way.answer;
  if (!way.file) return -ENOENT;
  if (!way.directory) return -EBUSY;
  if (!way.file->entries.empty()) return -ENOTEMPTY;
  way.file->is_linked = false;
  forget_pages(*way.file);
  way.directory->entries.erase(way.name);
  way.directory->changed = events_.now();
  return 0;
}

SimDiskState::Answer SimDiskState::make_directory(std::string_view path, mode_t permissions) {
  const Way way = follow(path);
  if (way.answer < 0) return way.answer;
  if (way.file) return -EEXIST;
  create(way, Kind::directory, permissions);
  return 0;
}

SimDiskState::Answer SimDiskState::make_socket(std::string_view path) {
  const Way way = follow(path);
  if (way.answer < 0) return way.answer;
  if (way.file) return -EADDRINUSE;
  create(way, Kind::socket, 0755);
  return 0;
}

SimDiskState::Answer SimDiskState::list(std::string_view path,
                                        std::vector<DirectoryEntry>& entries) const {
  const Way way = follow(path);
  if (way.answer < 0) return way.answer;
  if (!way.file) return -ENOENT;
  if (way.file->kind != Kind::directory) return -ENOTDIR;
  for (const auto& [name, file] : way.file->entries) {
    using EntryKind = DirectoryEntry::Kind;
    entries.push_back({name, file->kind == Kind::directory ? EntryKind::directory
                             : file->kind == Kind::file    ? EntryKind::file
                                                           : EntryKind::other});
  }
  return 0;
}

// ── by file ─────────────────────────────────────────────────────────────────────────────────────

SimDiskState::Answer SimDiskState::read(const SimFile& file, std::uint64_t offset,
                                        std::size_t count, std::string& bytes) {
  if (file.kind == Kind::directory) return -EISDIR;
  if (fails()) return -error;
  if (offset > INT64_MAX) return -EINVAL;
  if (offset >= file.bytes.size() || count == 0) return 0;
  // A hole may be larger than memory: no call carries more than this.
  constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 24;
  std::uint64_t size = std::min({std::uint64_t{count}, file.bytes.size() - offset, kAtOnce});
  if (events_.chance(short_transfers)) size = events_.between(std::uint64_t{1}, size);
  bytes = file.bytes.read(offset, static_cast<std::size_t>(size));
  return static_cast<Answer>(bytes.size());
}

SimDiskState::Answer SimDiskState::write(SimFile& file, std::uint64_t offset,
                                         std::string_view bytes) {
  if (fails()) return -error;
  if (bytes.empty()) return 0;
  if (offset > INT64_MAX) return -EINVAL;
  if (offset >= kSizeMax) return -EFBIG;
  bytes = bytes.substr(0, static_cast<std::size_t>(
                              std::min<std::uint64_t>(bytes.size(), kSizeMax - offset)));
  if (bytes.size() > 1 && events_.chance(short_transfers))
    bytes = bytes.substr(0, events_.between(std::uint64_t{1}, bytes.size()));
  constexpr std::uint64_t kPage = SparseBytes::kPageBytes;
  std::uint64_t fits = 0;
  while (fits < bytes.size()) {
    const std::uint64_t at = offset + fits;
    if (!file.bytes.has_page(at)) {
      if (used_ + kPage > capacity) break;
      if (file.is_linked) used_ += kPage;
    }
    fits += std::min<std::uint64_t>(bytes.size() - fits, kPage - at % kPage);
    if (!file.bytes.has_page(at)) file.bytes.write(at, std::string_view{"", 1});
  }
  if (fits == 0) return -ENOSPC;
  bytes = bytes.substr(0, static_cast<std::size_t>(fits));
  file.bytes.write(offset, bytes);
  file.pending.push_back({.offset = offset, .bytes = std::string{bytes}});
  file.changed = events_.now();
  return static_cast<Answer>(fits);
}

SimDiskState::Answer SimDiskState::truncate(SimFile& file, std::int64_t size) {
  if (file.kind == Kind::directory) return -EISDIR;
  if (size < 0) return -EINVAL;
  if (static_cast<std::uint64_t>(size) > kSizeMax) return -EFBIG;
  if (fails()) return -error;
  const std::uint64_t before = file.bytes.room_taken();
  file.bytes.resize(static_cast<std::uint64_t>(size));
  if (file.is_linked) used_ -= before - file.bytes.room_taken();
  file.pending.push_back({.offset = static_cast<std::uint64_t>(size), .bytes{}, .resizes = true});
  file.changed = events_.now();
  return 0;
}

SimDiskState::Answer SimDiskState::sync(const FilePtr& file) {
  if (fails()) return -error;
  for (const SimFile::Pending& one : file->pending) {
    if (one.resizes) file->durable.resize(one.offset);
    else file->durable.write(one.offset, one.bytes);
  }
  file->pending.clear();
  if (file->kind == Kind::directory) file->durable_entries = file->entries;
  if (file->is_linked) make_path_durable(file);
  return 0;
}

void SimDiskState::status(const SimFile& file, struct stat& to) noexcept {
  to = {};
  to.st_mode = type_of(file.kind) | file.permissions;
  to.st_ino = file.number;
  to.st_nlink = file.is_linked ? 1 : 0;
  to.st_size = static_cast<off_t>(file.bytes.size());
  to.st_blksize = static_cast<blksize_t>(SparseBytes::kPageBytes);
  to.st_blocks = static_cast<blkcnt_t>(file.bytes.room_taken() / 512);
  const auto since = file.changed.time_since_epoch().count();
  to.st_mtim = {.tv_sec = since / 1'000'000'000, .tv_nsec = since % 1'000'000'000};
  to.st_atim = to.st_ctim = to.st_mtim;
}

// ── what is durable ─────────────────────────────────────────────────────────────────────────────

// The file's names as programs see them, and none that it had before.
void SimDiskState::make_path_durable(const FilePtr& file) {
  std::set<const SimFile*> on_the_way;  // and the file itself
  const std::function<bool(SimFile&)> descend = [&](SimFile& directory) {
    bool leads_there = false;
    for (const auto& [name, entry] : directory.entries) {
      const bool leads = entry == file || (entry->kind == Kind::directory && descend(*entry));
      if (!leads) continue;
      directory.durable_entries[name] = entry;
      on_the_way.insert(entry.get());
      leads_there = true;
    }
    return leads_there;
  };
  static_cast<void>(descend(*root_));
  // Each directory once, whether programs see it or a crash would bring it back.
  std::set<const SimFile*> seen;
  const std::function<void(SimFile&)> clean = [&](SimFile& directory) {
    if (directory.kind != Kind::directory || !seen.insert(&directory).second) return;
    for (const auto& [name, entry] : directory.entries) clean(*entry);
    for (const auto& [name, entry] : directory.durable_entries) clean(*entry);
    std::erase_if(directory.durable_entries, [&](const auto& one) {
      const auto now = directory.entries.find(one.first);
      const bool is_current = now != directory.entries.end() && now->second == one.second;
      return on_the_way.contains(one.second.get()) && !is_current;
    });
  };
  clean(*root_);
}

void SimDiskState::forget_pages(const SimFile& file) noexcept { used_ -= file.bytes.room_taken(); }

void SimDiskState::recover(SimFile& file) {
  for (const SimFile::Pending& one : file.pending) {
    if (!events_.chance(survival)) continue;
    const std::string_view bytes = one.bytes;
    if (one.resizes) file.durable.resize(one.offset);
    else file.durable.write(one.offset,
                            bytes.substr(0, events_.between(std::uint64_t{1}, bytes.size())));
  }
  file.pending.clear();
  file.bytes = file.durable;
  file.is_linked = true;
  if (file.kind != Kind::directory) return;
  std::erase_if(file.durable_entries,
                [](const auto& one) { return one.second->kind == Kind::socket; });
  file.entries = file.durable_entries;
  for (const auto& [name, entry] : file.entries) recover(*entry);
}

void SimDiskState::crash() {
  recover(*root_);
  recount();
}

void SimDiskState::recount() {
  used_ = 0;
  std::vector<const SimFile*> left{root_.get()};
  while (!left.empty()) {
    const SimFile& file = *left.back();
    left.pop_back();
    used_ += file.bytes.room_taken();
    for (const auto& [name, entry] : file.entries) left.push_back(entry.get());
  }
}

std::uint64_t SimDiskState::used() const { return used_; }

}  // namespace weft::engine
