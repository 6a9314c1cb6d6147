// FaultyKernel: the machine's own kernel, with faults in between, as a seed has them.
//
//   FaultyKernel kernel{{.seed = 7, .interrupted = 0.1, .would_block = 0.3}};
//   const FaultyKernel::Between between{kernel};
//   FiberIo{}.run([] { ... });
//
// Every fault is one that Linux could have made: what comes after it is as it would be then.
//
// Readers and writers are edge-triggered, and a stream's short transfer tells them that there is no
// more. So after "it would block", and after a transfer that was cut short, the kernel is made to
// signal the edge again (by socket options that do so); else they would wait for what is there.
// That is known of TCP, and so only TCP has these two faults. A reset is a real one: the connection
// is torn down by us, the peer hears of it, and the call answers what the kernel then says.
#pragma once

#include <weft/core/kernel.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>

namespace weft::testing {

// Probabilities between 0 and 1, of each call that could end so.
struct Faults {
  std::uint64_t seed = 0;
  double interrupted = 0;     // EINTR; connect(2) goes on all the same
  double would_block = 0;     // EAGAIN, of TCP
  double short_transfer = 0;  // some bytes only, of TCP
  double reset = 0;           // ECONNRESET at receive, of TCP
  double broken_pipe = 0;     // EPIPE at send, of TCP: no more can be written
  double no_buffers = 0;      // ENOBUFS or ENOMEM at send
  double no_descriptors = 0;  // EMFILE or ENFILE at accept, socket and pipe
  double aborted = 0;         // ECONNABORTED at accept, of one that was to come
  double late = 0;            // the call takes its thread a millisecond
};

class FaultyKernel final : public Kernel {
 public:
  enum class Fault : std::uint8_t {
    interrupted,
    would_block,
    short_transfer,
    reset,
    broken_pipe,
    no_buffers,
    no_descriptors,
    aborted,
    late,
  };
  static constexpr std::size_t kFaults = 9;

  explicit FaultyKernel(const Faults& faults) noexcept : faults_(faults) {}
  ~FaultyKernel() = default;

  // Engines that are made meanwhile ask this one; they end before it does.
  class Between {
   public:
    explicit Between(Kernel& kernel) noexcept;
    ~Between();
    Between(const Between&) = delete;
    Between& operator=(const Between&) = delete;
  };

  // How often there was one.
  [[nodiscard]] std::uint64_t count(Fault fault) const noexcept {
    return counts_[static_cast<std::size_t>(fault)].load(std::memory_order_relaxed);
  }
  // Whether a TCP connection with this port at either end had a fault that ended it.
  [[nodiscard]] bool has_ended(std::uint16_t port) const;

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
  Answer set_permissions(int fd, mode_t permissions) noexcept override;
  Answer status(int fd, struct stat& status) noexcept override;
  Answer status(const char* path, struct stat& status) noexcept override;
  Answer rename(const char* from, const char* to) noexcept override;
  Answer remove(const char* path) noexcept override;
  Answer make_directory(const char* path, mode_t permissions) noexcept override;
  Answer list_directory(const char* path, std::vector<DirectoryEntry>& entries) override;
  int resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) override;

 private:
  [[nodiscard]] std::uint64_t chance() noexcept;
  [[nodiscard]] bool happens(Fault fault, double probability) noexcept;
  [[nodiscard]] bool interrupts() noexcept;
  [[nodiscard]] bool would_block(int fd) noexcept;
  // The negated errno that a call which would make a descriptor ends with; 0: it does not.
  [[nodiscard]] Answer without_descriptors() noexcept;
  // How much less than `bytes` are carried; none: all of them are.
  [[nodiscard]] std::size_t cut(int fd, std::size_t bytes) noexcept;
  void end(int fd, Fault how) noexcept;

  Kernel& real_ = system_kernel();
  const Faults faults_;
  std::atomic<std::uint64_t> chances_{0};
  std::array<std::atomic<std::uint64_t>, kFaults> counts_{};
  mutable std::mutex lock_;  // protects ended_
  std::set<std::uint16_t> ended_;
};

}  // namespace weft::testing
