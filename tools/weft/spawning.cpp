#include "tour.hpp"

#include <weft/core/frame_pool.hpp>
#include <weft/weft.hpp>

namespace weft::tour {
namespace {

double one_at_a_time(long count) {
  long ran = 0;
  const double taken = best_seconds([&] {
    ran = 0;
    for (long i = 0; i < count; ++i) nursery([&](Nursery& n) { n.spawn([&ran] { ++ran; }); });
  });
  expect(ran == count, "a child did not run");
  return taken * 1e9 / static_cast<double>(count);
}

double batch(long count) {
  long ran = 0;
  const double taken = seconds([&] {
    nursery([&](Nursery& n) {
      for (long i = 0; i < count; ++i) n.spawn([&ran] { ++ran; });
    });
  });
  expect(ran == count, "a child did not run");
  return taken * 1e9 / static_cast<double>(count);
}

}  // namespace

void spawning(Page& page) {
  const long one_by_one = at_most(1'000'000, 50'000, 10'000);
  const long many = at_most(100'000, 100'000, 10'000);
  FiberIo io{{.workers = 1}};  // chapter "forkjoin" has them all
  io.run([&] {
    page.say("A nursery with one child, again and again:");
    page.figure("spawn and join", one_at_a_time(one_by_one), "ns");
    page.say("One nursery with " + grouped(many) +
             " children. A queued fiber has no stack, only a");
    page.say("frame of " + grouped(kFrameBytes[0]) +
             " bytes; the first time, frames come from the system:");
    page.figure("each, first batch", batch(many), "ns");
    const std::uint64_t frames = frames_made();
    double best = batch(many);
    for (int i = 0; i < 4; ++i)
      if (const double again = batch(many); again < best) best = again;
    page.figure("each, a later batch", best, "ns");
    expect(frames_made() == frames, "frames were not used again");
    page.figure("frames made by the later batches", "0");
  });
}

}  // namespace weft::tour
