#include <weft/inspect.hpp>

#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>
#include <string>
#include <thread>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string dump_of(Engine& engine) {
  std::ostringstream out;
  dump(engine, out);
  return out.str();
}

// Until a dump says so. A worker that is kept from its core does not answer within a second.
void await(Engine& engine, const std::string& what) {
  while (dump_of(engine).find(what) == std::string::npos) std::this_thread::yield();
}

TEST(Dump, ShowsTheTreeWithNamesStatesAndReasons) {
  SimIo io;
  const std::string text = io.run([&] {
    Event go{"go"};
    return nursery({.name = "jobs"}, [&](Nursery& n) {
      n.spawn("reader", [&] { go.wait(); });
      n.spawn(std::string{"either"}, [&] {
        auto set = go.on_set();
        Alarm late{Clock::now() + 1h};
        Waitable* const arms[] = {&set, &late};
        EXPECT_EQ(wait(arms), 0U);
      });
      n.spawn("parent", [&] {
        nursery({.name = "inner"}, [&](Nursery& m) { m.spawn("child", [&] { go.wait(); }); });
      });
      settle();
      n.spawn("unborn", [] {});
      std::string seen = dump_of(io);
      go.set();
      return seen;
    });
  });
  EXPECT_EQ(text,
            "SimIo: 6 fibers\n"
            "  engine \"root\" open\n"
            "    #1 \"main\" running\n"
            "      nursery \"jobs\" open\n"
            "        #2 \"reader\" parked on event wait \"go\"\n"
            "        #3 \"either\" parked on event wait \"go\" or timer\n"
            "        #4 \"parent\" parked on nursery join \"inner\"\n"
            "          nursery \"inner\" open\n"
            "            #5 \"child\" parked on event wait \"go\"\n"
            "        #6 \"unborn\" runnable, not started\n");
}

TEST(Dump, ShowsWhoJoinsWhomInPlace) {
  if (arch::kTsan) GTEST_SKIP() << "ThreadSanitizer builds run no child in place";
  FiberIo io{{.workers = 1}};
  io.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("child", [&] {
        const std::string text = dump_of(io);
        EXPECT_THAT(text, HasSubstr("#1 \"main\" joins #2 in place\n"));
        EXPECT_THAT(text, HasSubstr("#2 \"child\" running\n"));
      });
    });
  });
}

TEST(Dump, AnEngineThatDoesNotRunIsEmpty) {
  FiberIo io{{.workers = 4}};
  EXPECT_EQ(dump_of(io), "FiberIo: 0 fibers\n");
  io.run([] {});
  EXPECT_EQ(dump_of(io), "FiberIo: 0 fibers\n");
}

TEST(Dump, FromAnotherThreadAsleepAndBusy) {
  FiberIo io{{.workers = 4}};
  std::atomic<bool> stop{false};
  Event go{"go"};
  std::atomic<int> phase{0};
  std::thread asker;
  io.run([&] {
    asker = std::thread{[&] {
      while (phase != 1) std::this_thread::yield();
      await(io, "\"sleeper\" parked on event wait \"go\"");  // it may be on its way there
      go.set();
      while (phase != 2) std::this_thread::yield();
      await(io, "\"busy\"");
      stop = true;
    }};
    nursery([&](Nursery& n) {
      n.spawn("sleeper", [&] {
        phase = 1;
        go.wait();
      });
    });
    nursery([&](Nursery& n) {
      n.spawn("busy", [&] {
        phase = 2;
        while (!stop) this_fiber::yield();
      });
      n.spawn([&] {
        while (!stop) this_fiber::yield();
      });
    });
  });
  asker.join();
}

TEST(Dump, AFiberThatDoesNotGiveWayIsReportedAsSuch) {
  FiberIo io{{.workers = 4}};
  std::atomic<bool> stop{false};
  std::thread asker;
  io.run([&] {
    asker = std::thread{[&] {
      EXPECT_THAT(dump_of(io), HasSubstr("no answer within a second"));
      stop = true;
    }};
    while (!stop) std::this_thread::yield();
  });
  asker.join();
  EXPECT_EQ(dump_of(io), "FiberIo: 0 fibers\n") << "the engine is none the worse";
}

TEST(Dump, AllEnginesAtOnce) {
  FiberIo first;
  SimIo second;
  first.run([&] {
    second.run([&] {
      std::ostringstream out;
      dump_all(out);
      EXPECT_THAT(out.str(), HasSubstr("SimIo: 1 fiber\n"));
      EXPECT_THAT(out.str(), HasSubstr("FiberIo: "));
    });
  });
}

}  // namespace
}  // namespace weft
