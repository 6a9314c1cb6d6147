#include "arch/symbols.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <string_view>

namespace weft::arch {
namespace {

// A file in memory, for reading. What it says about itself is checked against its size: a file may
// have been replaced or cut off since the program was started.
class Mapped {
 public:
  explicit Mapped(const char* path) noexcept {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat about {};
    if (::fstat(fd, &about) == 0 && about.st_size > 0) {
      const auto bytes = static_cast<std::size_t>(about.st_size);
      void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(at), bytes};
    }
    ::close(fd);
  }
  ~Mapped() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  // `count` of them, from `offset` on; none if they are not all there.
  template <class T>
  [[nodiscard]] std::span<const T> at(std::uint64_t offset, std::uint64_t count) const noexcept {
    if (offset > bytes_.size() || count > (bytes_.size() - offset) / sizeof(T)) return {};
    const std::byte* const first = bytes_.data() + offset;
    if (reinterpret_cast<std::uintptr_t>(first) % alignof(T) != 0) return {};
    return {reinterpret_cast<const T*>(first), static_cast<std::size_t>(count)};
  }

 private:
  std::span<const std::byte> bytes_;
};

bool is_at(const Elf64_Sym& symbol, std::uintptr_t address) noexcept {
  return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
         symbol.st_value <= address && address - symbol.st_value < symbol.st_size;
}

std::string name_at(std::span<const char> names, std::uint32_t offset) {
  if (offset >= names.size()) return {};
  const std::string_view rest{names.data() + offset, names.size() - offset};
  return std::string{rest.substr(0, rest.find('\0'))};
}

}  // namespace

std::optional<Symbol> find_symbol(const char* path, std::uintptr_t address) {
  const Mapped file{path};
  const auto header = file.at<Elf64_Ehdr>(0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != ELFCLASS64 || header[0].e_shentsize != sizeof(Elf64_Shdr))
    return std::nullopt;
  const auto sections = file.at<Elf64_Shdr>(header[0].e_shoff, header[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const auto names = file.at<char>(strings.sh_offset, strings.sh_size);
    for (const Elf64_Sym& symbol :
         file.at<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym)))
      if (is_at(symbol, address))
        return Symbol{name_at(names, symbol.st_name), address - symbol.st_value};
  }
  return std::nullopt;
}

}  // namespace weft::arch
