// The tensors that a config calls for: name, type, shape and shard of every one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stages/model/config.h"
#include "stages/model/dtype.h"
#include "stages/model/safetensors.h"

namespace dsv {

/// The rows of the category table. Experts of draft layers count as experts, all else of them as draft.
enum class Category : std::uint8_t {
  RoutedExperts,
  Engram,
  Attention,
  EmbeddingAndHead,
  SharedExperts,
  Vision,
  Draft,
  GatesAndMixing,  ///< routing gates, FFN norms, hyper-connections
  Other,           ///< a name that the format does not have
};
inline constexpr int kCategories = 9;

std::string_view category_name(Category category);

/// The category that a tensor's name belongs to.
Category category_of(std::string_view tensor);

/// Which part of the audit looks at a tensor.
enum class Family : std::uint8_t {
  Plain,            ///< what every layer has, embedding, head, final norm
  Compression,      ///< what the layer's CSA2 role adds
  Expert,           ///< routed experts
  EngramTable,      ///< embed.weight and embed.scale
  EngramGate,       ///< wkv, q_weight, k_weight
  DraftProjection,  ///< main_proj and main_norm of the first draft layer
  DraftHead,        ///< Markov and confidence heads and norm of the last draft layer
  Vision,           ///< tower, aligner and image vectors
};

struct ExpectedTensor {
  std::string name;
  DType dtype = DType::Unknown;
  std::vector<std::int64_t> shape;
  Family family = Family::Plain;
  int layer = -1;                      ///< backbone layer, or n_layers + i for draft layer i; -1 for the rest
  int shard = 0;                       ///< position in the released order of shards
  const TensorInfo* header = nullptr;  ///< set by the audit: its entry in a header at hand

  bool is_scale() const { return name.ends_with(".scale"); }
};

/// Elements along a row that share one scale in packed FP4 weights and in Engram tables.
inline constexpr int kRowBlock = 32;

/// Every tensor, shard by shard in the released order: vision, embedding, backbone layers, head, draft
/// layers, Engram tables. `block` is the {rows, columns} tile of dense FP8 weights.
/// Needs every key of the config, but not that they agree with each other. Error: over kMaxTensors.
flow::Result<std::vector<ExpectedTensor>> expected_tensors(const ModelConfig& config,
                                                           std::array<int, 2> block);

/// Most tensors that a config may call for; the released one has 96,085.
inline constexpr std::int64_t kMaxTensors = 10'000'000;

/// "layers.3" or "mtp.0": the prefix of a layer's tensors.
std::string layer_prefix(const ModelConfig& config, int layer);

}  // namespace dsv
