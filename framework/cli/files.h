// Files that the command line tool reads and writes.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/status.h"

namespace flow::cli {

/// Most bytes of a value read by --set.
inline constexpr std::size_t kMaxValueBytes = std::size_t{1} << 30;

/// The content of a file, or of standard input for "-", without one newline at the end.
Result<std::string> read_value(const std::string& path);

/// A text that appears in a file as a whole or not at all: it is written beside the target and renamed.
/// "-" is standard output. Something that is not a regular file, such as /dev/stdout, is written in place.
class OutputFile {
 public:
  /// Makes the file, so that a path that cannot be written is known before the work is done.
  static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  /// Removes what was not written.
  ~OutputFile();

  Status write(std::string_view text);

 private:
  OutputFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  std::string path_;
  std::string temporary_;  // empty when written in place
  int fd_;
};

/// Writes all of `text`. Returns 0 or the errno.
int write_all(int fd, std::string_view text);

}  // namespace flow::cli
