#include "holder.hpp"

#include <weft/core/thread.hpp>

#include <cstdio>
#include <string>

namespace weft::sync {
namespace {

// It may be running, and rename itself.
std::string name_of(const Fiber& holder) noexcept {
  try {
    return holder.copy_name();
  } catch (...) {
    return {};  // no memory: its number will do
  }
}

}  // namespace

std::string_view held_by(std::string_view verb, const Fiber& holder, const Fiber& waiter,
                         std::span<char> text) noexcept {
  const int length = static_cast<int>(verb.size());
  const Io* const where = holder.io;
  int written = 0;
  if (&holder == &waiter) {
    written = std::snprintf(text.data(), text.size(), "%.*s (held by itself)", length, verb.data());
  } else if (where == nullptr) {
    written = std::snprintf(text.data(), text.size(), "%.*s (held by a fiber that has ended)",
                            length, verb.data());
  } else if (where == waiter.io && where != &ThreadIo::get()) {
    const std::string name = name_of(holder);
    const char* const quote = name.empty() ? "" : "\"";
    written = std::snprintf(text.data(), text.size(), "%.*s (held by #%llu%s%s%.32s%s)", length,
                            verb.data(), static_cast<unsigned long long>(holder.id),
                            name.empty() ? "" : " ", quote, name.c_str(), quote);
  } else {
    written = std::snprintf(text.data(), text.size(), "%.*s (held by %s)", length, verb.data(),
                            where == &ThreadIo::get() ? "a thread" : "a fiber of another engine");
  }
  if (written < 0) return verb;
  const auto wanted = static_cast<std::size_t>(written);
  return {text.data(), wanted < text.size() ? wanted : text.size() - 1};
}

}  // namespace weft::sync
