#include <weft/core/fiber.hpp>

#include <weft/core/carrier.hpp>
#include <weft/core/error.hpp>
#include <weft/core/thread.hpp>

#include <stdexcept>

namespace weft {

#if !defined(WEFT_MODEL)
static_assert(sizeof(Fiber) == kFrameBytes[0], "a small frame is two cache lines");
static_assert(offsetof(Fiber, closure) == 64, "a switch touches the first line only");
static_assert(offsetof(Fiber, room) + kRoomBytes[0] == kFrameBytes[0]);
static_assert(offsetof(Fiber, room) + kRoomBytes[1] == kFrameBytes[1]);
#endif

void Fiber::set_name(Name name) noexcept {
  if (name_owned) delete[] name_text;
  name_text = std::move(name).release(name_owned);
}

Io& io() {
  Io& own = *Fiber::current().io;
  if (&own == &ThreadIo::get())
    throw std::logic_error{"weft::io(): this thread is not inside an engine; call weft::run() or "
                           "FiberIo::run() first"};
  return own;
}

void Io::raise_deadlock() const { throw Deadlock{"deadlock"}; }

Clock::time_point Clock::now() noexcept { return Fiber::current().io->now(); }

}  // namespace weft
