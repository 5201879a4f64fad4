// A checkpoint on disk: any tensor of any shard by name, as a view, a byte range or a gather of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "stages/model/name_map.h"
#include "stages/model/safetensors.h"

namespace dsv {

class InputFile;

/// Read-only bytes of one tensor in a mapped shard; valid as long as its Checkpoint.
struct TensorView {
  const TensorInfo* info = nullptr;
  std::span<const std::byte> bytes;

  /// The elements as T. Errors: T has another size than the element, or the file placed the tensor at
  /// an address that T cannot be read from (then use Checkpoint::read).
  template <class T>
  flow::Result<std::span<const T>> as() const {
    FLOW_TRY(check_layout(sizeof(T), alignof(T)));
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  }

 private:
  flow::Status check_layout(std::size_t size, std::size_t alignment) const;
};

/// The open shards of one checkpoint. All const methods may be called from any number of threads.
///
/// Memory: headers only (about 200 bytes a tensor); mapped pages belong to the page cache. Sizes are
/// checked when it is opened, so that no view reaches past its file; a file that is cut *afterwards*
/// while it is mapped can still raise SIGBUS, as with every mapping. Bulk reads should use read().
class Checkpoint {
 public:
  /// One file of the checkpoint.
  struct Shard {
    std::filesystem::path path;
    std::uint64_t size = 0;  ///< bytes on disk
    int tensors = 0;         ///< tensors of this shard that the checkpoint uses
  };

  /// Opens a folder, or a single .safetensors file, and reads and checks every header.
  ///
  /// With an index, the index decides which shard holds a tensor and files it does not name are ignored
  /// (stray_files); without one, every *.safetensors of the folder counts, in the order of their names.
  /// Errors: shards missing, by the index or by the numbering of their names (all are listed), a truncated or
  /// malformed shard, a tensor the index places in a shard that lacks it, a tensor in two shards without an
  /// index to decide.
  static flow::Result<std::shared_ptr<const Checkpoint>> open(const std::filesystem::path& path);

  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// The tensor's place, or nullptr.
  const TensorInfo* find(std::string_view name) const;
  /// The tensor's place, if it has this dtype and shape; otherwise one message with file, tensor,
  /// expected and found.
  flow::Result<const TensorInfo*> require(std::string_view name, DType dtype,
                                          std::span<const std::int64_t> shape) const;
  /// Same, for a braced shape.
  flow::Result<const TensorInfo*> require(std::string_view name, DType dtype,
                                          std::initializer_list<std::int64_t> shape) const {
    return require(name, dtype, std::span(shape.begin(), shape.size()));
  }
  /// The tensor's place; an error naming the checkpoint when there is none.
  flow::Result<const TensorInfo*> require(std::string_view name) const;

  /// The tensor's bytes in the mapped shard (mapped on first use). Nothing is copied.
  flow::Result<TensorView> view(std::string_view name) const;
  flow::Result<TensorView> view(const TensorInfo& tensor) const;

  /// Copies out.size() bytes from `offset` bytes into the tensor. Errors name file, tensor and offset.
  flow::Status read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  /// The whole tensor, copied.
  flow::Result<std::vector<std::byte>> read(const TensorInfo& tensor) const;
  /// The file that holds the tensor, at `tensor.begin`.
  const InputFile& file_of(const TensorInfo& tensor) const;

  /// Every tensor, by shard and then as in the shard's header.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<Shard>& shards() const { return shards_; }
  const Shard& shard(int index) const { return shards_[static_cast<std::size_t>(index)]; }
  /// Sum over all tensors.
  std::uint64_t total_bytes() const { return total_bytes_; }
  /// The folder (or file) it was opened from.
  const std::filesystem::path& path() const { return path_; }
  /// Whether model.safetensors.index.json decided.
  bool has_index() const { return has_index_; }
  /// *.safetensors files of the folder that the index does not name.
  const std::vector<std::string>& stray_files() const { return stray_files_; }
  /// `__metadata__` of all shards together (the first shard with a key wins).
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  class Opener;
  Checkpoint();
  /// "file.safetensors: tensor 'name'".
  std::string place(const TensorInfo& tensor) const;

  std::filesystem::path path_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<InputFile>> files_;
  std::vector<TensorInfo> tensors_;
  NameViewMap<std::size_t> by_name_;
  std::vector<std::string> stray_files_;
  std::map<std::string, std::string> metadata_;
  std::uint64_t total_bytes_ = 0;
  bool has_index_ = false;
};

}  // namespace dsv
