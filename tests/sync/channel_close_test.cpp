// How a channel ends, and who sees what.
#include <weft/channel.hpp>

#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_workers;
using testing::text_of;
using testing::what;

void on_every_engine(const std::function<void()>& f) {
  on_both_engines(f);
  on_workers({2U, 4U, 16U}, f);
}

std::exception_ptr error(const char* text) {
  return std::make_exception_ptr(std::runtime_error{text});
}

// Every form of receiving from `rx` throws the error `text`.
void expect_error(const Receiver<int>& rx, const std::string& text) {
  using Error = std::runtime_error;
  EXPECT_EQ(text_of<Error>([&] { static_cast<void>(rx.recv()); }), text);
  EXPECT_EQ(text_of<Error>([&] { static_cast<void>(rx.try_recv()); }), text);
  EXPECT_EQ(text_of<Error>([&] { static_cast<void>(rx.recv_for(1h)); }), text);
  EXPECT_EQ(text_of<Error>([&] { static_cast<void>(rx.recv(no_throw)); }), text);
  EXPECT_EQ(text_of<Error>([&] { static_cast<void>(rx.begin()); }), text);
  std::vector<int> out;
  EXPECT_EQ(text_of<Error>([&] { rx.recv_many(std::back_inserter(out), 2); }), text);
  EXPECT_THAT(out, IsEmpty());
  auto arm = rx.on_recv();
  EXPECT_EQ(select(arm), 0U);
  EXPECT_EQ(text_of<Error>([&] { static_cast<void>(arm.value()); }), text);
  EXPECT_EQ(text_of<Error>([&] { select(rx.on_recv([](std::optional<int>) { FAIL(); })); }), text);
  EXPECT_EQ(what(rx.error()), text);
}

// Every form sees the end.
void expect_end(const Receiver<int>& rx) {
  EXPECT_EQ(rx.recv(), std::nullopt);
  EXPECT_EQ(rx.try_recv().status(), RecvStatus::closed);
  EXPECT_EQ(rx.recv_for(1h).status(), RecvStatus::closed);
  EXPECT_EQ(rx.recv(no_throw).status(), RecvStatus::closed);
  EXPECT_TRUE(rx.begin() == rx.end());
  std::vector<int> out;
  EXPECT_EQ(rx.recv_many(std::back_inserter(out), 2), 0U);
  auto arm = rx.on_recv();
  EXPECT_EQ(select(arm), 0U);
  EXPECT_EQ(arm.value(), std::nullopt);
  bool told = false;
  select(rx.on_recv([&](std::optional<int> v) { told = !v; }));
  EXPECT_TRUE(told);
  EXPECT_EQ(rx.error(), nullptr);
  EXPECT_TRUE(rx.closed());
}

// No form of sending is admitted, and the value stays.
void expect_no_send(const Sender<int>& tx) {
  int v = 1;
  EXPECT_FALSE(tx.send(v));
  EXPECT_FALSE(tx.send(std::move(v)));
  EXPECT_EQ(tx.send(2, no_throw), SendStatus::closed);
  EXPECT_EQ(tx.send(v, no_throw), SendStatus::closed);
  EXPECT_EQ(tx.try_send(v), SendStatus::closed);
  EXPECT_EQ(tx.send_for(v, 1h), SendStatus::closed);
  EXPECT_EQ(tx.send_all(std::vector{1, 2}), 0U);
  auto arm = tx.on_send(7);
  EXPECT_EQ(select(arm), 0U);
  EXPECT_FALSE(arm.sent());
  EXPECT_EQ(arm.value(), 7);
  bool told = false;
  select(tx.on_send(7, [&](bool sent) { told = !sent; }));
  EXPECT_TRUE(told);
  EXPECT_TRUE(tx.closed());
}

// ── close ───────────────────────────────────────────────────────────────────────────────────────

TEST(ChannelClose, WhatWasAdmittedIsStillDelivered) {
  on_every_engine([] {
    Channel<int> ch{3};
    EXPECT_EQ(ch.tx.send_all(std::vector{1, 2, 3}), 3U);
    EXPECT_FALSE(ch.tx.closed());
    EXPECT_TRUE(ch.tx.close());
    EXPECT_FALSE(ch.tx.close());
    EXPECT_FALSE(ch.rx.close(error("too late")));
    expect_no_send(ch.tx);
    EXPECT_EQ(ch.rx.size(), 3U);
    EXPECT_EQ(ch.rx.recv(), 1);
    EXPECT_EQ(*ch.rx.try_recv(), 2);
    EXPECT_EQ(*ch.rx.recv_for(0s), 3);
    expect_end(ch.rx);
  });
}

