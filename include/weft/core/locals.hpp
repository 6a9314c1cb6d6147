// Locals: the values that a fiber has set or inherited, see <weft/fiber_local.hpp>.
//
// A fiber hands them to the children it spawns by counting, not by copying: what is shared is never
// changed, and whoever sets a value gets a list of its own first. A fiber without any has none of
// this, and pays a null pointer.
#pragma once

#include <weft/base/sync.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace weft {

class Locals {
 public:
  using Key = std::uint64_t;
  static Key new_key() noexcept;  // never the same again

  // Null: not set.
  [[nodiscard]] const void* find(Key key) const noexcept {
    for (const auto& [known, value] : values_)
      if (known == key) return value.get();
    return nullptr;
  }

  void keep() noexcept { keepers_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;
  // Sets one value in `locals`, which may be null and is replaced if it is shared.
  static void set(Locals*& locals, Key key, std::shared_ptr<const void> value);

 private:
  Atomic<std::uint32_t> keepers_{1};
  std::vector<std::pair<Key, std::shared_ptr<const void>>> values_;  // few
};

}  // namespace weft
