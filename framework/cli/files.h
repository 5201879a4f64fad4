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
/// "-" is standard output. Something that is not a regular file, such as /dev/null, is written in place.
class OutputFile {
 public:
  /// Makes sure that the file can be written, so that this is known before the work is done. Leaves
  /// nothing behind.
  static Result<OutputFile> create(const std::string& path);
  Status write(std::string_view text) const;

 private:
  OutputFile(std::string path, std::string target) : path_(std::move(path)), target_(std::move(target)) {}

  std::string path_;
  std::string target_;  // what is written: the path itself, or the file that is renamed to it
};

/// What is left to read, at most kMaxValueBytes.
Result<std::string> read_descriptor(int fd);

/// Writes all of `text`. Returns 0 or the errno.
int write_all(int fd, std::string_view text);

}  // namespace flow::cli