TEST(ChannelClose, ParkedSendersStayAdmitted) {
  on_both_engines([] {
    for (const std::size_t capacity : {0U, 1U}) {
      Channel<int> ch{capacity};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 3; ++i) {
          n.spawn([&, i] { EXPECT_TRUE(ch.tx.send(i)); });
          let_others_block();
        }
        EXPECT_TRUE(ch.rx.close());
        EXPECT_EQ(ch.tx.try_send(9), SendStatus::closed);
        for (int i = 0; i < 3; ++i) EXPECT_EQ(ch.rx.recv(), i);
        expect_end(ch.rx);
      });
    }
  });
}

TEST(ChannelClose, ParkedReceiversSeeTheEnd) {
  on_every_engine([] {
    Channel<int> ch{2};
    std::atomic<int> ended{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&] {
          EXPECT_EQ(ch.rx.recv(), std::nullopt);
          ++ended;
        });
      n.spawn([&] { EXPECT_EQ(ch.rx.recv_for(1h).status(), RecvStatus::closed); });
      n.spawn([&] { EXPECT_EQ(ch.rx.recv(no_throw).status(), RecvStatus::closed); });
      let_others_block();
      EXPECT_TRUE(ch.tx.close());
    });
    EXPECT_EQ(ended.load(), 4);
  });
}

TEST(ChannelClose, WithAnErrorReceiversDrainAndThenThrow) {
  on_every_engine([] {
    Channel<int> ch{2};
    EXPECT_TRUE(ch.tx.send(1));
    EXPECT_TRUE(ch.tx.close(error("lost")));
    EXPECT_FALSE(ch.tx.close());
    EXPECT_EQ(what(ch.tx.error()), "lost");
    EXPECT_EQ(ch.rx.recv(), 1);
    expect_error(ch.rx, "lost");
    expect_no_send(ch.tx);
    int seen = 0;
    EXPECT_EQ(text_of<std::runtime_error>([&] {
                for (int v : ch.rx) seen += v;
              }),
              "lost");
  });
}

TEST(ChannelClose, WithAnErrorParkedReceiversThrow) {
  on_every_engine([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          EXPECT_EQ(text_of<std::runtime_error>([&] { static_cast<void>(ch.rx.recv()); }), "lost");
        });
      n.spawn([&] {
        const auto receive = [&] { static_cast<void>(ch.rx.recv_for(1h)); };
        EXPECT_EQ(text_of<std::runtime_error>(receive), "lost");
      });
      let_others_block();
      ch.tx.close(error("lost"));
    });
  });
}

TEST(ChannelClose, AnErrorInTheMiddleOfARangeLeavesTheLoop) {
  on_every_engine([] {
    Channel<int> ch;
    int sum = 0;
    nursery([&](Nursery& n) {
      n.spawn([tx = std::move(ch.tx)] {
        EXPECT_EQ(tx.send_all(std::vector{1, 2, 3}), 3U);
        tx.close(error("broken"));
      });
      EXPECT_EQ(text_of<std::runtime_error>([&] {
                  for (int v : ch.rx) sum += v;
                }),
                "broken");
    });
    EXPECT_EQ(sum, 6);
  });
}

TEST(ChannelClose, TheLastSenderCloses) {
  on_every_engine([] {
    Channel<int> ch{4};
    Sender<int> copy = ch.tx;
    Sender<int> third = copy;
    EXPECT_TRUE(ch.tx.send(1));
    ch.tx.drop();
    EXPECT_FALSE(ch.rx.closed());
    third = {};
    EXPECT_FALSE(ch.rx.closed());
    { const Sender<int> last = std::move(copy); }
    EXPECT_TRUE(ch.rx.closed());
    EXPECT_EQ(ch.rx.recv(), 1);
    expect_end(ch.rx);
  });
}

// ── abort ───────────────────────────────────────────────────────────────────────────────────────

TEST(ChannelAbort, DisposesOfWhatIsNotDelivered) {
  on_every_engine([] {
    std::vector<int> disposed;
    Channel<int> ch{{.capacity = 3, .on_undelivered = [&](int&& v) { disposed.push_back(v); }}};
    EXPECT_EQ(ch.tx.send_all(std::vector{1, 2, 3}), 3U);
    EXPECT_EQ(ch.rx.recv(), 1);
    EXPECT_TRUE(ch.tx.abort(error("stop")));
    EXPECT_THAT(disposed, ElementsAre(2, 3));
    EXPECT_EQ(ch.tx.size(), 0U);
    EXPECT_FALSE(ch.tx.abort(error("again")));
    EXPECT_FALSE(ch.rx.close());
    expect_error(ch.rx, "stop");
    expect_no_send(ch.tx);
    EXPECT_EQ(disposed.size(), 2U) << "once";
  });
}

