// Handle: what sockets and pipes have in common: they own a descriptor.
#pragma once

#include <weft/core/arm.hpp>
#include <weft/core/descriptor.hpp>
#include <weft/result.hpp>

#include <concepts>
#include <utility>

namespace weft {

// It moves, and closes when it is destroyed. Belongs to the engine it was made in.
class Handle {
 public:
  // Calls that are under way end with IoError::closed; waits for them to leave. Never a cancel
  // point. Idempotent.
  Result<void> close() noexcept { return descriptor_.close(); }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_.is_open(); }
  explicit operator bool() const noexcept { return is_open(); }

  // For system calls of your own, and for what is built on top; the descriptor stays ours.
  [[nodiscard]] int native_handle() const noexcept { return descriptor_.fd(); }
  [[nodiscard]] const Descriptor& descriptor() const noexcept { return descriptor_; }

 protected:
  Handle() = default;  // closed
  explicit Handle(Descriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}
  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) noexcept = default;
  ~Handle() = default;

  // Arms, for children to give names to.
  [[nodiscard]] Descriptor::Ready on_ready(Way way) const noexcept {
    return descriptor_.on_ready(way);
  }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Descriptor::Ready, Handler> on_ready(Way way, Handler handler) const {
    return Handled<Descriptor::Ready, Handler>{std::move(handler), descriptor_, way};
  }

 private:
  Descriptor descriptor_;
};

}  // namespace weft
