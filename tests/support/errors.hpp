// What an error says.
#pragma once

#include <exception>
#include <string>

namespace weft::testing {

[[nodiscard]] inline std::string what(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "not a std::exception";
  }
  return "no error";
}

// The text of the Error that `f` throws; others pass.
template <class Error, class F>
[[nodiscard]] std::string text_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of the kind was thrown";
}

}  // namespace weft::testing
