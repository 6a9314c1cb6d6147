// Looking inside a running engine.
#pragma once

#include <weft/engine.hpp>

#include <iosfwd>

namespace weft {

// Writes the engine's fibers as a tree: who was spawned in which nursery, in which state each is,
// and what the waiting ones wait for. From a fiber of the engine or from any other thread; the
// engine's own fibers stand still meanwhile. A worker that runs a fiber which does not give way
// within a second is reported as such instead.
void dump(Engine& engine, std::ostream& out);

// The same for every engine of the process: for watchdogs and signal handling threads.
void dump_all(std::ostream& out);

}  // namespace weft
