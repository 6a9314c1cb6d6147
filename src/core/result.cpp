#include <weft/result.hpp>

#include <string>

namespace weft {
namespace {

class IoCategory final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "weft"; }
  [[nodiscard]] std::string message(int code) const override {
    switch (static_cast<IoError>(code)) {
      case IoError::closed: return "closed by this program";
      case IoError::end_of_stream: return "the stream ended before all was read";
      case IoError::too_long: return "longer than the limit";
      case IoError::no_reactor: return "the running engine has no I/O";
    }
    return "unknown error " + std::to_string(code);
  }
  [[nodiscard]] std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<IoError>(code)) {
      case IoError::closed: return std::errc::bad_file_descriptor;
      case IoError::too_long: return std::errc::message_size;
      case IoError::no_reactor: return std::errc::operation_not_supported;
      case IoError::end_of_stream: break;
    }
    return {code, *this};
  }
};

}  // namespace

const std::error_category& io_category() noexcept {
  static const IoCategory category;
  return category;
}

}  // namespace weft
