#include <weft/core/locals.hpp>

namespace weft {

Locals::Key Locals::new_key() noexcept {
  static constinit Atomic<Key> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void Locals::release() noexcept {
  // release: the last keeper destroys what we have read. acquire: so it does after us.
  if (keepers_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void Locals::set(Locals*& locals, Key key, std::shared_ptr<const void> value) {
  // acquire: pairs with release(); who is alone comes after all who were there.
  if (!locals || locals->keepers_.load(std::memory_order_acquire) != 1) {
    auto own = std::make_unique<Locals>();
    if (locals) own->values_ = locals->values_;
    Locals* const shared = std::exchange(locals, own.release());
    if (shared) shared->release();
  }
  for (auto& [known, old] : locals->values_)
    if (known == key) return old.swap(value);  // destroyed when all is in order
  locals->values_.emplace_back(key, std::move(value));
}

}  // namespace weft
