// Connections that are accepted before they are asked for: none is lost, none comes twice, and none
// is left open.
#include <weft/arch/sanitizer.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/net.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sockets.hpp"

#include <support/footprint.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::descriptors_now;

const Endpoint kAnyPort{"127.0.0.1", 0};
constexpr std::size_t kConnections = 300;

std::string why_no_io_uring() {
  try {
    FiberIo{{.workers = 1, .reactor = ReactorKind::uring}};
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// After each, no descriptor is open that was not before.
void on(const Options& options, const std::function<void()>& f) {
  SCOPED_TRACE("workers: " + std::to_string(options.workers));
  FiberIo{options}.run([] { static_cast<void>(connected()); });  // what is made once is made
  const std::size_t before = descriptors_now();
  FiberIo{options}.run(f);
  EXPECT_EQ(descriptors_now(), before) << "left open";
}

// With connections taken ahead, where that can be done at all.
class AcceptAhead : public ::testing::TestWithParam<ReactorKind> {
 protected:
  void SetUp() override {
    static const std::string reason = why_no_io_uring();
    if (GetParam() == ReactorKind::uring && !reason.empty()) GTEST_SKIP() << reason;
  }
  static Options options(unsigned workers) { return {.workers = workers, .reactor = GetParam()}; }
  static void on_workers(const std::function<void()>& f) {
    for (const unsigned workers : {1U, 2U, 4U}) on(options(workers), f);
  }
  static bool takes_ahead() { return GetParam() == ReactorKind::uring; }
};
INSTANTIATE_TEST_SUITE_P(Reactors, AcceptAhead,
                         ::testing::Values(ReactorKind::epoll, ReactorKind::uring),
                         [](const auto& given) {
                           return given.param == ReactorKind::epoll ? "Epoll" : "Uring";
                         });

// The operation that accepts ahead has been begun, and nobody accepts.
TcpListener listen_ahead(const ListenOptions& options = {}) {
  TcpListener listener = listen(kAnyPort, options).value();
  listener.accept_ahead();
  EXPECT_EQ(select(listener.on_acceptable(), otherwise()), 1U);
  return listener;
}

// Whether there are so many soon; others take turns meanwhile.
bool comes_to(std::size_t descriptors, int looks = 100'000) {
  for (; looks != 0; --looks) {
    if (descriptors_now() == descriptors) return true;
    this_fiber::yield();
  }
  return false;
}

std::vector<TcpStream> dial(const TcpListener& listener, std::size_t count) {
  std::vector<TcpStream> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(connect(listener.local_endpoint()).value());
  return all;
}

bool is_over(const TcpStream& stream) {
  std::array<std::byte, 1> buffer{};
  const auto got = stream.read_some(buffer);
  return got ? got->empty() : got.error() == std::errc::connection_reset;
}

// ── that they come ──────────────────────────────────────────────────────────────────────────────

TEST_P(AcceptAhead, TakesThemBeforeAnybodyAsks) {
  if (!takes_ahead()) GTEST_SKIP() << "epoll takes nothing ahead";
  on_workers([] {
    const TcpListener listener = listen_ahead();
    const std::size_t before = descriptors_now();
    const std::vector<TcpStream> clients = dial(listener, 5);
    EXPECT_TRUE(comes_to(before + 10));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(listener.accept());
  });
}

TEST_P(AcceptAhead, ServeAnswersABurst) {
  on_workers([] {
    TcpListener listener = listen(kAnyPort).value();
    std::atomic<int> content{0};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(serve(listener, [](TcpStream peer) {
          if (peer.write_all(read_text(peer, 4))) return;
          ADD_FAILURE() << "not answered";
        }));
      });
      nursery([&](Nursery& clients) {
        for (int i = 1'000; i < 1'150; ++i)
          clients.spawn([&, i] {
            const TcpStream stream = connect(listener.local_endpoint()).value();
            if (!stream.write_all(std::to_string(i))) return;
            if (read_text(stream, 4) == std::to_string(i)) ++content;
          });
      });
      EXPECT_TRUE(listener.close());
    });
    EXPECT_EQ(content, 150);
  });
}

// Two entries, and room for eight answers: the kernel ends the operation for want of room.
TEST_P(AcceptAhead, NoneIsLostForWantOfRoomInTheRing) {
  Options small = options(2);
  small.ring_entries = 1;
  on(small, [] {
    const TcpListener listener = listen_ahead();
    for (int round = 0; round < 10; ++round) {
      const std::vector<TcpStream> clients = dial(listener, 50);
      for (std::size_t i = 0; i < clients.size(); ++i) EXPECT_TRUE(listener.accept());
    }
  });
}

