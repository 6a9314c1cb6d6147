// Site: a place in the source, taken where it is the default of a parameter.
#pragma once

#include <weft/base/inspected.hpp>

#include <algorithm>
#include <cstdint>

namespace weft {

// `void spawn(F f, Site site = Site::here())` learns the line of its caller.
struct Site {
  const char* file = nullptr;  // null: not known
  unsigned line = 0;

  [[nodiscard]] static constexpr Site here(const char* file_in = __builtin_FILE(),
                                           unsigned line_in = __builtin_LINE()) noexcept {
    return {file_in, line_in};
  }
  explicit constexpr operator bool() const noexcept { return file != nullptr; }
};

// A Site that any thread may note or read at any moment. One word, so that nobody leaves its line
// beside another's file.
class KeptSite {
 public:
  constexpr KeptSite() = default;

  // The first one stands. One load once there is one: what is shared is not written again.
  [[gnu::always_inline]] void note_first(Site site) noexcept {
    if (word_ == 0) [[unlikely]] word_ = pack(site);
  }
  void replace(Site site) noexcept { word_ = pack(site); }
  [[nodiscard]] Site get() const noexcept {
    const std::uint64_t word = word_;
    return {reinterpret_cast<const char*>(word & kAddress),
            static_cast<unsigned>(word >> kAddressBits)};
  }

 private:
  static constexpr unsigned kAddressBits = 48;  // of what programs are loaded to
  static constexpr std::uint64_t kAddress = (std::uint64_t{1} << kAddressBits) - 1;
  static constexpr unsigned kLineMax = 0xffff;

  static std::uint64_t pack(Site site) noexcept {
    const auto address = reinterpret_cast<std::uint64_t>(site.file);
    if ((address & ~kAddress) != 0) return 0;
    return address | std::uint64_t{std::min(site.line, kLineMax)} << kAddressBits;
  }

  Inspected<std::uint64_t> word_ = 0;
};

}  // namespace weft
