// Double-checked initialisation: the object can be seen before it is finished.
//
// How one meets it: the first seconds after a restart bring requests to port 0. The second look,
// under the lock, makes sure that the file is read only once. The first look is there to be quick,
// and it believes a flag that was turned when the reading began.
#include "gallery.hpp"

#include <atomic>
#include <mutex>
#include <stdexcept>

namespace {

struct Settings {
  int port = 0;
};

class Lazy {
 public:
  const Settings& get() {
    if (!loaded_) {
      std::scoped_lock lock{mutex_};
      if (!loaded_.exchange(true)) settings_.port = port_from_file();  // a wait, with the flag set
    }
    return settings_;
  }

  // Two looks and a flag, with the flag turned last: that is what weft::Once is.
  const Settings& get_once() {
    once_.call([this] { settings_.port = port_from_file(); });
    return settings_;
  }

 private:
  int port_from_file() {
    auto permit = disk_.permit();  // parks, if somebody else reads something
    return 8080;
  }

  weft::Semaphore disk_{1, "disk"};
  weft::Mutex mutex_{"settings"};
  std::atomic<bool> loaded_{false};
  weft::Once once_{"settings"};
  Settings settings_;
};

void two_requests(const Settings& (Lazy::*get)()) {
  Lazy lazy;
  int ports[2] = {};
  weft::nursery([&](weft::Nursery& n) {
    for (int& port : ports) n.spawn("request", [&] { port = (lazy.*get)().port; });
  });
  if (ports[0] != 8080 || ports[1] != 8080) throw std::runtime_error{"a request went to port 0"};
}

void buggy() { two_requests(&Lazy::get); }
void fixed() { two_requests(&Lazy::get_once); }

}  // namespace

constinit const gallery::Bug gallery::double_checked{
    .name = "double_checked",
    .mistake = "the flag that says that it is ready is set before it is",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 50,
    .buggy = buggy,
    .fixed = fixed,
};
