// Forgotten sender: an end of a channel that nobody remembers keeps it open, and the loop that
// receives never ends.
//
// How one meets it: the number of fibers grows by a few a day. A chat room keeps a sender for each
// member. Who joins and who leaves is told by two fibers; a client that hangs up at once leaves
// before it has joined. Leaving finds nothing to remove, joining adds a member that will stay.
#include "gallery.hpp"

#include <map>
#include <mutex>

namespace {

class Room {
 public:
  void join(int client, weft::Sender<int> tx) {
    std::scoped_lock lock{mutex_};
    members_.insert_or_assign(client, std::move(tx));
  }
  void leave(int client) {
    std::scoped_lock lock{mutex_};
    members_.erase(client);
  }

 private:
  weft::Mutex mutex_{"room"};
  std::map<int, weft::Sender<int>> members_;
};

void write_to_client(const weft::Receiver<int>& messages) {
  for (int message : messages) static_cast<void>(message);  // ends when the room has let go
}

void buggy() {
  Room room;
  weft::nursery({.name = "client"}, [&](weft::Nursery& n) {
    weft::Channel<int> messages{{.capacity = 8, .name = "messages"}};
    n.spawn("writer", [rx = std::move(messages.rx)] { write_to_client(rx); });
    n.spawn("reader", [&] { room.leave(7); });  // the client has hung up already
    room.join(7, std::move(messages.tx));
  });
}

// In the order in which it must happen: nobody can leave who has not joined.
void fixed() {
  Room room;
  weft::nursery({.name = "client"}, [&](weft::Nursery& n) {
    weft::Channel<int> messages{{.capacity = 8, .name = "messages"}};
    n.spawn("writer", [rx = std::move(messages.rx)] { write_to_client(rx); });
    room.join(7, std::move(messages.tx));
    n.spawn("reader", [&] { room.leave(7); });
  });
}

}  // namespace

constinit const gallery::Bug gallery::forgotten_sender{
    .name = "forgotten_sender",
    .mistake = "a sender that nobody remembers keeps a channel open",
    .kind = weft::Failure::Kind::deadlock,
    .schedule = weft::Schedule::exhaustive,
    .preemptions = 1,
    .runs = 30,
    .buggy = buggy,
    .fixed = fixed,
};
