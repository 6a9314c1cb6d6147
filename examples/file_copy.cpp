// A file is copied, and a bar shows how far that has got.
//
//   file_copy [from to]
#include <weft/weft.hpp>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

using namespace std::chrono_literals;

struct Progress {
  std::uint64_t done = 0;
  std::uint64_t all = 0;
};

// Reads ahead while the last part is being written: each waits for the other only when it must.
weft::Result<void> copy(const std::string& from, const std::string& to,
                        weft::Watch<Progress>& progress) {
  constexpr std::size_t kPart = 256 * 1024;
  const auto source = weft::File::open(from);
  if (!source) return source.failure();
  const auto target = weft::File::open(to, {.write = true, .create = true, .truncate = true});
  if (!target) return target.failure();
  const std::uint64_t all = source->size().value_or(0);

  weft::Channel<std::vector<std::byte>> parts{2};
  const auto [read, written] = weft::all(
      [&]() -> weft::Result<void> {
        const auto tx = std::move(parts.tx);
        for (;;) {
          std::vector<std::byte> part(kPart);
          const auto got = source->read_some(part);
          if (!got) return got.failure();
          part.resize(got->size());
          if (part.empty() || !tx.send(std::move(part))) return {};
        }
      },
      [&]() -> weft::Result<void> {
        const auto rx = std::move(parts.rx);
        std::uint64_t done = 0;
        for (const std::vector<std::byte>& part : rx) {
          if (auto put = target->write_all(part); !put) return put;
          progress.set({done += part.size(), all});
        }
        return target->sync();
      });
  return read ? written : read;
}

// On a terminal a bar that grows; elsewhere a line for each quarter.
void show(weft::Watch<Progress>::Subscriber progress, const weft::StandardOutput& out) {
  constexpr std::size_t kWidth = 40;
  std::uint64_t quarters = 0;
  while (progress.changed()) {
    const Progress now = progress.get();
    if (out.is_terminal()) {
      std::string bar(static_cast<std::size_t>(kWidth * now.done / now.all), '#');
      bar.resize(kWidth, '.');
      static_cast<void>(out.write_all("\r[" + bar + "]"));
    } else {
      for (; quarters < 4 * now.done / now.all; ++quarters)
        static_cast<void>(out.write_all(std::to_string(25 * (quarters + 1)) + " %\n"));
    }
  }
  if (out.is_terminal()) static_cast<void>(out.write_all("\n"));
}

int copy_and_show(const std::string& from, const std::string& to) {
  const weft::StandardOutput out = weft::standard_output().value();
  weft::Watch<Progress> progress{Progress{}};
  auto [copied, shown] = weft::all(
      [&] {
        const auto result = copy(from, to, progress);
        progress.close();
        return result;
      },
      [&, watcher = progress.subscribe()] {
        show(watcher, out);
        return true;
      });
  if (copied) return 0;
  std::fprintf(stderr, "%s: %s\n", from.c_str(), copied.error().message().c_str());
  return 1;
}

// Something to copy, for who names nothing.
int demonstrate() {
  const auto directory = std::filesystem::temp_directory_path() /
                         ("weft-file-copy-" + std::to_string(weft::io().random()));
  weft::create_directories(directory).value();
  const std::string from = directory / "from";
  const std::string to = directory / "to";
  weft::write_file(from, std::string(8 << 20, 'w')).value();
  const int result = copy_and_show(from, to);
  const bool same = weft::read_file(from).value() == weft::read_file(to).value();
  weft::StandardOutput out = weft::standard_output().value();
  static_cast<void>(out.write_all(same ? "the copy is like the original\n" : "it differs\n"));
  for (const std::string& path : {from, to, directory.string()}) weft::remove(path).value();
  return result;
}

int main(int count, char** arguments) {
  return weft::run([&] {
    return count == 3 ? copy_and_show(arguments[1], arguments[2]) : demonstrate();
  });
}
