#include "framework/cli/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace flow::cli {
namespace {

Status cannot(std::string_view verb, const std::string& path, int error) {
  return errorf("cannot {} '{}': {}", verb, path, std::strerror(error));
}

Result<std::string> read_all(int fd) {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::error(std::strerror(errno));
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > kMaxValueBytes) return errorf("more than {} bytes", kMaxValueBytes);
  }
}

}  // namespace

Result<std::string> read_value(const std::string& path) {
  const bool input = path == "-";
  const int fd = input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cannot("read", path, errno);
  Result<std::string> text = read_all(fd);
  if (!input) ::close(fd);
  if (!text.ok()) return text.status().in(fmt::format("cannot read '{}'", input ? "standard input" : path));
  if (text->ends_with('\n')) text->pop_back();
  return text;
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  if (path == "-") return OutputFile(path, "", STDOUT_FILENO);
  struct stat info {};
  const bool replace = ::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  const std::string target = replace ? fmt::format("{}.{}.part", path, ::getpid()) : path;
  const int flags = O_WRONLY | O_CLOEXEC | (replace ? O_CREAT | O_TRUNC : 0);
  const int fd = ::open(target.c_str(), flags, 0666);
  if (fd < 0) return cannot("write", path, errno);
  return OutputFile(path, replace ? target : "", fd);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {
  other.temporary_.clear();
}

OutputFile::~OutputFile() {
  if (fd_ > STDOUT_FILENO) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::write(std::string_view text) {
  if (const int error = write_all(fd_, text)) return cannot("write", path_, error);
  if (fd_ != STDOUT_FILENO && ::close(std::exchange(fd_, -1)) != 0) return cannot("write", path_, errno);
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot("write", path_, errno);
  temporary_.clear();
  return {};
}

}  // namespace flow::cli
