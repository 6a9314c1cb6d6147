// A value that one owner writes and inspectors on other threads may read at any moment. It orders
// nothing: whoever acts on it has other reasons to know that it is right.
#pragma once

namespace weft {

template <class T>
class Inspected {
 public:
  constexpr Inspected() = default;
  constexpr Inspected(T value) noexcept : value_(value) {}
  Inspected& operator=(T value) noexcept {
    __atomic_store(&value_, &value, __ATOMIC_RELAXED);
    return *this;
  }
  operator T() const noexcept {
    T value;
    __atomic_load(&value_, &value, __ATOMIC_RELAXED);
    return value;
  }
  T operator->() const noexcept { return *this; }

 private:
  T value_{};
};

}  // namespace weft
