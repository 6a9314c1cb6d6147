// SimKernel: the system calls of a simulated world, and what watches its descriptors.
//
// Descriptors are numbers far from those of the process: one that strays to the machine's kernel
// does no harm there. 0, 1 and 2 are the process's own, but nothing is read from them.
#pragma once

#include "sim_fabric.hpp"

#include <weft/core/kernel.hpp>
#include <weft/core/reactor.hpp>

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace weft::engine {

class SimKernel final : public Kernel {
 public:
  static constexpr int kFirst = 1 << 20;

  // Who calls: a fiber on that host. One that has outlived the host's end gets nothing from it.
  struct Caller {
    HostId host = 0;
    bool is_alive = true;
  };
  SimKernel(SimFabric& fabric, std::function<Caller()> here)
      : fabric_(fabric), here_(std::move(here)) {}
  virtual ~SimKernel() = default;

  Answer socket(int domain, int type, int protocol) noexcept override;
  Answer socket_pair(int domain, int type, int (&ends)[2]) noexcept override;
  Answer bind(int fd, const sockaddr* address, socklen_t length) noexcept override;
  Answer listen(int fd, int backlog) noexcept override;
  Answer accept(int fd, SocketAddress& peer) noexcept override;
  Answer connect(int fd, const sockaddr* address, socklen_t length) noexcept override;
  Answer shutdown(int fd, int how) noexcept override;
  Answer local_address(int fd, SocketAddress& address) noexcept override;
  Answer peer_address(int fd, SocketAddress& address) noexcept override;
  Answer set_option(int fd, int level, int name, const void* value,
                    socklen_t length) noexcept override;
  Answer get_option(int fd, int level, int name, void* value, socklen_t& length) noexcept override;
  Answer receive(int fd, msghdr& message, int flags) noexcept override;
  Answer send(int fd, const msghdr& message, int flags) noexcept override;

  Answer read(int fd, const iovec* parts, int count) noexcept override;
  Answer write(int fd, const iovec* parts, int count) noexcept override;
  Answer pipe(int (&ends)[2]) noexcept override;
  Answer send_file(int to, int from, std::int64_t& offset, std::size_t count) noexcept override;
  Answer close(int fd) noexcept override;
  Answer poll(int fd, short events) noexcept override;

  Answer open(const char* path, int flags, mode_t permissions) noexcept override;
  Answer read_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept override;
  Answer write_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept override;
  Answer seek(int fd, std::int64_t offset, int whence) noexcept override;
  Answer sync(int fd, bool data_only) noexcept override;
  Answer truncate(int fd, std::int64_t size) noexcept override;
  Answer status(int fd, struct stat& status) noexcept override;
  Answer status(const char* path, struct stat& status) noexcept override;
  Answer rename(const char* from, const char* to) noexcept override;
  Answer remove(const char* path) noexcept override;
  Answer make_directory(const char* path, mode_t permissions) noexcept override;
  Answer list_directory(const char* path, std::vector<DirectoryEntry>& entries) override;

  int resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) override;

  // ── watching ────────────────────────────────────────────────────────────────────────────────
  Answer watch(int fd, Watched::Key key) noexcept;
  void forget(int fd) noexcept;

  // The programs of a host are gone: calls on its descriptors fail from now on. `abruptly`: nobody
  // hears of it.
  void end_host(HostId host, bool abruptly);
  [[nodiscard]] std::size_t descriptors() const noexcept { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    std::shared_ptr<SimObject> object;  // null: the slot is free, or its host has ended
    HostId host = 0;
    Watched::Key key = 0;
    bool is_used = false;
  };

  // Calls `f(object)`; -EBADF if there is none, and -EIO if its host has ended.
  template <class F>
  Answer with(int fd, F f) noexcept;
  template <class F>
  Answer with_file(int fd, F f) noexcept;
  // Calls `f(disk)`.
  template <class F>
  Answer on_disk(const char* path, F f) noexcept;
  [[nodiscard]] Slot* slot(int fd) noexcept;
  Answer add(std::shared_ptr<SimObject> object);
  // Calls `f(host)` if the caller may have so many more; -EMFILE; -EIO if its host has ended.
  template <class F>
  Answer opening(std::size_t count, F f) noexcept;

  SimFabric& fabric_;
  const std::function<Caller()> here_;
  std::vector<Slot> slots_;
  std::set<std::size_t> free_;
};

}  // namespace weft::engine
