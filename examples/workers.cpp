// Fan out, fan in: four workers share the jobs and the way for results. The first bad job ends it
// all in order, and nothing gets lost on the way.
#include <weft/weft.hpp>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int parse(const std::string& text) {
  if (text.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument{"not a number: " + text};
  return std::stoi(text);
}

struct Counts {
  std::atomic<int> admitted{0};
  std::atomic<int> begun{0};
  std::atomic<int> undelivered{0};
};

// Takes jobs as long as there are any and somebody wants results.
void work(const weft::Receiver<std::string>& jobs, const weft::Sender<int>& results,
          Counts& counts) {
  for (const std::string& job : jobs) {
    ++counts.begun;
    try {
      if (!results.send(parse(job))) return;
    } catch (const std::invalid_argument&) {
      results.close(std::current_exception());  // thrown where the results are received
      return;
    }
  }
}

int add_up(const std::vector<std::string>& texts, Counts& counts) {
  weft::Channel<std::string> jobs{{.capacity = 8,
                                   .name = "jobs",
                                   .on_undelivered = [&](std::string&&) { ++counts.undelivered; }}};
  weft::Channel<int> results{{.name = "results"}};
  int sum = 0;
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 4; ++i)
      n.spawn("worker", [&, in = jobs.rx, out = results.tx] { work(in, out, counts); });
    jobs.rx.drop();  // the workers' copies are what keeps the channels open
    results.tx.drop();

    n.spawn("feeder", [&, out = std::move(jobs.tx)] {
      for (const std::string& text : texts) {
        if (!out.send(text)) return;  // the last worker is gone
        ++counts.admitted;
      }
    });
    for (int value : results.rx) sum += value;
  });
  return sum;
}

void report(const std::vector<std::string>& texts) {
  Counts counts;
  try {
    std::printf("sum %d\n", add_up(texts, counts));
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
  // Cancelled or not: what was admitted was received by a worker, or given back.
  const int accounted = counts.begun + counts.undelivered;
  std::printf("every job is accounted for: %s\n", accounted == counts.admitted ? "yes" : "no");
}

}  // namespace

int main() {
  std::vector<std::string> texts;
  for (int i = 1; i <= 1000; ++i) texts.push_back(std::to_string(i));
  weft::run([&] { report(texts); });
  texts[500] = "five hundred and one";
  weft::run([&] { report(texts); });
}
