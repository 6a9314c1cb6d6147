// `weft tour --options`. Names, values and meanings are the engines' own, so that they cannot be
// out of date.
#include "tour.hpp"

#include <weft/arch/fault.hpp>
#include <weft/engine.hpp>
#include <weft/sim.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::tour {
namespace {

struct Group {
  std::string_view name;
  std::string_view title;
  std::vector<OptionLine> lines;
};

std::string fault_sites() {
  std::string sites;
  for (const std::string_view site : arch::fault::kSiteNames)
    (sites += sites.empty() ? "" : ", ") += site;
  return sites;
}

std::string from_environment(const char* variable) {
  const char* const text = std::getenv(variable);
  return text && *text ? text : "-";
}

std::vector<Group> groups() {
  const SimOptions sim;
  return {
      {"FiberIo", "weft::FiberIo io{{.option = value, ...}};    real threads, real time",
       describe(resolve({}))},
      {"SimIo",
       "weft::SimIo io{{.option = value, ...}};      one thread, virtual time, seeded",
       {{"seed", "-", "decides who runs next wherever there is a choice", std::to_string(sim.seed)},
        {"replay", "-", "a schedule() of an earlier run, to run it again", '"' + sim.replay + '"'},
        {"stack_bytes", "-", "virtual size of a fiber's stack", std::to_string(sim.stack_bytes)}}},
      {"process",
       "every engine of the process",
       {{"faults", "WEFT_FAULTS", "makes system calls fail, for tests: SITE:WHEN:ERRNO,...",
         from_environment("WEFT_FAULTS")},
        {"chaos", "WEFT_CHAOS", "in checked builds: a seed that makes threads hesitate, for tests",
         from_environment("WEFT_CHAOS")}}},
  };
}

// For a person.
void print_table(const std::vector<Group>& all) {
  std::size_t name = 0;
  std::size_t variable = 0;
  std::size_t value = 0;
  for (const Group& group : all)
    for (const OptionLine& line : group.lines) {
      name = std::max(name, line.name.size());
      variable = std::max(variable, line.variable.size());
      value = std::max(value, line.value.size());
    }
  const auto padded = [](std::string_view text, std::size_t width) {
    std::string cell{text};
    cell.resize(std::max(width, text.size()), ' ');
    return cell + "  ";
  };
  for (const Group& group : all) {
    std::printf("%s\n", std::string{group.title}.c_str());
    for (const OptionLine& line : group.lines)
      std::printf("  %s%s%s%s\n", padded(line.name, name).c_str(),
                  padded(line.variable, variable).c_str(), padded(line.value, value).c_str(),
                  std::string{line.meaning}.c_str());
    std::printf("\n");
  }
  std::printf(
      "The columns: option, environment variable, value here and now, meaning.\n"
      "SITE is one of %s;\n"
      "WHEN is N (the Nth call), everyN, pCHANCE or pCHANCE@SEED.\n"
      "Examples: WEFT_WORKERS=1 weft tour hello\n"
      "          WEFT_FAULTS=mmap:3:ENOMEM weft tour spawning\n",
      fault_sites().c_str());
}

// For a program: a line each, tabs between the fields.
void print_list(const std::vector<Group>& all) {
  for (const Group& group : all)
    for (const OptionLine& line : group.lines)
      std::printf("%s.%s\t%s\t%s\t%s\n", std::string{group.name}.c_str(),
                  std::string{line.name}.c_str(), std::string{line.variable}.c_str(),
                  line.value.c_str(), std::string{line.meaning}.c_str());
}

}  // namespace

void print_options() {
  const std::vector<Group> all = groups();
  ::isatty(STDOUT_FILENO) == 1 ? print_table(all) : print_list(all);
}

}  // namespace weft::tour
