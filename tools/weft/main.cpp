// The program `weft`.
#include "tour.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

using weft::tour::Chapter;

constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr std::string_view kHelp =
    "usage: weft tour [chapter ...]    show what weft does, on this machine\n"
    "       weft tour --list           the chapters\n"
    "       weft tour --options        the engines' options and environment variables\n"
    "       weft --version\n"
    "       weft --help\n";

void print(std::FILE* to, std::string_view text) { std::fwrite(text.data(), 1, text.size(), to); }

// Says what is wrong, and what would have been right.
int refuse(const std::string& why) {
  std::fprintf(stderr, "weft: %s\n", why.c_str());
  print(stderr, kHelp);
  return kUsage;
}

int refuse_chapter(std::string_view word) {
  std::string why = "there is no chapter \"" + std::string{word} + "\"; the chapters are";
  const char* separator = " ";
  for (const Chapter& chapter : weft::tour::chapters()) {
    (why += separator) += chapter.name;
    separator = ", ";
  }
  return refuse(why);
}

void print_list() {
  for (const Chapter& chapter : weft::tour::chapters())
    std::printf("%-12.*s %.*s\n", static_cast<int>(chapter.name.size()), chapter.name.data(),
                static_cast<int>(chapter.title.size()), chapter.title.data());
}

int tour(const std::vector<std::string_view>& words) {
  std::vector<const Chapter*> route;
  for (const std::string_view word : words) {
    if (word.starts_with('-')) {
      if (word != "--list" && word != "--options")
        return refuse("tour has no option \"" + std::string{word} + '"');
      if (words.size() != 1) return refuse(std::string{word} + " goes alone");
      word == "--list" ? print_list() : weft::tour::print_options();
      return kOk;
    }
    const Chapter* const chapter = weft::tour::find_chapter(word);
    if (!chapter) return refuse_chapter(word);
    route.push_back(chapter);
  }
  if (route.empty())
    for (const Chapter& chapter : weft::tour::chapters()) route.push_back(&chapter);
  return weft::tour::take(route) ? kOk : kFailed;
}

int run(const std::vector<std::string_view>& words) {
  if (words.empty()) return refuse("nothing to do");
  const std::string_view verb = words.front();
  const std::vector<std::string_view> rest(words.begin() + 1, words.end());
  if (verb == "tour") return tour(rest);
  // Not in the help: nobody but the tour says it.
  if (verb == weft::tour::kClientsVerb && weft::tour::be_clients(rest)) return kOk;
  if (verb != "--version" && verb != "--help")
    return refuse("there is no command \"" + std::string{verb} + '"');
  if (!rest.empty()) return refuse(std::string{verb} + " goes alone");
  print(stdout, verb == "--help" ? kHelp : "weft " WEFT_VERSION "\n");
  return kOk;
}

}  // namespace

int main(int argc, char** argv) {
  int result = kFailed;
  try {
    result = run(std::vector<std::string_view>(argv + 1, argv + argc));
  } catch (const std::exception& error) {  // such as an environment variable that makes no sense
    std::fprintf(stderr, "%s\n", error.what());
  }
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return result;
  std::perror("weft: standard output");
  return kFailed;
}
