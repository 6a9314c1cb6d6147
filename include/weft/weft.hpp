// All of weft.
#pragma once

#include <weft/blocking.hpp>
#include <weft/blocking_io.hpp>
#include <weft/broadcast.hpp>
#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/explore.hpp>
#include <weft/fiber_local.hpp>
#include <weft/future.hpp>
#include <weft/inspect.hpp>
#include <weft/nursery.hpp>
#include <weft/ordered_tasks.hpp>
#include <weft/pool.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/stop_on_signal.hpp>
#include <weft/stream.hpp>
#include <weft/supervisor.hpp>
#include <weft/sync.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>
#include <weft/watch.hpp>
