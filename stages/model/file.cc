#include "stages/model/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

namespace dsv {

using flow::errorf;
using flow::Result;
using flow::Status;

Result<std::unique_ptr<InputFile>> InputFile::open(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errorf("{}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return errorf("{}: not a regular file", path.string());
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errorf("{}: {}", path.string(), std::strerror(errno));
  std::unique_ptr<InputFile> file(new InputFile(path, descriptor, 0));
  if (::fstat(descriptor, &info) != 0) return errorf("{}: {}", path.string(), std::strerror(errno));
  file->size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

InputFile::~InputFile() {
  if (mapped_ != nullptr) ::munmap(mapped_, size_);
  if (direct_ >= 0) ::close(direct_);
  ::close(descriptor_);
}

Status InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  iovec piece{out.data(), out.size()};
  const Result<std::int64_t> reads = read(offset, std::span(&piece, 1));
  return reads.ok() ? Status() : reads.status();
}

Result<std::int64_t> InputFile::read(std::uint64_t offset, std::span<iovec> pieces) const {
  std::int64_t reads = 0;
  while (!pieces.empty()) {
    const int count = static_cast<int>(std::min<std::size_t>(pieces.size(), IOV_MAX));
    ssize_t got = ::preadv(descriptor_, pieces.data(), count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused_read(*this, offset, errno);
    ++reads;
    offset += static_cast<std::uint64_t>(got);
    const bool at_end = got == 0;
    while (!pieces.empty() && static_cast<std::size_t>(got) >= pieces.front().iov_len) {
      got -= static_cast<ssize_t>(pieces.front().iov_len);
      pieces = pieces.subspan(1);
    }
    if (pieces.empty()) break;
    if (at_end) return ended_early(*this);
    pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + got;
    pieces.front().iov_len -= static_cast<std::size_t>(got);
  }
  return reads;
}

Result<const std::byte*> InputFile::map() const {
  const std::lock_guard lock(mutex_);
  if (mapped_ == nullptr && size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (address == MAP_FAILED) return errorf("{}: cannot map: {}", path_.string(), std::strerror(errno));
    mapped_ = address;
  }
  return static_cast<const std::byte*>(mapped_);
}

Result<int> InputFile::direct_descriptor() const {
  const std::lock_guard lock(mutex_);
  if (direct_ < 0 && direct_refused_ == 0) {
    // By way of the open descriptor, for the path may lead to another file by now.
    direct_ = ::open(fmt::format("/proc/self/fd/{}", descriptor_).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (direct_ < 0) direct_refused_ = errno;
  }
  if (direct_refused_ == 0) return direct_;
  return errorf("{}: direct reads are refused ({})", path_.string(), std::strerror(direct_refused_));
}

void InputFile::refuse_direct(int error) const {
  const std::lock_guard lock(mutex_);
  direct_refused_ = error;
}

Result<std::uint64_t> InputFile::size_now() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) return errorf("{}: {}", path_.string(), std::strerror(errno));
  return static_cast<std::uint64_t>(info.st_size);
}

Status ended_early(const InputFile& file, std::optional<std::uint64_t> end) {
  const Result<std::uint64_t> now = end ? *end : file.size_now();
  FLOW_TRY(now.status());
  return errorf("{}: ends at offset {}, in the middle of a read", file.path().string(), *now);
}

Status refused_read(const InputFile& file, std::uint64_t offset, int error) {
  return errorf("{}: cannot read at offset {}: {}", file.path().string(), offset, std::strerror(error));
}

}  // namespace dsv
