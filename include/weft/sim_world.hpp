// SimWorld: the machines, the network and the disks of a simulated program.
//
//   weft::SimIo io{{.seed = 7}};
//   weft::SimWorld& world = io.world();
//   weft::SimHost server = world.host("server"), client = world.host("client");
//   world.script().at(10s).partition("server", "client").at(20s).heal();
//   io.run([&] {
//     weft::nursery([&](weft::Nursery& n) {
//       server.spawn(n, [] { serve(); });   // weft's own sockets and files, as everywhere
//       client.spawn(n, [] { ask("server"); });
//     });
//   });
//
// A fiber runs on a host, and so do its children; the root runs on "localhost". Host names resolve
// to addresses, 127.0.0.1 is the host itself. Everything happens in virtual time, and all chance
// comes from the seed: the same seed is the same run.
//
// Connections: bytes arrive in order, after the latency of the link, as fast as its bandwidth and
// the receiver's buffer allow, cut into pieces by chance. What a partition holds up is sent again
// when it heals; a connection that cannot get through for long fails with ETIMEDOUT, and so does an
// idle one that has keepalive. Datagrams are lost, doubled and reordered as the link says.
//
// Calls that read and write files take no time.
#pragma once

#include <weft/core/cancel_scope.hpp>
#include <weft/core/fiber.hpp>
#include <weft/core/wait.hpp>
#include <weft/sim.hpp>
#include <weft/time.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

namespace engine {
class SimMachine;
}

// How packets travel from one host to another. Probabilities are between 0 and 1.
struct SimLink {
  struct Range {
    Duration least{};
    Duration most{};
  };
  Range latency{std::chrono::microseconds{50}, std::chrono::microseconds{500}};
  std::uint64_t bandwidth = 0;    // bytes a second; 0: no limit
  double reset_probability = 0;   // that a piece of a stream resets its connection
  double loss = 0;                // of a datagram; so are
  double duplication = 0;
  double reordering = 0;          // it is overtaken by those sent up to ten latencies later
};

// Hosts by their names: "a", or {"a", "b"}.
class SimHosts {
 public:
  // NOLINTBEGIN(google-explicit-constructor): so that a call reads as it is said
  SimHosts(const char* name) : names_{name} {}
  SimHosts(std::string name) : names_{std::move(name)} {}
  SimHosts(std::initializer_list<const char*> names) : names_(names.begin(), names.end()) {}
  SimHosts(std::vector<std::string> names) : names_(std::move(names)) {}
  // NOLINTEND(google-explicit-constructor)
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
};

// The functions of these classes never park, and may be called before a run and during it, by its
// fibers. They throw std::invalid_argument for a host that nobody has named to SimWorld::host().
// What they return refers to the SimIo, and must not outlive it.

class SimNet {
 public:
  // Both ways, from now on. What is on its way arrives as it would have.
  void set_link(const SimHosts& a, const SimHosts& b, const SimLink& link);
  void set_link_one_way(const SimHosts& from, const SimHosts& to, const SimLink& link);
  // Of hosts of which nothing else was said.
  void set_default_link(const SimLink& link);
  // A slow peer: everything from and to it takes so much longer.
  void slow_down(const SimHosts& hosts, Duration by);

  // Nothing passes between the two groups, whichever way; hosts within a group still reach each
  // other. Connections between them hang, or are reset: see set_reset_by_partition().
  void partition(const SimHosts& a, const SimHosts& b);
  void partition_one_way(const SimHosts& from, const SimHosts& to);
  void isolate(const SimHosts& hosts);  // from everybody else
  void heal();                          // all of it
  void heal(const SimHosts& a, const SimHosts& b);
  // The probability that a connection is reset by a partition that it crosses; 0 at first.
  void set_reset_by_partition(double probability);

