// Locks and friends: all that fibers and threads wait for together, but channels.
#pragma once

#include <weft/barrier.hpp>
#include <weft/cond_var.hpp>
#include <weft/event.hpp>
#include <weft/latch.hpp>
#include <weft/mutex.hpp>
#include <weft/once.hpp>
#include <weft/rate_limiter.hpp>
#include <weft/semaphore.hpp>
#include <weft/shared_mutex.hpp>
