// Reference for the network workloads: a hand-written io_uring loop, one thread.
// usage: uring echo|http 1 <port>
//
// One multishot accept; one multishot receive per connection, into a ring of buffers that the
// kernel picks from; an answer is one send. One system call per turn submits what the turn before
// has asked for and waits for more. Descriptors live in the ring's own table.
#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>
#include "serve.hpp"

namespace {

constexpr unsigned kEntries = 4096;
constexpr unsigned kBuffers = 4096, kBufferBytes = 1024, kGroup = 0;  // a power of two of them

enum class Op : unsigned { accept, receive, send, close };
uint64_t tag(Op op, unsigned connection) { return uint64_t(op) << 32 | connection; }

// Echo: a buffer that came in and goes out again. HTTP: as many answers as heads have ended.
struct Piece {
  const char* bytes;
  unsigned left;
  int buffer;  // -1: none to give back
};

struct Connection {
  std::deque<Piece> to_send;  // the first is being sent: sends must not overtake each other
  Heads heads;
  bool receiving = false, ended = false;
};

class Loop {
 public:
  Loop(int port, bool http) : http_(http), connections_(descriptors()) {
    set_up();
    add_buffers();
    listener_ = listen_on(port);
    accept();
  }

  [[noreturn]] void run() {
    for (;;) {
      int e = io_uring_submit_and_wait(&ring_, 1);
      if (e < 0 && e != -EINTR && e != -EAGAIN && e != -EBUSY) fail("submit", e);
      unsigned head, seen = 0;
      io_uring_cqe* cqe;
      io_uring_for_each_cqe(&ring_, head, cqe) {
        ++seen;
        take(*cqe);
      }
      io_uring_cq_advance(&ring_, seen);
      if (returned_) io_uring_buf_ring_advance(buffer_ring_, std::exchange(returned_, 0));
    }
  }

 private:
  [[noreturn]] static void fail(const char* what, int error, int status = 3) {
    std::fprintf(stderr, "uring: %s: %s\n", what, std::strerror(-error));
    std::_Exit(status);
  }

  static unsigned descriptors() {
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return unsigned(std::min<rlim_t>(limit.rlim_cur, 16384));
  }
  // Needs Linux 6.1, where all of it is, and nobody who forbids it: else it is not offered.
  void set_up() {
    io_uring_params p{};
    p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
    p.cq_entries = 4 * kEntries;
    if (int e = io_uring_queue_init_params(kEntries, &ring_, &p)) fail("no io_uring", e, 2);
    io_uring_register_ring_fd(&ring_);  // saves a look-up per call where it exists
    if (int e = io_uring_register_files_sparse(&ring_, connections_.size())) fail("descriptors", e);
  }

