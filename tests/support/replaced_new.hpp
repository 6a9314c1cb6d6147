// An operator new that counts, and refuses. A program of its own links replaced_new.cpp; under
// ThreadSanitizer nothing is counted or refused.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::testing {

inline std::atomic<std::uint64_t> allocations{0};  // of all threads, those refused included
inline std::atomic<bool> refuse_all{false};

// Allocations of this thread until one is refused; below zero: all are made. Others have theirs: a
// thread that begins, for one, cannot do without.
inline thread_local int allowed = -1;

}  // namespace weft::testing