TEST_P(AcceptAhead, PeersAreToldApart) {
  on_workers([] {
    const TcpListener listener = listen_ahead();
    const std::vector<TcpStream> clients = dial(listener, 20);
    for (std::size_t i = 0; i < clients.size(); ++i) {
      Endpoint from;
      const TcpStream server = listener.accept(from).value();
      EXPECT_EQ(from, server.peer_endpoint().value());
      EXPECT_EQ(from, clients[i].local_endpoint().value()) << "in the order in which they came";
    }
  });
}

TEST_P(AcceptAhead, WhoHasGoneByThenIsSkippedIfOneAsksWho) {
  on_workers([] {
    const TcpListener listener = listen_ahead();
    const std::size_t before = descriptors_now();
    {
      const TcpStream gone = connect(listener.local_endpoint()).value();
      EXPECT_TRUE(!takes_ahead() || comes_to(before + 2));
      EXPECT_TRUE(gone.set_linger(0s));
    }
    const TcpStream client = connect(listener.local_endpoint()).value();
    Endpoint from;
    const TcpStream server = listener.accept(from).value();
    EXPECT_TRUE(!takes_ahead() || from == client.local_endpoint().value());
  });
}

TEST_P(AcceptAhead, UnixConnectionsComeAsWell) {
  on_workers([] {
    // Of this process alone: others run beside it.
    const std::string name = "@weft-ahead-" + std::to_string(::getpid());
    const UnixListener listener = UnixListener::listen(name).value();
    listener.accept_ahead();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (char i = 0; i < 20; ++i) {
          const UnixStream peer = listener.accept().value();
          EXPECT_EQ(read_text(peer, 2), "hi");
        }
      });
      for (char i = 0; i < 20; ++i)
        n.spawn([&] { EXPECT_TRUE(UnixStream::connect(name).value().write_all("hi")); });
    });
  });
}

// ── several who accept ──────────────────────────────────────────────────────────────────────────

TEST_P(AcceptAhead, EachConnectionGoesToOneOfThoseWhoAccept) {
  on_workers([] {
    TcpListener listener = listen(kAnyPort).value();
    listener.accept_ahead();
    std::vector<std::atomic<int>> received(kConnections);
    std::atomic<std::size_t> all{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn([&] {
          while (const auto peer = listener.accept()) {
            ++received[std::stoul(read_text(*peer, 3)) - 100];
            if (++all == kConnections) static_cast<void>(listener.close());
          }
        });
      for (std::size_t i = 0; i < kConnections; ++i)
        n.spawn([&, i] {
          const TcpStream stream = connect(listener.local_endpoint()).value();
          EXPECT_TRUE(stream.write_all(std::to_string(100 + i)));
          EXPECT_TRUE(is_over(stream));
        });
    });
    for (const std::atomic<int>& one : received) EXPECT_EQ(one, 1);
  });
}

// ── cancelled, timed out, as an arm ─────────────────────────────────────────────────────────────

TEST_P(AcceptAhead, ACancelledAcceptTakesNone) {
  on_workers([] {
    const TcpListener listener = listen_ahead();
    for (unsigned round = 0; round < 200; ++round) {
      std::optional<TcpStream> accepted, dialled;
      nursery([&](Nursery& n) {
        n.spawn([&] { accepted = listener.accept().value(); });
        n.spawn([&] {
          shielded([&] { dialled = connect(listener.local_endpoint()).value(); });
        });
        for (unsigned i = 0; i < round % 9; ++i) this_fiber::yield();
        n.cancel();
      });
      if (!dialled) dialled = connect(listener.local_endpoint()).value();
      if (!accepted) accepted = listener.accept().value();
      ASSERT_TRUE(dialled->write_all("x"));
      ASSERT_EQ(read_text(*accepted, 1), "x");
    }
    EXPECT_FALSE(timeout(1ms, [&] { return listener.accept().has_value(); }));
    const TcpStream late = connect(listener.local_endpoint()).value();
    EXPECT_TRUE(listener.accept());
  });
}