  // The probability of a read or write that carries less than it could; 0.1 at first.
  void set_short_transfers(double probability);
  // From which ports connections are made, both included, and how long one of them is not used
  // again after its connection was closed from this side; 32768 to 60999, and a minute.
  void set_ports(const SimHosts& hosts, std::uint16_t first, std::uint16_t last);
  void set_port_rest(Duration rest);
  // How long a connection attempt, and a connection with something to send, gets no answer before
  // it fails with ETIMEDOUT; 127 seconds and a quarter of an hour at first.
  void set_timeouts(Duration connecting, Duration connected);
  // How many descriptors a host can have open; one more is EMFILE.
  void set_descriptors_max(const SimHosts& hosts, std::size_t count);

 private:
  friend class SimWorld;
  explicit SimNet(engine::SimMachine& machine) noexcept : machine_(&machine) {}
  engine::SimMachine* machine_;
};

// A host's files. They survive restarts as far as they were synced:
//
// What was written to a file is durable when sync() of it has returned; so are then its name and
// the directories that lead to it. Entries of a directory (a file created, renamed or removed) are
// durable when the directory was opened and synced. In a crash everything else is undone.
class SimDisk {
 public:
  // Writes beyond it fail with ENOSPC; a gigabyte at first. Holes take no room.
  void set_capacity(std::uint64_t bytes);
  // Every call that reads, writes or syncs fails so, with that probability; 0: none does.
  void fail_with(int error, double probability);
  // The probability of a read or write that carries less than it could; 0 at first.
  void set_short_transfers(double probability);
  // The probability that a write which was not synced survives a crash all the same, or in part;
  // 0 at first. Each for itself: later ones may survive where earlier ones do not.
  void set_survival(double probability);

  // The file's contents as programs see them; empty: there is no such file.
  [[nodiscard]] std::optional<std::string> contents(std::string_view path) const;
  [[nodiscard]] std::uint64_t used() const;  // bytes

 private:
  friend class SimWorld;
  friend class SimHost;
  SimDisk(engine::SimMachine& machine, std::uint32_t host) noexcept
      : machine_(&machine), host_(host) {}
  engine::SimMachine* machine_;
  std::uint32_t host_;
};

// A machine of the simulated world.
class SimHost {
 public:
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] std::string address() const;  // "10.0.0.2"
  [[nodiscard]] bool is_up() const noexcept;
  [[nodiscard]] SimDisk disk() const noexcept { return {*machine_, host_}; }

  // Runs `f` on this host, with its children, until it returns or the host ends. False: the host
  // ended before that, and `f` was cancelled; or the host was down, and `f` never ran.
  template <std::invocable F>
  bool run(F&& f) const {
    static_assert(std::is_void_v<std::invoke_result_t<F>>, "run() drops no results: return void");
    Fiber& self = Fiber::current();
    Presence presence{*this, self};
    if (!presence.is_up()) return false;
    try {
      const Entered entered{self, presence.scope()};
      const Presence::Here here{presence};
      std::invoke(std::forward<F>(f));
      return !presence.has_ended();
    } catch (const Cancelled&) {
    }
    attend(self);
    return false;
  }
  // The same in a fiber of its own: a child of `nursery`.
  template <class Nursery, std::invocable F>
  void spawn(Nursery& nursery, F f, Site site = Site::here()) const {
    nursery.spawn([host = *this, f = std::move(f)]() mutable { host.run(std::move(f)); }, site);
  }
  // A service: started again, as a copy of what it was, whenever the host is, until it returns.
  template <class Nursery, std::copy_constructible F>
  void spawn_service(Nursery& nursery, F f, Site site = Site::here()) const {
    nursery.spawn(
        [host = *this, f = std::move(f)] {
          do host.wait_until_up();
          while (!host.run(F{f}));
        },
        site);
  }
  // Parks until the host is up. Cancel point.
  void wait_until_up() const;

  // Power failure: its fibers (see run()) are cancelled, its connections vanish without a word, and
  // of its files stays what was synced. It is down until restart().
  void crash() const;
  // The programs are ended, and the host stays up: its fibers are cancelled, its descriptors
  // closed, and nothing is lost that was written.
  void kill() const;
  void restart() const;  // after crash(); a host that is up is left alone

  friend bool operator==(const SimHost&, const SimHost&) = default;

 private:
  friend class SimWorld;
  friend class SimScript;
  friend class engine::SimMachine;

  // A call of run().
  class Presence : public ListNode<Presence> {
   public:
    Presence(const SimHost& host, Fiber& self);
    ~Presence();
    [[nodiscard]] bool is_up() const noexcept { return is_up_; }
    [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
    [[nodiscard]] CancelScope& scope() noexcept { return scope_; }
    // By the host, when it ends.
    void end(Fired& fired) noexcept {
      has_ended_ = true;
      scope_.cancel(CancelReason::requested, fired);
    }
    // The running fiber is on the host.
    class Here {
     public:
      explicit Here(const Presence& presence);
      ~Here();
      Here(const Here&) = delete;
      Here& operator=(const Here&) = delete;

     private:
      void* const before_;
    };

   private:
    const SimHost& host_;
    CancelScope scope_;
    bool is_up_;
    bool has_ended_ = false;
  };

  SimHost(engine::SimMachine& machine, std::uint32_t host) noexcept
      : machine_(&machine), host_(host) {}

  engine::SimMachine* machine_;
  std::uint32_t host_;
};

