// What an engine does when nothing can ever run again: the rest of it is in the kit.
#pragma once

#include <weft/engine_kit.hpp>

#include <string>
#include <vector>

namespace weft::engine {

// "fiber #3 \"reader\" on event wait \"ready\"", for each that waits for something else than the
// end of others. While no worker runs a fiber that waits now.
std::vector<std::string> describe_waits(const Io& io, Instant now, Duration grain);

// Whether an engine with so many threads, and what watches it, is all there is in this process.
bool is_alone(unsigned threads) noexcept;

}  // namespace weft::engine
