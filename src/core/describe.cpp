#include <weft/core/describe.hpp>

#include <weft/core/waitable.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

namespace weft {
namespace {

// "1.25 s", "250 ms", "12 us": three or four digits say enough.
std::string in_units(Duration length) {
  struct Unit {
    double nanoseconds;
    const char* name;
  };
  constexpr std::array kUnits{Unit{1e9, "s"}, Unit{1e6, "ms"}, Unit{1e3, "us"}};
  const auto count = static_cast<double>(length.count());
  char text[64];
  for (const Unit& unit : kUnits) {
    if (count < unit.nanoseconds) continue;
    const double value = count / unit.nanoseconds;
    if (value >= 1000) std::snprintf(text, sizeof text, "%.0f %s", value, unit.name);
    else std::snprintf(text, sizeof text, "%.4g %s", value, unit.name);
    return text;
  }
  if (length == Duration::zero()) return "0 s";
  return std::to_string(length.count()) + " ns";
}

// The file and its directory: enough to find it, and the same on every machine.
std::string_view shortened(std::string_view path) {
  const std::size_t name = path.rfind('/');
  if (name == std::string_view::npos || name == 0) return path;
  const std::size_t directory = path.rfind('/', name - 1);
  return directory == std::string_view::npos ? path : path.substr(directory + 1);
}

}  // namespace

std::string Words::span(Duration length) const {
  if (grain_ == Duration::zero()) return in_units(length);
  if (length < grain_) return "less than " + in_units(grain_);
  return in_units(length - length % grain_);
}

std::string Words::number_of(const void* object) {
  auto found = std::find(nameless_.begin(), nameless_.end(), object);
  if (found == nameless_.end()) found = nameless_.insert(found, object);
  return '@' + std::to_string(found - nameless_.begin() + 1);
}

std::string Words::wait_of(const Waiting& waiting) {
  return arms_of(waiting) + " for " + span(now_ - waiting.since);
}

std::string Words::arms_of(const Waiting& waiting) {
  std::string text;
  for (const Waitable* const arm : waiting.arms) {
    const WaitReason reason = arm->reason();
    if (!text.empty()) text += " or ";
    text += reason.verb;
    if (!reason.name.empty()) text += " \"" + std::string{reason.name} + '"';
    else if (reason.object && !reason.is_join) text += ' ' + number_of(reason.object);
    if (!reason.peer.empty())
      text += " (" + std::to_string(reason.peers_alive) + ' ' + std::string{reason.peer} +
              (reason.peers_alive == 1 ? " live)" : "s live)");
  }
  return text;
}

std::string Words::origin(std::string text, Site site) {
  if (!site) return {};
  return std::move(text) + std::string{shortened(site.file)} + ':' + std::to_string(site.line);
}

std::string Words::origin_of(const Fiber& fiber) {
  return origin(", spawned at ", fiber.closure->spawned_at.get());
}

}  // namespace weft
