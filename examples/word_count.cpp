// Counts the words of many texts on all cores, and prints the counts in the order of the texts.
#include <weft/weft.hpp>

#include <cctype>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

struct Counted {
  std::string title;
  std::map<std::string, int> words;
};

Counted count_words(const std::string& text) {
  Counted counted{.title = text.substr(0, text.find(':')), .words = {}};
  std::string word;
  for (const char c : text.substr(counted.title.size()) + ' ') {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      ++counted.words[word];
      word.clear();
    }
  }
  return counted;
}

int main() {
  const std::vector<std::string> texts{
      "loom: the warp goes up, the warp goes down, the weft goes through",
      "weft: over, under, over, under, and back again",
      "cloth: a thread, a thread, a thread; then cloth",
      "hem: fold and fold and sew",
  };
  weft::FiberIo io;
  io.run([&] {
    std::map<std::string, int> total;
    weft::nursery([&](weft::Nursery& n) {
      weft::stream(n, weft::from_range(texts))
          | weft::par_map(4, count_words)               // four at a time, the order stays
          | weft::for_each([&](const Counted& counted) {
              int words = 0;
              for (const auto& [word, count] : counted.words) {
                words += count;
                total[word] += count;
              }
              std::printf("%s: %d words, %zu different\n", counted.title.c_str(), words,
                          counted.words.size());
            });
    });
    std::printf("\"the\" %d times, \"over\" %d, \"thread\" %d\n", total["the"], total["over"],
                total["thread"]);
  });
}
