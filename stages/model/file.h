// A regular file opened for positioned reads and mapping.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "framework/core/status.h"

namespace dsv {

/// Read-only file. Const methods may be called from several threads at once.
class InputFile {
 public:
  /// Errors name the file: not there, not a regular file, no permission.
  static flow::Result<std::unique_ptr<InputFile>> open(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Bytes when it was opened.
  std::uint64_t size() const { return size_; }

  /// Fills `out` from `offset` on. Errors (system error, end of file) name the file and the offset.
  flow::Status read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Fills the pieces, which follow each other in the file from `offset` on. The pieces are used up.
  flow::Result<std::int64_t> read(std::uint64_t offset, std::span<iovec> pieces) const;

  /// The whole file, mapped on first use; nullptr for an empty file.
  flow::Result<const std::byte*> map() const;

 private:
  InputFile(std::filesystem::path path, int descriptor, std::uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_;
  mutable std::mutex mapping_;
  mutable void* mapped_ = nullptr;
};

/// Writes a small text file: to a temporary file beside it, then renamed, so that no partial file is left.
flow::Status write_file(const std::filesystem::path& file, std::string_view text);

}  // namespace dsv
