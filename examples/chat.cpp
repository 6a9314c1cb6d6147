// A chat room in one process. The room is a fiber, and so is everyone in it; they share nothing but
// channels.
#include <weft/weft.hpp>

#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

// What somebody hands in at the door.
struct Guest {
  std::string name;
  weft::Receiver<std::string> says;
  weft::Sender<std::string> hears;
};

// Serves whoever is there, until the door is closed and the last guest has left.
void room(weft::Receiver<Guest> door) {
  std::map<std::string, weft::Sender<std::string>> present;
  weft::SelectSet everybody;
  bool left = false;

  const auto tell_all = [&](const std::string& line) {
    for (const auto& [name, hears] : present) static_cast<void>(hears.send(line));
  };
  everybody.recv(std::move(door), [&](std::optional<Guest> guest) {
    if (!guest) return;  // nobody else will come
    const std::string name = guest->name;
    present.emplace(name, std::move(guest->hears));
    tell_all("* " + name + " comes in");
    everybody.recv(std::move(guest->says), [&, name](std::optional<std::string> words) {
      if (words) return tell_all(name + ": " + *words);
      present.erase(name);
      left = true;
      tell_all("* " + name + " leaves");
    });
  });

  for (std::size_t arm; (arm = everybody.wait()) != everybody.npos;)
    if (std::exchange(left, false)) everybody.remove(arm);
}

struct Line {
  weft::Duration pause;  // before it is said
  std::string words;
};

// Comes in, listens, says its lines, listens a little longer, and leaves. What it hears is kept.
std::vector<std::string> guest(std::string name, const weft::Sender<Guest>& door,
                               const std::vector<Line>& lines) {
  weft::Channel<std::string> says;
  // The room never waits for somebody who does not listen: that one misses the oldest lines.
  weft::Channel<std::string> hears{{.capacity = 16, .overflow = weft::Overflow::drop_old}};
  std::vector<std::string> screen;
  if (!door.send({std::move(name), std::move(says.rx), std::move(hears.tx)})) return screen;

  const auto listen_for = [&](weft::Duration time) {
    const weft::Instant end = weft::Clock::now() + time;
    while (auto line = hears.rx.recv_for(end - weft::Clock::now())) screen.push_back(*line);
  };
  for (const Line& line : lines) {
    listen_for(line.pause);
    if (!says.tx.send(line.words)) break;
  }
  listen_for(5s);
  return screen;  // the ends go, and the room takes notice
}

}  // namespace

int main() {
  weft::SimIo io;  // in virtual time, so that everybody speaks in turn
  io.run([] {
    weft::Channel<Guest> door;
    std::vector<std::string> ann, bob, cyd;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("room", [rx = std::move(door.rx)] { room(rx); });
      n.spawn("ann", [&ann, door = door.tx] {
        ann = guest("ann", door, {{10s, "is anybody here?"}, {20s, "welcome!"}});
      });
      n.spawn("bob", [&bob, door = door.tx] {
        weft::sleep_for(11s);
        bob = guest("bob", door, {{1s, "I am"}});
      });
      n.spawn("cyd", [&cyd, door = door.tx] {
        weft::sleep_for(26s);
        cyd = guest("cyd", door, {{1s, "hello"}, {10s, "am I alone?"}});
      });
      door.tx.drop();  // the guests' are the last ones now
    });
    for (const auto& [name, screen] : {std::pair{"ann", ann}, {"bob", bob}, {"cyd", cyd}}) {
      std::printf("%s saw\n", name);
      for (const std::string& line : screen) std::printf("  %s\n", line.c_str());
    }
  });
}
