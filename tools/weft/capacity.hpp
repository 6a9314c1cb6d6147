// Capacity: how many fibers this machine can park at a time, and what this process holds.
#pragma once

#include <string_view>

namespace weft::tour {

// The number that follows `word` in a file of the kernel's; 0: there is none.
double number_after(const char* file, std::string_view word);

// Whether stacks are guarded by the kernel's own guard regions here, which cost no mapping. An
// engine chooses the same way. Throws Surprise if there is no stack to be had.
bool has_kernel_guards();

// `wanted`, or as many as half of the memory that is to be had will do for; no fewer than 100.
long affordable(long wanted);

// Of this process, now.
double resident_bytes();
long open_descriptors();

}  // namespace weft::tour
