// Hooks: the narrow door between code under test and the explorer. ModelSync goes through here, so
// that product headers compiled for a model see none of the explorer's own types.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "explorer/site.hpp"

namespace weft::model::hook {

// Is a controlled thread of an execution running? Outside, an Atomic is a plain value.
[[nodiscard]] bool active() noexcept;

// Is it the program under test that runs just now, and not the explorer itself? What is allocated
// then belongs to the execution.
[[nodiscard]] bool program_runs() noexcept;
// Did make() make the object that begins here?
[[nodiscard]] bool is_made(const void* object) noexcept;

enum class Object : std::uint8_t { atomic, var, lock };
enum class Modify : std::uint8_t { exchange, add, sub, bit_or, bit_and, bit_xor };
enum class CasStrength : std::uint8_t { weak, strong };

// `initial` is the value the object was constructed with; it counts if the object is older than the
// execution.
std::uint64_t load(const void* atomic, std::uint64_t initial, std::memory_order order, Site site);
void store(const void* atomic, std::uint64_t initial, std::uint64_t value, std::memory_order order,
           Site site);
std::uint64_t modify(const void* atomic, std::uint64_t initial, Modify how, std::uint64_t operand,
                     std::uint64_t mask, std::memory_order order, Site site);
bool compare_exchange(const void* atomic, std::uint64_t initial, std::uint64_t& expected,
                      std::uint64_t desired, CasStrength strength, std::memory_order success,
                      std::memory_order failure, Site site);
void fence(std::memory_order order, Site site);

void construct(const void* object, Object kind, std::uint64_t initial, Site site);
void destroy(const void* object, Site site);
void read_var(const void* var, Site site);
void write_var(const void* var, Site site);

void lock(const void* lock, Site site);
[[nodiscard]] bool try_lock(const void* lock, Site site);
void unlock(const void* lock, Site site);

void sleep(const void* atomic, std::uint64_t initial, std::uint64_t seen, bool timed, Site site);
void wake(const void* atomic, unsigned sleepers, Site site);
void spin(Site site);

}  // namespace weft::model::hook