// What is to happen when. Times count from the call of SimWorld::script(); every step happens at
// the time last named.
//
//   world.script().at(10s).partition("a", "b").crash("c").at(20s).heal().restart("c");
class SimScript {
 public:
  template <class Rep, class Period>
  SimScript& at(std::chrono::duration<Rep, Period> time) {
    at_ = to_duration(time);
    return *this;
  }
  SimScript& partition(SimHosts a, SimHosts b);
  SimScript& partition_one_way(SimHosts from, SimHosts to);
  SimScript& isolate(SimHosts hosts);
  SimScript& heal();
  SimScript& heal(SimHosts a, SimHosts b);
  SimScript& set_link(SimHosts a, SimHosts b, const SimLink& link);
  SimScript& slow_down(SimHosts hosts, Duration by);
  SimScript& crash(const SimHosts& hosts);
  SimScript& kill(const SimHosts& hosts);
  SimScript& restart(const SimHosts& hosts);
  SimScript& fail_disk(const SimHosts& hosts, int error, double probability);
  // Anything that neither parks nor throws.
  SimScript& call(std::function<void()> f);

 private:
  friend class SimWorld;
  SimScript(engine::SimMachine& machine, Instant begin) noexcept
      : machine_(&machine), begin_(begin) {}
  engine::SimMachine* machine_;
  Instant begin_;
  Duration at_{};
};

// The world of a SimIo: see SimIo::world(), and sim_world().
class SimWorld {
 public:
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // The host of that name; there is one from the first time on that it is named.
  SimHost host(std::string_view name);
  [[nodiscard]] SimHost here() const noexcept;  // where the running fiber is
  [[nodiscard]] SimNet net() noexcept { return SimNet{machine_}; }
  [[nodiscard]] SimDisk disk(std::string_view host);
  [[nodiscard]] SimScript script();
  // How many descriptors are open, on all hosts.
  [[nodiscard]] std::size_t descriptors() const noexcept;

 private:
  friend class engine::SimMachine;
  explicit SimWorld(engine::SimMachine& machine) noexcept : machine_(machine) {}
  engine::SimMachine& machine_;
};

// The world of the running fiber's engine. Throws std::logic_error if that is not a SimIo.
SimWorld& sim_world();

// f() on the host of that name; false: the host ended before it.
template <std::invocable F>
bool on(std::string_view host, F&& f) {
  return sim_world().host(host).run(std::forward<F>(f));
}

}  // namespace weft
