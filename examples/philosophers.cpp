// Five philosophers at a round table, a fork between each two, and two forks needed to eat.
//
// Whoever takes the left fork first and then the right one may find that all have done so. The
// simulator does not hang then: it says who holds what. std::scoped_lock takes both or none.
#include <weft/weft.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kSeats = 5;

struct Table {
  std::array<weft::Mutex, kSeats> forks{
      weft::Mutex{"fork 0"}, weft::Mutex{"fork 1"}, weft::Mutex{"fork 2"}, weft::Mutex{"fork 3"},
      weft::Mutex{"fork 4"}};
  std::array<int, kSeats> meals{};

  weft::Mutex& left_of(std::size_t seat) { return forks[seat]; }
  weft::Mutex& right_of(std::size_t seat) { return forks[(seat + 1) % kSeats]; }
};

template <class Eat>
void dine(Table& table, int meals, Eat eat) {
  weft::nursery({.name = "table"}, [&](weft::Nursery& n) {
    for (std::size_t seat = 0; seat < kSeats; ++seat)
      n.spawn("philosopher " + std::to_string(seat), [&table, meals, eat, seat] {
        while (table.meals[seat] < meals) {
          weft::sleep_for(1ms);  // thinks
          eat(table, seat);
        }
      });
  });
}

void one_fork_after_the_other(Table& table, std::size_t seat) {
  std::scoped_lock left{table.left_of(seat)};
  weft::sleep_for(1ms);  // looks around
  std::scoped_lock right{table.right_of(seat)};
  ++table.meals[seat];
}

void both_forks_or_none(Table& table, std::size_t seat) {
  std::scoped_lock forks{table.left_of(seat), table.right_of(seat)};
  weft::sleep_for(1ms);  // eats
  ++table.meals[seat];
}

}  // namespace

int main() {
  try {
    Table table;
    weft::SimIo io{{.seed = 1}};
    io.run([&] { dine(table, 1, one_fork_after_the_other); });
  } catch (const weft::Deadlock& deadlock) {
    std::puts(deadlock.what());
  }

  Table table;
  weft::SimIo io{{.seed = 1}};
  io.run([&] { dine(table, 1'000, both_forks_or_none); });
  int meals = 0;
  for (const int count : table.meals) meals += count;
  std::printf("%d meals, and nobody starved\n", meals);

  // The same for real, on as many cores as there are.
  Table large;
  weft::run([&] { dine(large, 20, both_forks_or_none); });
  std::puts("and again on real workers");
}
