// spec-tables: prints the tables of the specification as the documents hold them.
//
// docs/protocol.md has the same markers; the tidy test compares what is between them, and
// `tests/tidy/tidy.py --fix` writes it anew.
#include <weft/base/mutant.hpp>
#include <weft/core/spec.hpp>

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using weft::Actor;
using weft::FiberState;
namespace spec = weft::spec;

using Row = std::vector<std::string>;

std::string upper(std::string_view name) {
  std::string text{name};
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::string code(std::string_view text) { return "`" + std::string{text} + "`"; }

void print_row(const Row& row) {
  for (const std::string& cell : row) std::cout << "| " << cell << ' ';
  std::cout << "|\n";
}

void print_table(std::string_view name, const Row& head, const std::vector<Row>& rows) {
  std::cout << "<!-- table:" << name << " -->\n\n";
  print_row(head);
  print_row(Row(head.size(), "---"));
  for (const Row& row : rows) print_row(row);
  std::cout << "\n<!-- end -->\n\n";
}

template <class Matrix>
void print_machine(std::string_view name, const Matrix& matrix) {
  std::vector<Row> rows;
  for (const auto& edge : matrix)
    rows.push_back(
        {upper(to_string(edge.from)), upper(to_string(edge.to)), std::string{edge.trigger}});
  print_table(name, {"from", "to", "when"}, rows);
}

void print_fiber_matrix() {
  std::vector<Row> rows;
  for (const spec::FiberEdge& edge : spec::kFiberMatrix)
    rows.push_back({upper(to_string(edge.from)), upper(to_string(edge.to)),
                    std::string{to_string(edge.actor)}, std::string{to_string(edge.write)},
                    std::string{edge.trigger}});
  print_table("fiber-matrix", {"from", "to", "actor", "write", "when"}, rows);
}

constexpr unsigned kFiberStates = static_cast<unsigned>(FiberState::cancelled) + 1;
constexpr unsigned kActors = static_cast<unsigned>(Actor::canceller) + 1;

void print_fused() {
  std::vector<Row> rows;
  for (unsigned from = 0; from < kFiberStates; ++from)
    for (unsigned actor = 0; actor < kActors; ++actor) {
      const auto state = static_cast<FiberState>(from);
      const auto who = static_cast<Actor>(actor);
      if (!spec::legal_fused(state, FiberState::runnable, who)) continue;
      rows.push_back({upper(to_string(state)), upper(to_string(FiberState::runnable)),
                      std::string{to_string(who)},
                      state == FiberState::parking ? "PARKED, WAKING" : "WAKING"});
    }
  print_table("fiber-fused", {"from", "to", "actor", "passing"}, rows);
}

// What anybody but its owner may do to a fiber, by state.
void print_may() {
  const auto answer = [](bool yes) { return std::string{yes ? "yes" : "no"}; };
  std::vector<Row> rows;
  for (unsigned i = 0; i < kFiberStates; ++i) {
    const auto state = static_cast<FiberState>(i);
    rows.push_back({upper(to_string(state)), answer(spec::can_be_queued(state)),
                    answer(spec::can_be_latched(state)), answer(spec::can_be_claimed(state))});
  }
  print_table("fiber-may", {"state", "be in a run queue", "be left a verdict", "be claimed"}, rows);
}

void print_rules() {
  std::vector<Row> rows;
  for (const spec::RuleText& rule : spec::kRules)
    rows.push_back({std::string{rule.name}, std::string{rule.text}, std::string{rule.checked}});
  print_table("rules", {"rule", "says", "checked"}, rows);

  rows.clear();
  for (const spec::MustNot& never : spec::kMustNot)
    rows.push_back({std::string{never.what}, std::string{never.why}});
  print_table("must-not", {"never", "because"}, rows);
}

void print_orders() {
  std::vector<Row> rows;
  for (const spec::OrderRow& row : spec::kMemoryOrders)
    rows.push_back({std::string{row.event}, std::string{row.operation}, std::string{row.order},
                    code(row.anchor), std::string{row.why}});
  print_table("memory-orders", {"event", "operation", "order", "where", "why"}, rows);
}

void print_decisions() {
  std::vector<Row> rows;
  for (const spec::Decision& decision : spec::decisions())
    rows.push_back(
        {std::string{decision.they_say}, std::string{decision.we_do}, std::string{decision.why}});
  print_table("decisions", {"the requirement says", "weft does", "because"}, rows);
}

void print_mutants() {
  std::vector<Row> rows;
  for (const weft::mutant::Mutant& mutant : weft::mutant::kMutants)
    rows.push_back({std::to_string(mutant.id), code(mutant.name), std::string{mutant.change},
                    std::string{mutant.noticed_by}});
  print_table("mutants", {"id", "name", "change", "who must notice"}, rows);
}

}  // namespace

int main() {
  print_fiber_matrix();
  print_fused();
  print_may();
  print_rules();
  print_machine("worker-matrix", spec::kWorkerMatrix);
  print_machine("nursery-matrix", spec::kNurseryMatrix);
  print_machine("channel-matrix", spec::kChannelMatrix);
  print_orders();
  print_decisions();
  print_mutants();
  return std::cout.flush() ? 0 : 1;
}
