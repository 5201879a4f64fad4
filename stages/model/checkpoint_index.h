// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "stages/model/name_map.h"

namespace dsv {

/// The file that names the shards of a checkpoint.
inline constexpr char kIndexFile[] = "model.safetensors.index.json";

/// "model-00007-of-00048.safetensors" taken apart.
struct NumberedName {
  std::string stem;  ///< "model"
  int number = 0, count = 0;
  std::size_t digits = 0;
};
std::optional<NumberedName> numbered(std::string_view name);

/// Every name that the numbering of these files calls for, sorted.
std::vector<std::string> series_of(std::span<const std::string> names);

/// A checked index. Shards are plain file names (no folders), sorted.
struct CheckpointIndex {
  std::vector<std::string> shards;
  NameMap<int> shard_of;                    ///< tensor -> position in `shards`
  std::optional<std::uint64_t> total_size;  ///< metadata.total_size, bytes of all tensors
};

/// Reads an index. Errors: not JSON, no `weight_map` object, an entry that is not a string, a key given
/// twice, a shard name that leaves the folder.
flow::Result<CheckpointIndex> load_checkpoint_index(const std::filesystem::path& file);

}  // namespace dsv
