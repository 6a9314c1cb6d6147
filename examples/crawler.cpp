// A crawler, and the web that it crawls: five hosts, a net that is cut for a while, and a server
// that loses its power in the middle. All of it simulated: ten minutes take no time, and every run
// is the same run. The crawler and the servers know nothing of that.
#include <weft/net.hpp>
#include <weft/weft.hpp>

#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

namespace {

constexpr std::uint16_t kPort = 80;

struct Page {
  std::string host;
  int number = 0;
  friend auto operator<=>(const Page&, const Page&) = default;
};

std::string text_until_end(const weft::net::TcpStream& stream) {
  std::string text;
  std::byte buffer[512];
  for (;;) {
    const auto got = stream.read_some(buffer);
    if (!got) return {};
    if (got->empty()) return text;
    text.append(reinterpret_cast<const char*>(got->data()), got->size());
  }
}

// ── servers ─────────────────────────────────────────────────────────────────────────────────────

constexpr int kPages = 40;  // of each host
constexpr const char* kHosts[] = {"ada", "bob", "eve", "ivy", "max"};

// Every page leads to two more of its host, and to one of the next host.
std::string links_of(std::size_t host, int page) {
  std::ostringstream text;
  for (const int next : {2 * page + 1, 2 * page + 2})
    if (next < kPages) text << kHosts[host] << ' ' << next << '\n';
  text << kHosts[(host + 1) % std::size(kHosts)] << ' ' << page << '\n';
  return text.str();
}

// A request is the number of a page, and its end; the answer is what it links to, and "ok".
void serve(std::size_t host) {
  const auto listener = weft::net::listen({"0.0.0.0", kPort}).value();
  weft::nursery([&](weft::Nursery& n) {
    while (auto peer = listener.accept())
      n.spawn([host, stream = std::move(*peer)] {
        const std::string request = text_until_end(stream);
        if (request.empty()) return;
        weft::sleep_for(1s);  // it thinks
        static_cast<void>(stream.write_all(links_of(host, std::stoi(request)) + "ok\n"));
      });
  });
}

// ── the crawler ─────────────────────────────────────────────────────────────────────────────────

// Empty: there was no answer, or not all of it.
std::optional<std::string> fetch(const Page& page) {
  auto text = weft::timeout(10s, [&]() -> std::string {
    const auto stream = weft::net::connect({page.host, kPort});
    if (!stream || !stream->write_all(std::to_string(page.number))) return {};
    if (!stream->shutdown_write()) return {};
    return text_until_end(*stream);
  });
  if (!text || !text->ends_with("ok\n")) return std::nullopt;
  text->resize(text->size() - 3);
  return text;
}

class Crawler {
 public:
  void crawl(const Page& first) {
    weft::nursery([&](weft::Nursery& n) { visit(n, first); });
  }
  void report() const {
    for (const auto& [host, count] : pages_) std::printf("%s: %d pages\n", host.c_str(), count);
    std::printf("%s\n", retries_ > 0 ? "some had to be asked for again" : "all came at once");
  }

 private:
  void visit(weft::Nursery& n, const Page& page) {
    {
      const std::scoped_lock lock{guard_};
      if (!known_.insert(page).second) return;
    }
    n.spawn([this, &n, page] {
      const std::string links = fetch_somehow(page);
      std::istringstream lines{links};
      for (Page next; lines >> next.host >> next.number;) visit(n, next);
    });
  }

  std::string fetch_somehow(const Page& page) {
    for (;;) {
      {
        const auto permit = at_once_.permit();
        if (const auto text = fetch(page)) {
          const std::scoped_lock lock{guard_};
          ++pages_[page.host];
          return *text;
        }
      }
      {
        const std::scoped_lock lock{guard_};
        ++retries_;
      }
      weft::sleep_for(5s);
    }
  }

  weft::Semaphore at_once_{8};
  weft::Mutex guard_;  // of what follows
  std::set<Page> known_;
  std::map<std::string, int> pages_;
  int retries_ = 0;
};

}  // namespace

int main() {
  weft::SimIo io{{.seed = 11}};
  weft::SimWorld& world = io.world();
  for (const char* const name : kHosts) world.host(name);
  const weft::SimHost home = world.host("home");
  world.net().set_default_link({.latency = {20ms, 80ms}, .reset_probability = 0.01});
  world.net().slow_down("max", 500ms);
  world.script()
      .at(5s).partition("home", {"ada", "bob"})
      .at(15s).crash("eve")
      .at(60s).heal()
      .at(90s).restart("eve");
  io.run([&] {
    weft::nursery([&](weft::Nursery& n) {
      for (std::size_t i = 0; i < std::size(kHosts); ++i)
        world.host(kHosts[i]).spawn_service(n, [i] { serve(i); });
      Crawler crawler;
      home.run([&] { crawler.crawl({"ada", 0}); });
      crawler.report();
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
          weft::Clock::now().time_since_epoch());
      std::printf("it took %s\n", seconds >= 90s ? "until the last host was back" : "no time");
      n.cancel();
    });
  });
}
