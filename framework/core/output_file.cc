#include "framework/core/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace flow {
namespace fs = std::filesystem;
namespace {

constexpr int kMostLinks = 40;

Status cannot_write(const std::string& path, int error) {
  return errorf("cannot write '{}': {}", path, std::strerror(error));
}

/// A name below /proc, such as that of /dev/stdout, stands for an open file, which must stay the same file.
bool is_open_file(const fs::path& path) {
  return path.string().starts_with("/proc/");
}

fs::path follow_links(fs::path path) {
  std::error_code error;
  for (int links = 0; links < kMostLinks && !is_open_file(path) && fs::is_symlink(path, error); ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

/// Whether a path names something that is written where it is. Error: a folder, or a way that cannot be gone.
Result<bool> is_in_place(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && !path.empty()) return false;
    return cannot_write(path, errno);
  }
  if (S_ISDIR(info.st_mode)) return cannot_write(path, EISDIR);
  return !S_ISREG(info.st_mode) || is_open_file(follow_links(path));
}

/// A new file next to `target`; its name goes to `name`. The descriptor, or -1 with errno.
int create_beside(const fs::path& target, std::string& name) {
  static std::atomic<int> next{0};
  int descriptor = -1;
  do {
    name = fmt::format("{}.{}-{}.part", target.string(), ::getpid(), next++);
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  return descriptor;
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  FLOW_ASSIGN(const bool in_place, is_in_place(path));
  OutputFile file(path, in_place ? fs::path(path) : output_target(path));
  file.descriptor_ = in_place ? ::open(path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC)
                              : create_beside(file.target_, file.temporary_);
  if (file.descriptor_ < 0) return file.cannot(errno);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!in_place()) ::unlink(temporary_.c_str());
}

Status OutputFile::cannot(int error) const {
  return cannot_write(path_, error);
}

Status OutputFile::write(std::string_view bytes) {
  const int error = write_all(descriptor_, bytes);
  return error == 0 ? Status() : cannot(error);
}

Status OutputFile::skip(std::uint64_t bytes) {
  const off_t end = ::lseek(descriptor_, static_cast<off_t>(bytes), SEEK_CUR);
  return end < 0 || ::ftruncate(descriptor_, end) != 0 ? cannot(errno) : Status();
}

Status OutputFile::commit() {
  int error = ::close(std::exchange(descriptor_, -1)) != 0 ? errno : 0;
  if (in_place()) return error == 0 ? Status() : cannot(error);
  if (error == 0 && std::rename(temporary_.c_str(), target_.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary_.c_str());
  return cannot(error);
}

Status write_file(const std::string& path, std::string_view text) {
  FLOW_ASSIGN(OutputFile file, OutputFile::open(path));
  FLOW_TRY(file.write(text));
  return file.commit();
}

Status can_write(const std::string& path) {
  FLOW_ASSIGN(const bool in_place, is_in_place(path));
  if (!in_place) return OutputFile::open(path).status();
  // Not opened: a pipe would wait for its reader.
  return ::access(path.c_str(), W_OK) == 0 ? Status() : cannot_write(path, errno);
}

fs::path output_target(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::absolute(follow_links(path), error);
  return fs::weakly_canonical(target.parent_path(), error) / target.filename();
}

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd wait{descriptor, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace flow
