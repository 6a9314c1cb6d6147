// The name of a function that a program does not export: it is in the file all the same, unless
// that was stripped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft::arch {

struct Symbol {
  std::string name;           // as in the file, mangled
  std::uintptr_t offset = 0;  // of the address asked for, in the function
};

// The function at `address`, as the ELF file at `path` numbers its addresses. Reads the file anew
// every time: for reports, of which there are few.
std::optional<Symbol> find_symbol(const char* path, std::uintptr_t address);

}  // namespace weft::arch
