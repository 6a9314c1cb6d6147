#include "net/child.hpp"

#include <weft/cancel.hpp>
#include <weft/time.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace weft {

// One program's run. A single fiber waits for all of its pipes at once: so it works where fibers do
// not take turns, and there is nobody else to be stopped when it is given up.
class Running {
 public:
  Running(Process process, std::string_view input, std::size_t limit, Instant till)
      : process_(std::move(process)),
        input_(std::as_bytes(std::span{input})),
        limit_(limit),
        alarm_(till),
        till_(till) {}

  Result<Finished> finish() {
    while (process_.in() || process_.out() || process_.err())
      if (const Result<void> moved = move_something(); !moved) return moved.failure();
    std::optional<Result<ExitStatus>> status = deadline(till_, [this] { return process_.wait(); });
    if (!status) return Unexpected{std::errc::timed_out};
    if (!*status) return status->failure();
    finished_.status = **status;
    return std::move(finished_);
  }

 private:
  // Waits until a pipe can be read or written, and does that.
  Result<void> move_something() {
    Descriptor::Ready in = process_.in().on_writable();
    Descriptor::Ready out = process_.out().on_readable();
    Descriptor::Ready err = process_.err().on_readable();
    Descriptor::Ready end = process_.child_->on_end();
    std::array<Waitable*, 5> arms{&alarm_};
    std::size_t count = 1;
    if (process_.in()) arms[count++] = &in;
    if (process_.out()) arms[count++] = &out;
    if (process_.err()) arms[count++] = &err;
    // One that has ended reads no more, even if somebody it has left behind holds the pipe.
    if (process_.in() && process_.child_->can_tell()) arms[count++] = &end;
    // Beginning with another one each time: none is kept waiting by one that is always ready.
    const std::size_t ready = wait(std::span<Waitable* const>{arms.data(), count}, ++turn_ % count);
    if (arms[ready] == &alarm_) return Unexpected{std::errc::timed_out};
    if (arms[ready] == &in) return write_input();
    if (arms[ready] == &out) return read_into(finished_.out, process_.out());
    if (arms[ready] == &err) return read_into(finished_.err, process_.err());
    return process_.in().close();
  }

  Result<void> write_input() {
    const Result<std::size_t> count = process_.in().try_write_some(input_);
    if (count) input_ = input_.subspan(*count);
    else if (would_block(count.error())) return {};
    // A program that does not want to read more is not to blame for that.
    else if (count.error() != std::errc::broken_pipe) return count.failure();
    return count && !input_.empty() ? Result<void>{} : process_.in().close();
  }

  Result<void> read_into(std::string& all, PipeReader& pipe) {
    const Result<std::span<std::byte>> got = pipe.try_read_some(buffer_);
    if (!got) return would_block(got.error()) ? Result<void>{} : got.failure();
    if (got->empty()) return pipe.close();
    if (got->size() > limit_ - all.size()) return Unexpected{IoError::too_long};
    all.append(reinterpret_cast<const char*>(got->data()), got->size());
    return {};
  }

  static bool would_block(std::error_code error) noexcept {
    return error == std::errc::resource_unavailable_try_again;
  }

  Process process_;
  std::span<const std::byte> input_;
  const std::size_t limit_;
  Alarm alarm_;
  const Instant till_;
  Finished finished_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(std::size_t{64} << 10);
  std::size_t turn_ = 0;
};

Result<Finished> run_process(const RunOptions& options) {
  const Instant till = saturating_add(Clock::now(), options.timeout);
  Result<Process> process =
      Process::spawn({.argv = options.argv,
                      .env = options.env,
                      .inherit_env = options.inherit_env,
                      .cwd = options.cwd,
                      .in = options.input.empty() ? Stdio::null : Stdio::pipe,
                      .out = Stdio::pipe,
                      .err = Stdio::pipe,
                      .new_group = options.new_group});
  if (!process) return process.failure();
  return Running{*std::move(process), options.input, options.output_limit, till}.finish();
}

}  // namespace weft
