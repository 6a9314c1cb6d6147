// What an engine does when nothing can ever run again.
#pragma once

#include <weft/core/io.hpp>

#include <string>
#include <vector>

namespace weft::engine {

// Who waits for what, in the words of a dump. `now` and `grain` as in Words.
std::string describe_deadlock(const Io& io, Instant now, Duration grain);

// "fiber #3 \"reader\" on event wait \"ready\"", for each that waits for something else than the
// end of others. While no worker runs a fiber that waits now.
std::vector<std::string> describe_waits(const Io& io, Instant now, Duration grain);

// Ends every wait of `io`'s fibers with the verdict `deadlock`, except joins: those end by
// themselves, once the children that were waited for have failed. False: there was none to end.
bool raise_deadlock_in_waits(Io& io) noexcept;

// Whether an engine with so many threads, and what watches it, is all there is in this process.
bool is_alone(unsigned threads) noexcept;

}  // namespace weft::engine