TEST_P(AcceptAhead, OneThatWasTakenIsAcceptable) {
  on_workers([] {
    const TcpListener listener = listen_ahead();
    const std::size_t before = descriptors_now();
    const TcpStream client = connect(listener.local_endpoint()).value();
    EXPECT_TRUE(!takes_ahead() || comes_to(before + 2));
    EXPECT_EQ(select(listener.on_acceptable(), after(1h)), 0U);
    EXPECT_EQ(select(listener.on_acceptable(), otherwise()), 0U) << "the arm has taken nothing";
    EXPECT_TRUE(listener.accept());
    EXPECT_EQ(select(listener.on_acceptable(), otherwise()), 1U);
  });
}

// Edges are asked for in either order: of a poll, and of the operation that accepts.
TEST_P(AcceptAhead, WhoWaitsUntilOneIsAcceptableIsWoken) {
  on_workers([] {
    const auto woken_by_one = [](const TcpListener& listener) {
      nursery([&](Nursery& n) {
        n.spawn([&] { EXPECT_EQ(select(listener.on_acceptable(), after(1h)), 0U); });
        for (int i = 0; i < 20; ++i) this_fiber::yield();
        const TcpStream client = connect(listener.local_endpoint()).value();
      });
      EXPECT_TRUE(listener.accept());
    };
    const TcpListener polled_first = listen(kAnyPort).value();
    EXPECT_EQ(select(polled_first.on_acceptable(), otherwise()), 1U);
    polled_first.accept_ahead();
    const TcpListener polled_later = listen(kAnyPort).value();
    polled_later.accept_ahead();
    for (int round = 0; round < 20; ++round) {
      woken_by_one(polled_first);
      woken_by_one(polled_later);
    }
  });
}

// ── closed ──────────────────────────────────────────────────────────────────────────────────────

TEST_P(AcceptAhead, ClosingTheListenerClosesThoseThatWait) {
  on_workers([] {
    TcpListener listener = listen_ahead();
    const std::size_t before = descriptors_now();
    const std::vector<TcpStream> clients = dial(listener, 10);
    EXPECT_TRUE(!takes_ahead() || comes_to(before + 20));
    EXPECT_TRUE(listener.close());
    EXPECT_EQ(descriptors_now(), before + 10 - 1);
    for (const TcpStream& client : clients) EXPECT_TRUE(is_over(client));
    EXPECT_EQ(listener.accept().error(), IoError::closed);
    listener.accept_ahead();  // nothing happens
  });
}

TEST_P(AcceptAhead, ClosingRacesThoseThatConnectAndAccept) {
  on_workers([] {
    for (unsigned round = 0; round < 100; ++round) {
      TcpListener listener = listen(kAnyPort).value();
      nursery([&](Nursery& n) {
        for (int i = 0; i < 3; ++i)
          n.spawn([&] {
            listener.accept_ahead();
            while (listener.accept()) {
            }
          });
        for (int i = 0; i < 4; ++i)
          n.spawn([&] {
            const auto stream = connect(listener.local_endpoint());
            if (!stream) return;
            // Who connects as the listener goes is told so by TCP only when it says something.
            static_cast<void>(stream->write_all("anybody there?"));
            EXPECT_TRUE(is_over(*stream));
          });
        for (unsigned i = 0; i < round % 11; ++i) this_fiber::yield();
        EXPECT_TRUE(listener.close());
      });
    }
  });
}

// The threads that told the kernel of the operation are gone, and at last the engine, too.
TEST_P(AcceptAhead, ListenersOutliveRunsAndEngines) {
  FiberIo{options(2)}.run([] { static_cast<void>(connected()); });
  const std::size_t before = descriptors_now();
  std::optional<TcpListener> listener;
  std::optional<TcpStream> last;
  {
    FiberIo engine{options(2)};
    for (int run = 0; run < 5; ++run)
      engine.run([&] {
        if (!listener) listener = listen_ahead();
        const TcpStream client = connect(listener->local_endpoint()).value();
        EXPECT_TRUE(listener->accept());
        EXPECT_FALSE(timeout(1ms, [&] { return listener->accept().has_value(); }));
      });
    engine.run([&] {
      last = connect(listener->local_endpoint()).value();
      static_cast<void>(last->shutdown_write());
    });
  }
  listener.reset();
  last.reset();
  EXPECT_EQ(descriptors_now(), before);
}

// ── too many ────────────────────────────────────────────────────────────────────────────────────

