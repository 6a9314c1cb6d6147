// Close race: whoever is done first closes the channel that others still send to.
//
// How one meets it: a nightly job reports 99,999 of 100,000 results, sometimes. A worker that finds
// no more jobs concludes that there will be no more results; but its colleague has taken the last
// job and is still at it. The colleague's send returns false, and nobody looks.
#include "gallery.hpp"

#include <stdexcept>

namespace {

struct Work {
  weft::Channel<int> jobs{8};
  weft::Channel<int> results{8};
};

void worker(const weft::Receiver<int>& jobs, const weft::Sender<int>& results) {
  for (int job : jobs) static_cast<void>(results.send(job * job));
}

void squares(void (*work_on)(const weft::Receiver<int>&, const weft::Sender<int>&)) {
  Work work;
  for (int job = 1; job <= 4; ++job) static_cast<void>(work.jobs.tx.send(job));
  work.jobs.tx.drop();
  int sum = 0;
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 2; ++i)
      n.spawn("worker", [jobs = work.jobs.rx, results = work.results.tx, work_on] {
        work_on(jobs, results);
      });
    work.results.tx.drop();
    for (int result : work.results.rx) sum += result;
  });
  if (sum != 1 + 4 + 9 + 16) throw std::runtime_error{"a result is missing"};
}

void buggy() {
  squares([](const weft::Receiver<int>& jobs, const weft::Sender<int>& results) {
    worker(jobs, results);
    results.close();  // for everybody, not for this worker alone
  });
}

// Each worker has an end of its own, which goes when it goes. The last one's end closes.
void fixed() { squares(worker); }

}  // namespace

constinit const gallery::Bug gallery::close_race{
    .name = "close_race",
    .mistake = "the first to be done closes a channel that others still send to",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 100,
    .buggy = buggy,
    .fixed = fixed,
};
