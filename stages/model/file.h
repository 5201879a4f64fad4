// A regular file opened for positioned reads and mapping.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
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

  // For reading in other ways than these (stages/model/io).

  int descriptor() const { return descriptor_; }
  /// A descriptor of the same file for reads past the page cache, opened on first use. Error: refused, and
  /// why.
  flow::Result<int> direct_descriptor() const;
  /// Direct reads turned out not to work; `error` is an errno.
  void refuse_direct(int error) const;
  /// Bytes that the file has now.
  flow::Result<std::uint64_t> size_now() const;

 private:
  InputFile(std::filesystem::path path, int descriptor, std::uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_;
  mutable std::mutex mutex_;  // of all below
  mutable void* mapped_ = nullptr;
  mutable int direct_ = -1;         // descriptor; -1 = not opened yet
  mutable int direct_refused_ = 0;  // errno
};

/// The error of a file that ends before the end of a read; where it ends now, or at `end`.
flow::Status ended_early(const InputFile& file, std::optional<std::uint64_t> end = {});
/// The error of a read that the system refuses; `error` is an errno.
flow::Status refused_read(const InputFile& file, std::uint64_t offset, int error);

}  // namespace dsv
