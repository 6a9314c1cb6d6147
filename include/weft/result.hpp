// Result: what an operation returns that may fail in ordinary ways: a value, or why there is none.
//
//   if (auto peer = listener.accept()) talk_to(*peer);
//   else std::fprintf(stderr, "%s\n", peer.error().message().c_str());
//
// The shape of C++23's std::expected<T, std::error_code>.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace weft {

// What weft itself has to say about I/O; everything else is the system's own errno.
enum class IoError {
  closed = 1,     // the object was closed by us, before the call or while it was under way
  end_of_stream,  // the peer has ended the stream in the middle of what was asked for
  too_long,       // what was asked for is longer than the limit given
  no_reactor,     // the running engine has no I/O
};
const std::error_category& io_category() noexcept;
inline std::error_code make_error_code(IoError error) noexcept {
  return {static_cast<int>(error), io_category()};
}

}  // namespace weft

template <>
struct std::is_error_code_enum<weft::IoError> : std::true_type {};

namespace weft {

// Makes a Result that has failed: `return Unexpected{std::errc::timed_out};`.
class Unexpected {
 public:
  explicit Unexpected(std::error_code error) noexcept : error_(error) {}
  explicit Unexpected(std::errc error) noexcept : error_(std::make_error_code(error)) {}
  explicit Unexpected(IoError error) noexcept : error_(error) {}
  // A system call's errno.
  [[nodiscard]] static Unexpected of(int system_error) noexcept {
    return Unexpected{std::error_code{system_error, std::system_category()}};
  }
  [[nodiscard]] std::error_code error() const noexcept { return error_; }

 private:
  std::error_code error_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  // NOLINTBEGIN(google-explicit-constructor): so that one can `return value;` or a Unexpected
  Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>)
      : value_(std::in_place, std::move(value)) {}
  Result(Unexpected failure) noexcept : error_(failure.error()) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }

  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

  // Throws std::system_error if there is none.
  T& value() & { return require(), *value_; }
  const T& value() const& { return require(), *value_; }
  T&& value() && { return require(), *std::move(value_); }
  template <class U>
  [[nodiscard]] T value_or(U&& other) const& {
    return value_ ? *value_ : static_cast<T>(std::forward<U>(other));
  }
  template <class U>
  [[nodiscard]] T value_or(U&& other) && {
    return value_ ? *std::move(value_) : static_cast<T>(std::forward<U>(other));
  }

  // Why there is no value; no error if there is one.
  [[nodiscard]] std::error_code error() const noexcept { return error_; }
  [[nodiscard]] Unexpected failure() const noexcept { return Unexpected{error_}; }

  // f(value), which returns a Result; or our failure.
  template <class F>
  [[nodiscard]] auto and_then(F&& f) && -> std::invoke_result_t<F, T&&> {
    if (value_) return std::invoke(std::forward<F>(f), *std::move(value_));
    return failure();
  }
  // A Result of f(value); or our failure.
  template <class F>
  [[nodiscard]] auto transform(F&& f) && -> Result<std::invoke_result_t<F, T&&>> {
    if (value_) return std::invoke(std::forward<F>(f), *std::move(value_));
    return failure();
  }
  // Ourselves; or f(error), which returns such a Result.
  template <class F>
  [[nodiscard]] Result or_else(F&& f) && {
    if (value_) return std::move(*this);
    return std::invoke(std::forward<F>(f), error_);
  }

 private:
  void require() const {
    if (!value_) throw std::system_error{error_};
  }

  std::optional<T> value_;
  std::error_code error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Unexpected failure) noexcept : error_(failure.error()) {}

  [[nodiscard]] bool has_value() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (error_) throw std::system_error{error_};
  }
  [[nodiscard]] std::error_code error() const noexcept { return error_; }
  [[nodiscard]] Unexpected failure() const noexcept { return Unexpected{error_}; }

 private:
  std::error_code error_;
};

}  // namespace weft
