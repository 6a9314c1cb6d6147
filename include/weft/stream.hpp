// Streams: values on their way through stages, each a fiber of the caller's nursery.
//
//   weft::nursery([&](weft::Nursery& n) {
//     weft::stream(n, std::move(numbers.rx))
//         | weft::where([](int v) { return v % 2 == 0; })
//         | weft::map([](int v) { return v * v; })
//         | weft::buffer(16)
//         | weft::for_each([&](int v) { sum += v; });   // runs here, and returns at the end
//   });
//
// Stages are joined by channels: a slow one holds those before it back. They are torn down from
// either end; an error goes on to those behind, and fails the nursery. <weft/stream/stage.hpp> says
// how, docs/streams.md shows it.
#pragma once

#include <weft/stream/ends.hpp>
#include <weft/stream/flow.hpp>
#include <weft/stream/grouping.hpp>
#include <weft/stream/joining.hpp>
#include <weft/stream/par_map.hpp>
#include <weft/stream/rpc.hpp>
#include <weft/stream/sinks.hpp>
#include <weft/stream/sources.hpp>
#include <weft/stream/splitting.hpp>
#include <weft/stream/stage.hpp>
#include <weft/stream/steps.hpp>
#include <weft/stream/timed.hpp>
