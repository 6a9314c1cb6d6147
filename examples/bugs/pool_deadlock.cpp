// Pool deadlock: a job waits for another job of the same pool.
//
// How one meets it: a server that renders pages with a pool of workers is fast in every test and
// stands still under load. Each page waits for its image, which is a job as well. As long as a
// worker is free, it renders the image; when every worker has a page, nobody is left.
#include "gallery.hpp"

#include <chrono>
#include <functional>

namespace {

using namespace std::chrono_literals;
using Job = std::function<void()>;

struct Pool {
  weft::Channel<Job> jobs{{.capacity = 16, .name = "jobs"}};
  void submit(Job job) const { static_cast<void>(jobs.tx.send(std::move(job))); }
};

void render_image() { weft::sleep_for(1ms); }

void page_that_waits(Pool& pool) {
  weft::Event image_done{"image done"};
  pool.submit([&] {
    render_image();
    image_done.set();
  });
  image_done.wait();
}

// What a page needs is a child of the page: it runs whoever else is busy.
void page_with_children(Pool&) {
  weft::nursery([](weft::Nursery& n) { n.spawn("image", render_image); });
}

void two_workers_two_pages(void (*page)(Pool&)) {
  Pool pool;
  weft::Latch pages_done{2, "pages done"};
  weft::nursery({.name = "server"}, [&](weft::Nursery& n) {
    for (int i = 0; i < 2; ++i)
      n.spawn("worker", [&] {
        for (Job& job : pool.jobs.rx) job();
      });
    for (int i = 0; i < 2; ++i)
      n.spawn("client", [&] {
        weft::sleep_for(weft::io().random() % 10 * 1ms);  // comes some time
        pool.submit([&] {
          page(pool);
          pages_done.count_down();
        });
      });
    pages_done.wait();
    pool.jobs.tx.close();
  });
}

void buggy() { two_workers_two_pages(page_that_waits); }
void fixed() { two_workers_two_pages(page_with_children); }

}  // namespace

constinit const gallery::Bug gallery::pool_deadlock{
    .name = "pool_deadlock",
    .mistake = "every worker of a pool waits for a job that no worker is free to run",
    .kind = weft::Failure::Kind::deadlock,
    .schedule = weft::Schedule::random,
    .runs = 400,
    .buggy = buggy,
    .fixed = fixed,
};
