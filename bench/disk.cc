#include "bench/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace dsv::bench {
namespace {

constexpr std::size_t kFile = std::size_t{512} << 20, kBlock = std::size_t{8} << 20, kPage = 4096;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Block = std::unique_ptr<std::byte, Free>;

/// A file that is gone when this is.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& folder) {
    path_ = (folder / "dsv41-bench-XXXXXX").string();
    fd_ = ::mkstemp(path_.data());
  }
  ~ScratchFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

flow::Status fill(int fd, std::byte* block) {
  std::memset(block, 0x5a, kBlock);
  for (std::size_t done = 0; done < kFile; done += kBlock) {
    if (::write(fd, block, kBlock) != static_cast<ssize_t>(kBlock))
      return flow::errorf("{}", strerror(errno));
  }
  return ::fsync(fd) == 0 ? flow::Status() : flow::errorf("{}", strerror(errno));
}

/// Opens the file for reads past the page cache, where the file system has them; otherwise empties the cache.
int reopen(const ScratchFile& file) {
  const int direct = ::open(file.path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct >= 0) return direct;
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  return ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
}

flow::Result<double> read_all(int fd, std::byte* block) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t done = 0; done < kFile; done += kBlock) {
    if (::pread(fd, block, kBlock, static_cast<off_t>(done)) != static_cast<ssize_t>(kBlock)) {
      return flow::errorf("{}", strerror(errno));
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(kFile) / seconds.count();
}

}  // namespace

flow::Result<double> disk_bandwidth(const std::filesystem::path& folder) {
  const ScratchFile file(folder);
  const Block block(static_cast<std::byte*>(std::aligned_alloc(kPage, kBlock)));
  if (file.fd() < 0 || !block) return flow::errorf("{}: {}", folder.string(), strerror(errno));
  FLOW_TRY(fill(file.fd(), block.get()).in(file.path()));
  const int fd = reopen(file);
  if (fd < 0) return flow::errorf("{}: {}", file.path(), strerror(errno));
  auto bandwidth = read_all(fd, block.get());
  ::close(fd);
  return std::move(bandwidth).in(file.path());
}

}  // namespace dsv::bench