  void add_buffers() {
    void* const where = mmap(nullptr, kBuffers * sizeof(io_uring_buf), PROT_READ | PROT_WRITE,
                             MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (where == MAP_FAILED) fail("buffers", -errno);
    buffer_ring_ = static_cast<io_uring_buf_ring*>(where);
    io_uring_buf_reg r{};
    r.ring_addr = reinterpret_cast<uint64_t>(where);
    r.ring_entries = kBuffers;
    r.bgid = kGroup;
    if (int e = io_uring_register_buf_ring(&ring_, &r, 0)) fail("buffers", e);
    io_uring_buf_ring_init(buffer_ring_);
    buffers_.resize(size_t(kBuffers) * kBufferBytes);
    for (unsigned i = 0; i < kBuffers; ++i) give_back(i);
    io_uring_buf_ring_advance(buffer_ring_, std::exchange(returned_, 0));
  }
  char* buffer(unsigned i) { return buffers_.data() + size_t(i) * kBufferBytes; }
  void give_back(unsigned i) {
    io_uring_buf_ring_add(buffer_ring_, buffer(i), kBufferBytes, i,
                          io_uring_buf_ring_mask(kBuffers), returned_++);
  }

  io_uring_sqe* entry() {
    io_uring_sqe* sqe;
    while (!(sqe = io_uring_get_sqe(&ring_))) io_uring_submit(&ring_);
    return sqe;
  }
  void accept() {
    io_uring_sqe* sqe = entry();
    io_uring_prep_multishot_accept_direct(sqe, listener_, nullptr, nullptr, 0);
    sqe->user_data = tag(Op::accept, 0);
  }
  void receive(unsigned c) {
    io_uring_sqe* sqe = entry();
    io_uring_prep_recv_multishot(sqe, int(c), nullptr, 0, 0);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    sqe->buf_group = kGroup;
    sqe->user_data = tag(Op::receive, c);
    connections_[c].receiving = true;
  }
  void send(unsigned c) {
    Piece const& piece = connections_[c].to_send.front();
    io_uring_sqe* sqe = entry();
    io_uring_prep_send(sqe, int(c), piece.bytes, piece.left, MSG_NOSIGNAL);
    sqe->flags |= IOSQE_FIXED_FILE;
    sqe->user_data = tag(Op::send, c);
  }

  void take(const io_uring_cqe& cqe) {
    auto const op = Op(cqe.user_data >> 32);
    auto const c = unsigned(cqe.user_data);
    switch (op) {
      case Op::accept:
        if (cqe.res >= 0) {
          connections_[cqe.res] = {};
          receive(unsigned(cqe.res));
        }
        if (!(cqe.flags & IORING_CQE_F_MORE)) accept();
        break;
      case Op::receive: received(c, cqe); break;
      case Op::send: sent(c, cqe.res); break;
      case Op::close: break;
    }
  }

  void received(unsigned c, const io_uring_cqe& cqe) {
    Connection& of = connections_[c];
    if (cqe.res > 0) {
      answer(c, unsigned(cqe.res), cqe.flags >> IORING_CQE_BUFFER_SHIFT);
    } else if (cqe.res != -ENOBUFS) {
      of.ended = true;
    }
    if (cqe.flags & IORING_CQE_F_MORE) return;
    of.receiving = false;
    // Without a buffer it is tried again with the next turn, when some have come back.
    if (!of.ended) receive(c);
    close_if_done(c);
  }
  void answer(unsigned c, unsigned n, unsigned b) {
    Connection& of = connections_[c];
    bool const idle = of.to_send.empty();
    if (http_) {
      for (int i = of.heads.ended_in({buffer(b), n}); i > 0; --i)
        of.to_send.push_back({kHello.data(), unsigned(kHello.size()), -1});
      give_back(b);
    } else {
      of.to_send.push_back({buffer(b), n, int(b)});
    }
    if (idle && !of.to_send.empty()) send(c);
  }
  void sent(unsigned c, int n) {
    Connection& of = connections_[c];
    Piece& piece = of.to_send.front();
    if (n > 0 && unsigned(n) < piece.left) {
      piece.bytes += n;
      piece.left -= unsigned(n);
      return send(c);
    }
    if (piece.buffer >= 0) give_back(unsigned(piece.buffer));
    of.to_send.pop_front();
    if (n <= 0) {
      of.ended = true;
      for (Piece const& p : of.to_send)
        if (p.buffer >= 0) give_back(unsigned(p.buffer));
      of.to_send.clear();
    }
    if (!of.to_send.empty()) return send(c);
    close_if_done(c);
  }
  void close_if_done(unsigned c) {
    Connection& of = connections_[c];
    if (!of.ended || of.receiving || !of.to_send.empty()) return;
    of.ended = false;
    io_uring_sqe* sqe = entry();
    io_uring_prep_close_direct(sqe, c);
    sqe->user_data = tag(Op::close, c);
  }

  bool const http_;
  io_uring ring_{};
  int listener_ = -1;
  io_uring_buf_ring* buffer_ring_ = nullptr;
  int returned_ = 0;
  std::vector<char> buffers_;
  std::vector<Connection> connections_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || (std::string_view(argv[1]) != "echo" && std::string_view(argv[1]) != "http"))
    return 2;
  Loop(std::atoi(argv[3]), std::string_view(argv[1]) == "http").run();
}
