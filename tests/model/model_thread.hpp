// A controlled thread as a plain thread of weft: what waits there sleeps in the kernel.
#pragma once

#include <weft/core/carrier.hpp>
#include <weft/core/thread.hpp>

#include "explorer/api.hpp"

namespace weft::model {

// Made before the first execution, and so no part of any: it is never destroyed.
inline Io& thread_engine = ThreadIo::get();

// ThreadCarrier without its constructor's frame from the pool.
inline void as_thread(void (*body)(void*), void* at) {
  Fiber* const frame = make<Fiber>();
  {
    ThreadCarrier carrier{*frame};
    thread_slot() = &carrier;
    body(at);
    thread_slot() = nullptr;
  }
  destroy(frame);
}

}  // namespace weft::model
