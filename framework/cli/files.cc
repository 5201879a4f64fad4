#include "framework/cli/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/cli/terminal.h"
#include "framework/core/output_file.h"

namespace flow::cli {
namespace {

Status cannot_read(const std::string& path, int error) {
  return errorf("cannot read '{}': {}", path, std::strerror(error));
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
  if (fd < 0) return cannot_read(path, errno);
  Result<std::string> text = read_descriptor(fd);
  if (!input) ::close(fd);
  if (!text.ok()) return text.status().in(fmt::format("cannot read '{}'", input ? "standard input" : path));
  if (text->ends_with('\n')) text->pop_back();
  return text;
}

Status write_output(const std::string& path, std::string_view text) {
  return path == "-" ? print(text) : write_file(path, text);
}

Status check_output(const std::string& path) {
  return path == "-" ? Status() : can_write(path);
}

}  // namespace flow::cli