TEST_P(AcceptAhead, NoneIsLostWhenManyWait) {
  on_workers([] {
    const TcpListener listener = listen_ahead();
    for (int round = 0; round < 3; ++round) {
      const std::vector<TcpStream> clients = dial(listener, kConnections);
      for (const TcpStream& client : clients)
        EXPECT_EQ(listener.accept().value().peer_endpoint().value(),
                  client.local_endpoint().value());
      EXPECT_EQ(select(listener.on_acceptable(), otherwise()), 1U) << "and no more";
    }
  });
}

// Its only worker has looked at what has come when this returns: a byte that came last is read.
void let_the_worker_look(const std::pair<UnixStream, UnixStream>& ends) {
  nursery([&](Nursery& n) {
    n.spawn([&] { EXPECT_TRUE(ends.second.write_all(std::string_view{"."})); });
    std::array<std::byte, 1> heard;
    EXPECT_EQ(ends.first.read_some(heard).value().size(), 1U);  // not there yet: it parks
  });
}

// How many are taken at once is up to the kernel, so they come one by one.
TEST_P(AcceptAhead, WhenTooFewAreTakenTheRestWaitsInTheBacklog) {
  if (!takes_ahead()) GTEST_SKIP() << "epoll takes nothing ahead";
  on(options(1), [] {
    constexpr std::size_t kAll = 200;
    const auto ends = UnixStream::pair().value();
    const TcpListener listener = listen_ahead();
    std::size_t all = descriptors_now();
    std::vector<TcpStream> clients;
    while (clients.size() < 64) {
      clients.push_back(connect(listener.local_endpoint()).value());
      EXPECT_TRUE(comes_to(all += 2));
    }
    while (clients.size() < kAll) {
      clients.push_back(connect(listener.local_endpoint()).value());
      let_the_worker_look(ends);
    }
    EXPECT_FALSE(comes_to(all + 2 * (kAll - 64), 100)) << "never asked back";
    for (std::size_t i = 0; i < kAll; ++i) EXPECT_TRUE(listener.accept());
    all = descriptors_now();
    clients.push_back(connect(listener.local_endpoint()).value());
    int asked = 0;  // the kernel's last word may take its time
    while (!comes_to(all + 2, 10) && ++asked < 10'000)
      static_cast<void>(select(listener.on_acceptable(), otherwise()));
    EXPECT_LT(asked, 10'000) << "never begun again";
  });
}

// All but `left` descriptors are in use while this lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    EXPECT_GE(next, 0);
    ::close(next);
    rlimit fewer = before_;
    fewer.rlim_cur = static_cast<rlim_t>(next) + 8;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &fewer), 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) used_.push_back(fd);
    for (; left != 0 && !used_.empty(); --left) free_one();
  }
  ~FewDescriptors() {
    while (!used_.empty()) free_one();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  void free_one() {
    ::close(used_.back());
    used_.pop_back();
  }
  rlimit before_{};
  std::vector<int> used_;
};

TEST_P(AcceptAhead, PausesWhileThereAreNoDescriptorsAndGoesOn) {
  // Sanitizers look at memory through a pipe, for which there would be no descriptor.
  if (arch::kAsan) GTEST_SKIP() << "not in a build with sanitizers";
  on_workers([] {
    Event paused;
    std::vector<Duration> pauses;
    const auto on_pause = [&](std::error_code why, Duration length) {
      EXPECT_EQ(why, std::errc::too_many_files_open);
      pauses.push_back(length);
      if (pauses.size() == 3) paused.set();
    };
    const TcpListener listener = listen(kAnyPort, {.on_pause = on_pause}).value();
    listener.accept_ahead();
    const std::vector<TcpStream> clients = dial(listener, 10);
    std::vector<TcpStream> accepted;
    nursery([&](Nursery& n) {
      auto few = std::make_unique<FewDescriptors>(4);
      n.spawn([&] {
        while (accepted.size() < clients.size()) accepted.push_back(listener.accept().value());
      });
      paused.wait();
      EXPECT_EQ(accepted.size(), 4U);
      few.reset();
    });
    ASSERT_GE(pauses.size(), 3U);
    EXPECT_EQ(pauses[0], 1ms);
    EXPECT_EQ(pauses[1], 2ms);
    EXPECT_EQ(pauses[2], 4ms);
    for (std::size_t i = 0; i < clients.size(); ++i)
      EXPECT_EQ(accepted[i].peer_endpoint().value(), clients[i].local_endpoint().value());
  });
}

}  // namespace
}  // namespace weft::net
