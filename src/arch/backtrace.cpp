#include "arch/backtrace.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace weft::arch {

void Backtrace::take(const void* first) noexcept {
  exact_first = false;
  const int got = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  count = got > 0 ? static_cast<std::size_t>(got) : 0;
  const auto end = frames.begin() + static_cast<std::ptrdiff_t>(count);
  const auto at = std::find(frames.begin(), end, first);
  if (at == end) return;  // better too much than nothing
  std::copy(at, end, frames.begin());
  count = static_cast<std::size_t>(end - at);
}

void prepare_backtraces() noexcept {
  Backtrace trace;
  trace.take(nullptr);
}

namespace {

std::string hexadecimal(std::uintptr_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(number));
  return text;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text{
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free};
  return status == 0 && text ? text.get() : name;
}

}  // namespace

std::string name_of_address(const void* address, bool is_return_address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  // A call may be the last instruction of its function; then it returns into the next one.
  const std::uintptr_t asked = at - (is_return_address ? 1 : 0);
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(asked), &info) == 0 || !info.dli_fname)
    return hexadecimal(at);
  const std::string place = std::string{info.dli_fname} + '+' +
                            hexadecimal(asked - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  if (!info.dli_sname) return place;
  return demangled(info.dli_sname) + '+' +
         hexadecimal(at - reinterpret_cast<std::uintptr_t>(info.dli_saddr)) + " (" + place + ')';
}

std::string to_string(const Backtrace& trace, const char* indent) {
  std::string text;
  for (std::size_t i = 0; i < trace.count; ++i) {
    const bool exact = i == 0 && trace.exact_first;
    text += std::string{indent} + '#' + std::to_string(i) + ' ' +
            name_of_address(trace.frames[i], !exact) + '\n';
  }
  return text;
}

}  // namespace weft::arch