TEST(ChannelAbort, WithoutAnErrorIsAnEnd) {
  on_every_engine([] {
    Channel<int> ch{3};
    EXPECT_TRUE(ch.tx.send(1));
    EXPECT_TRUE(ch.rx.abort());
    expect_end(ch.rx);
    expect_no_send(ch.tx);
  });
}

TEST(ChannelAbort, WakesEverybody) {
  on_every_engine([] {
    Channel<int> out, in;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i) {
        n.spawn([&, i] {
          int v = i;
          EXPECT_FALSE(out.tx.send(std::move(v)));
          EXPECT_EQ(v, i);
        });
        n.spawn([&] {
          EXPECT_EQ(text_of<std::runtime_error>([&] { static_cast<void>(in.rx.recv()); }), "stop");
        });
      }
      n.spawn([&] { EXPECT_EQ(out.tx.send_for(1, 1h), SendStatus::closed); });
      let_others_block();
      out.rx.abort(error("stop"));
      in.rx.abort(error("stop"));
    });
  });
}

TEST(ChannelAbort, AfterACloseDiscardsWhatIsLeft) {
  on_every_engine([] {
    int disposed = 0;
    Channel<int> ch{{.capacity = 2, .on_undelivered = [&](int&&) { ++disposed; }}};
    EXPECT_TRUE(ch.tx.send(1));
    EXPECT_TRUE(ch.tx.close());
    EXPECT_TRUE(ch.tx.abort(error("changed my mind")));
    EXPECT_EQ(disposed, 1);
    expect_error(ch.rx, "changed my mind");
  });
  Channel<int> ch{2};
  EXPECT_TRUE(ch.tx.close(error("first")));
  EXPECT_TRUE(ch.tx.abort(error("second")));
  EXPECT_EQ(what(ch.rx.error()), "first") << "the first error stays";
}

// ── the last receiver ───────────────────────────────────────────────────────────────────────────

TEST(ChannelHangUp, ParkedAndLaterSendsFailAndKeepTheirValue) {
  on_every_engine([] {
    Channel<std::string> ch;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([tx = ch.tx] {
          std::string value = "mine";
          EXPECT_FALSE(tx.send(std::move(value)));
          EXPECT_EQ(value, "mine");
          EXPECT_EQ(tx.send(std::move(value), no_throw), SendStatus::closed);
          EXPECT_EQ(value, "mine");
          EXPECT_EQ(tx.try_send(std::move(value)), SendStatus::closed);
          EXPECT_EQ(tx.send_for(std::move(value), 1h), SendStatus::closed);
          EXPECT_EQ(value, "mine");
          EXPECT_TRUE(tx.closed());
        });
      const Receiver<std::string> copy = ch.rx;
      ch.rx.drop();
      EXPECT_FALSE(copy.closed());
      let_others_block();
    });
  });
}

TEST(ChannelHangUp, WhatWasAdmittedGoesToOnUndelivered) {
  on_every_engine([] {
    std::vector<int> disposed;
    Channel<int> ch{{.capacity = 3, .on_undelivered = [&](int&& v) { disposed.push_back(v); }}};
    EXPECT_EQ(ch.tx.send_all(std::vector{1, 2, 3}), 3U);
    EXPECT_EQ(ch.rx.recv(), 1);
    EXPECT_TRUE(ch.tx.close());
    ch.rx.drop();
    EXPECT_THAT(disposed, ElementsAre(2, 3));
    EXPECT_FALSE(ch.tx.close());
    EXPECT_FALSE(ch.tx.abort());
    ch.tx.drop();
    EXPECT_EQ(disposed.size(), 2U);
  });
}

TEST(ChannelHangUp, ADisposerMayUseTheChannel) {
  Sender<int> tx;
  int disposed = 0;
  Channel<int> ch{{.capacity = 2, .on_undelivered = [&](int&&) {
                     ++disposed;
                     EXPECT_EQ(tx.try_send(1), SendStatus::closed);
                     tx.drop();
                     tx = {};
                   }}};
  tx = std::move(ch.tx);
  EXPECT_EQ(tx.try_send(1), SendStatus::ok);
  ch.rx.drop();
  EXPECT_EQ(disposed, 1);
}

}  // namespace
}  // namespace weft
