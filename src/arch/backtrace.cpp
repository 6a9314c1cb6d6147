#include "arch/backtrace.hpp"

#include "arch/symbols.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

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
  void* extra = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(asked), &info, &extra, RTLD_DL_LINKMAP) == 0 ||
      !extra)
    return hexadecimal(at);
  const auto& module = *static_cast<const link_map*>(extra);
  const bool is_program = !module.l_name || !*module.l_name;
  const std::uintptr_t in_file = asked - module.l_addr;
  const std::string place = std::string{is_program ? info.dli_fname : module.l_name} + '+' +
                            hexadecimal(in_file);
  Symbol symbol;
  if (info.dli_sname) {
    symbol = {info.dli_sname, asked - reinterpret_cast<std::uintptr_t>(info.dli_saddr)};
  } else if (auto found = find_symbol(is_program ? "/proc/self/exe" : module.l_name, in_file)) {
    symbol = *std::move(found);
  }
  if (symbol.name.empty()) return place;
  return demangled(symbol.name.c_str()) + '+' + hexadecimal(symbol.offset + (at - asked)) + " (" +
         place + ')';
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
