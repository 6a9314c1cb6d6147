// Pass: the iterator of whatever hands out one value after another until there are no more.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

namespace weft::detail {

// A single pass. `From` has recv() or next(), which returns an optional; begin() waits for the
// first value.
template <class From, class T>
class Pass {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = T;
  using difference_type = std::ptrdiff_t;

  Pass() = default;
  explicit Pass(const From& from) : from_(&from), value_(next()) {}

  T& operator*() const noexcept { return *value_; }
  Pass& operator++() {
    value_.reset();  // before we wait: nobody has use for it any more
    if (std::optional<T> value = next()) value_.emplace(*std::move(value));
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Pass& at, std::default_sentinel_t) noexcept {
    return !at.value_.has_value();
  }

 private:
  [[nodiscard]] std::optional<T> next() const {
    if constexpr (requires { from_->recv(); }) return from_->recv();
    else return from_->next();
  }

  const From* from_ = nullptr;
  mutable std::optional<T> value_;
};

}  // namespace weft::detail
