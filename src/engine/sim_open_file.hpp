// SimOpenFile: a file of a simulated disk that somebody has open.
#pragma once

#include "sim_fabric.hpp"

#include <memory>
#include <string>

namespace weft::engine {

class SimOpenFile final : public SimObject {
 public:
  SimOpenFile(SimFabric& fabric, HostId on_host, std::shared_ptr<SimFile> file, int flags) noexcept
      : SimObject(fabric, on_host), file_(std::move(file)), flags_(flags) {}

  Answer read(const iovec* parts, int count) override;
  Answer write(const iovec* parts, int count) override;
  Answer read_at(const iovec* parts, int count, std::int64_t offset);
  Answer write_at(const iovec* parts, int count, std::int64_t offset);
  // Of at most `count` bytes.
  Answer read_into(std::string& bytes, std::size_t count, std::int64_t offset);
  Answer seek(std::int64_t offset, int whence);
  Answer sync() { return disk().sync(file_); }
  Answer truncate(std::int64_t size);
  Answer status(struct stat& to) const;
  [[nodiscard]] short poll() override;
  [[nodiscard]] bool is_file() const noexcept override { return true; }

 private:
  [[nodiscard]] SimDiskState& disk() { return fabric_.host(host).disk; }
  [[nodiscard]] bool can_read() const noexcept;
  [[nodiscard]] bool can_write() const noexcept;

  const std::shared_ptr<SimFile> file_;
  const int flags_;
  std::int64_t at_ = 0;
};

}  // namespace weft::engine
