// A fiber's or nursery's name, free for literals.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

// "warp" costs nothing (a pointer to the literal); a std::string is copied to the heap.
class Name {
 public:
  constexpr Name() noexcept = default;
  consteval Name(const char* literal) noexcept : text_(literal), owned_(false) {}
  Name(const std::string& text) : text_(copy(text)), owned_(true) {}
  explicit Name(std::string_view text) : text_(copy(text)), owned_(true) {}
  Name(const Name& other) : text_(other.text_), owned_(other.owned_) {
    if (owned_) text_ = copy(other.text_);
  }
  Name(Name&& other) noexcept
      : text_(std::exchange(other.text_, nullptr)), owned_(std::exchange(other.owned_, false)) {}
  Name& operator=(Name other) noexcept {
    std::swap(text_, other.text_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~Name() {
    if (owned_) delete[] text_;
  }

  [[nodiscard]] bool empty() const noexcept { return text_ == nullptr || *text_ == '\0'; }
  [[nodiscard]] const char* c_str() const noexcept { return text_ ? text_ : ""; }
  [[nodiscard]] std::string_view view() const noexcept { return c_str(); }

  // Gives the text away; `owned` tells whether the taker must delete[] it.
  const char* release(bool& owned) && noexcept {
    owned = std::exchange(owned_, false);
    return std::exchange(text_, nullptr);
  }

 private:
  static const char* copy(std::string_view text) {
    char* const out = new char[text.size() + 1];
    std::memcpy(out, text.data(), text.size());
    out[text.size()] = '\0';
    return out;
  }

  const char* text_ = nullptr;
  bool owned_ = false;
};

}  // namespace weft
