// Looking inside a running engine. docs/inspection.md explains what is printed.
#pragma once

#include <weft/engine.hpp>

#include <chrono>
#include <iosfwd>

namespace weft {

// Writes the engine's workers with the lengths of their queues, and its fibers as a tree: who was
// spawned where and in which nursery, in which state each is, what the waiting ones wait for, and
// for how long. From a fiber of the engine or from any other thread, at any moment.
//
// The engine's fibers stand still meanwhile. A worker whose fiber does not give way within
// `patience` is printed as such; the others are shown all the same.
void dump(Engine& engine, std::ostream& out, Duration patience = std::chrono::seconds{1});

// The same for every engine of the process: for watchdogs, and what Options::dump_signal asks for.
void dump_all(std::ostream& out);

}  // namespace weft
