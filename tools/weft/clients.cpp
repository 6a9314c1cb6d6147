// The clients of the chapter `connections`, in a process of their own. They say on standard output
// how far they are, a number to a line: how many are connected, until all are; the memory that each
// takes; and, when a line on standard input has had them all talk, how many messages that were.
// They go when standard input ends.
#include "capacity.hpp"
#include "tour.hpp"

#include <weft/net.hpp>
#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <string>
#include <string_view>

namespace weft::tour {
namespace {

constexpr std::string_view kMessage = "over, under";
constexpr long kMessagesEach = 5;

struct Crowd {
  explicit Crowd(long size) : all(size) {}
  const long all;
  std::atomic<long> up{0};
  std::atomic<long> answered{0};
  Event reached{"reached"};  // `up` has come to where the last group ends
  Event go{"go"};
  Event done{"done"};  // everybody has all answers
};

void say_something(const net::TcpStream& stream) {
  std::array<std::byte, kMessage.size()> answer;
  stream.write_all(kMessage).value();
  stream.read_exactly(answer).value();
  const std::string_view said{reinterpret_cast<const char*>(answer.data()), answer.size()};
  expect(said == kMessage, "an answer is not what was said");
}

void talk(const net::Endpoint& to, Crowd& crowd, long group_ends_at) {
  const auto stream = net::connect(to).value();
  say_something(stream);  // from here on the server has accepted us, too
  if (++crowd.up == group_ends_at) crowd.reached.set();
  crowd.go.wait();
  for (long i = 0; i < kMessagesEach; ++i) say_something(stream);
  if (++crowd.answered == crowd.all) crowd.done.set();
  crowd.done.wait();  // nobody leaves before: all of them are connected all the time
}

void report(long number) {
  standard_output().value().write_all(std::to_string(number) + '\n').value();
}

// In groups, so that the backlog is long enough.
void connect_all(Nursery& n, const net::Endpoint& to, Crowd& crowd) {
  const long group = std::max(crowd.all / 50, 1L);
  for (long spawned = 0; spawned < crowd.all;) {
    const long target = std::min(spawned + group, crowd.all);
    for (; spawned < target; ++spawned)
      n.spawn([&to, &crowd, target] { talk(to, crowd, target); });
    crowd.reached.wait();
    crowd.reached.reset();
    report(target);
  }
}

void run(const net::Endpoint& to, long count) {
  const StandardInput in = standard_input().value();
  net::BufferedReader orders{in};
  Crowd crowd{count};
  const double before = resident_bytes();
  nursery([&](Nursery& n) {
    connect_all(n, to, crowd);
    report(static_cast<long>(resident_bytes() - before) / count);
    if (!orders.read_line().value()) return n.cancel();  // whoever started us is gone
    crowd.go.set();
    crowd.done.wait();
    report(count * kMessagesEach);
    expect(!orders.read_line().value(), "one order is all");
  });
}

}  // namespace

bool be_clients(std::span<const std::string_view> words) {
  if (words.size() != 2) return false;
  const auto to = net::Endpoint::parse(words[0]);
  long count = 0;
  const auto end = words[1].data() + words[1].size();
  if (!to || std::from_chars(words[1].data(), end, count).ptr != end || count < 1) return false;
  const long descriptors = open_descriptors();
  FiberIo{}.run([&] { run(*to, count); });
  expect(open_descriptors() <= descriptors, "a descriptor was left open by a client");
  return true;
}

}  // namespace weft::tour
