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

int open_for_writing(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

}  // namespace

Result<std::string> read_descriptor(int fd) {
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

Result<std::string> read_value(const std::string& path) {
  const bool input = path == "-";
  const int fd = input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cannot("read", path, errno);
  Result<std::string> text = read_descriptor(fd);
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
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return cannot("write", path, EISDIR);
  if (path == "-" || (exists && !S_ISREG(info.st_mode))) return OutputFile(path, path);
  const std::string target = fmt::format("{}.{}.part", path, ::getpid());
  const int fd = open_for_writing(target);
  if (fd < 0) return cannot("write", path, errno);
  ::close(fd);
  ::unlink(target.c_str());
  return OutputFile(path, target);
}

Status OutputFile::write(std::string_view text) const {
  const bool output = path_ == "-";
  const int fd = output ? STDOUT_FILENO : open_for_writing(target_);
  int error = fd < 0 ? errno : write_all(fd, text);
  if (!output && fd >= 0 && ::close(fd) != 0 && error == 0) error = errno;
  if (target_ == path_) return error == 0 ? Status() : cannot("write", path_, error);
  if (error == 0 && std::rename(target_.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(target_.c_str());
  return cannot("write", path_, error);
}

}  // namespace flow::cli
