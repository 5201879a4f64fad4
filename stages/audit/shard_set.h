// The shard files of a folder, as far as they are there: headers, index, and who holds which tensor.
//
// Made for checkpoints that are incomplete, cut after their headers, or damaged: nothing here fails
// because of one bad file, and payload is never read. To run a model, open a Checkpoint instead.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "stages/model/checkpoint_index.h"
#include "stages/model/name_map.h"
#include "stages/model/safetensors.h"

namespace dsv {

struct ShardSetOptions {
  /// Accept files that end after their header, under any name.
  bool header_prefix = false;
  /// The index to use; empty: model.safetensors.index.json of the folder, where there is one.
  std::filesystem::path index = {};
  /// A download is going on: files that are shorter than their header says, or have none yet, are set
  /// aside as Arriving.
  bool arriving = false;
  /// Called after each file that was looked at.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
  /// Asked before each file; true ends the scan early, and its result means nothing.
  std::function<bool()> cancelled = {};
};

/// What became of one file of the folder.
struct ShardFile {
  enum class State : std::uint8_t {
    Used,
    Duplicate,   ///< its header is byte for byte that of another file
    Stray,       ///< the index does not name it
    Unreadable,  ///< no valid header; see `error`
    Arriving,    ///< still being downloaded; see `error`
  };
  std::filesystem::path path;
  std::string shard;  ///< its name in the index, which may differ from the file's
  State state = State::Used;
  std::string error;         ///< why it is unreadable or not complete, or which file it duplicates
  SafetensorsHeader header;  ///< empty when unreadable
};

/// Where a tensor is, by the index and the headers together.
enum class Presence : std::uint8_t {
  AtHand,   ///< a header at hand describes it, and the index (if any) agrees
  Pending,  ///< the index places it in a shard that is not at hand
  Unknown,  ///< no index, and shards are missing by their numbering
  Absent,   ///< nowhere
};

class ShardSet {
 public:
  ShardSet(ShardSet&&) = default;
  ShardSet& operator=(ShardSet&&) = default;

  /// Looks at every *.safetensors file of the folder and every other file whose first bytes look like a
  /// header. Errors: the folder cannot be listed, or `options.index` is given and cannot be read.
  static flow::Result<ShardSet> scan(const std::filesystem::path& folder,
                                     const ShardSetOptions& options = {});

  Presence presence(std::string_view tensor) const;
  /// The header's entry; nullptr unless the tensor is AtHand.
  const TensorInfo* find(std::string_view tensor) const;
  /// The file of a tensor that find() gave.
  const ShardFile& file_of(const TensorInfo& tensor) const {
    return files_[static_cast<std::size_t>(tensor.shard)];
  }
  /// Shards that may hold a tensor that is Pending or Unknown.
  std::span<const std::string> waiting_for(std::string_view tensor) const;

  struct Named {
    std::string_view name;
    const TensorInfo* header = nullptr;  ///< as find() gives it
  };
  /// Every tensor that a used header or the index holds: by file and place, then those that only the index
  /// has, sorted.
  std::vector<Named> tensors() const;

  const std::vector<ShardFile>& files() const { return files_; }
  /// Shards that the index, or the numbering of the files, says should be there, and are not at hand.
  const std::vector<std::string>& missing_shards() const { return missing_; }
  /// Tensors that two used headers describe, without an index to decide: "tensor (file, file)".
  const std::vector<std::string>& conflicts() const { return conflicts_; }
  /// Whether every shard that should be there is, and is entirely there.
  bool complete() const;
  const std::optional<CheckpointIndex>& index() const { return index_; }
  /// Why the folder's own index could not be read; empty otherwise.
  const std::string& index_error() const { return index_error_; }

 private:
  friend class ShardScanner;
  ShardSet() = default;
  std::vector<ShardFile> files_;
  std::optional<CheckpointIndex> index_;
  std::string index_error_;
  std::vector<std::string> missing_;
  std::vector<std::string> conflicts_;
  NameViewMap<const TensorInfo*> at_hand_;
};

}  // namespace dsv
