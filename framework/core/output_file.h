// Files that appear as a whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "framework/core/status.h"

namespace flow {

/// A file that is being written: beside its target, under a name that nothing else has, until commit()
/// renames it. Without a commit nothing is left behind, and the target stays as it was. A link is followed:
/// what it leads to is replaced, not the link. Something that is no regular file, such as /dev/null or a
/// pipe, is written in place. Errors read "cannot write 'PATH': why".
class OutputFile {
 public:
  static Result<OutputFile> open(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write(std::string_view bytes);
  /// Leaves a hole of zeros, which takes no disk space where the file system can.
  Status skip(std::uint64_t bytes);
  /// Moves the file to its name.
  Status commit();

 private:
  OutputFile(std::string path, std::filesystem::path target)
      : path_(std::move(path)), target_(std::move(target)) {}
  Status cannot(int error) const;
  bool in_place() const { return temporary_.empty(); }

  std::string path_;              // as it was given
  std::filesystem::path target_;  // where it leads
  std::string temporary_;         // empty: the target is written in place
  int descriptor_ = -1;
};

/// Writes a whole text (see OutputFile).
Status write_file(const std::string& path, std::string_view text);

/// Whether a file can be written there, to know it before the work is done. Leaves nothing behind.
Status can_write(const std::string& path);

/// The file that a path leads to, also when it is not there yet. Two paths with one target are one file.
std::filesystem::path output_target(const std::string& path);

/// Writes all of `bytes`. Returns 0 or the errno.
int write_all(int descriptor, std::string_view bytes);

}  // namespace flow
