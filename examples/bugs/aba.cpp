// ABA: a free list whose head is the same as before, while all that is behind it is not.
//
// How one meets it: two files share a block, and the one that is written last wins. The free blocks
// of a disk are a list, each holding the number of the next. To take the first, one must read it;
// if it is still the first after that, what was read is taken to be still true. But it may have
// been taken and given back meanwhile, and its successor may be gone.
#include "gallery.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>

namespace {

enum class Heads { plain, numbered };

class Disk {
 public:
  explicit Disk(Heads heads) : step_(heads == Heads::numbered ? 1 : 0) {}

  unsigned take() {
    Head head = head_;
    for (;;) {
      const Head rest{read_next(head.block), head.version + step_};
      if (head_.compare_exchange_strong(head, rest)) return hand_out(head.block);
    }
  }

  void give_back(unsigned block) {
    is_taken_[block] = false;
    Head head = head_;
    do next_[block] = head.block;
    while (!head_.compare_exchange_weak(head, {block, head.version + step_}));
  }

  [[nodiscard]] bool has_shared_blocks() const { return is_shared_; }

 private:
  // With a version that grows at every change, equal heads are heads of equal lists. Without, they
  // only begin with the same block.
  struct alignas(std::uint64_t) Head {  // compared and exchanged as one word
    unsigned block, version;
  };

  [[nodiscard]] unsigned read_next(unsigned block) const {
    const unsigned next = next_[block];
    weft::this_fiber::yield();  // until the disk has answered
    return next;
  }
  unsigned hand_out(unsigned block) {
    if (is_taken_[block].exchange(true)) is_shared_ = true;
    return block;
  }

  const unsigned step_;
  std::atomic<Head> head_{Head{0, 0}};
  std::array<std::atomic<unsigned>, 12> next_{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0};
  std::array<std::atomic<bool>, 12> is_taken_{};
  std::atomic<bool> is_shared_{false};
};

void three_files(Heads heads) {
  Disk disk{heads};
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 3; ++i)
      n.spawn("file", [&] {
        const unsigned draft = disk.take();
        disk.take();
        disk.give_back(draft);
        disk.take();
      });
  });
  if (disk.has_shared_blocks()) throw std::runtime_error{"two files share a block"};
}

void buggy() { three_files(Heads::plain); }
void fixed() { three_files(Heads::numbered); }

}  // namespace

constinit const gallery::Bug gallery::aba{
    .name = "aba",
    .mistake = "the head of a list is the same as before, and the list is another",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::pct,
    .runs = 100,
    .buggy = buggy,
    .fixed = fixed,
};
