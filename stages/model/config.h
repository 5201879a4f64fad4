// The model's geometry, read from either released description of a checkpoint into one schema.
//
// `config.json` (nested) groups its keys under text_config, vision_config and quantization_config and
// uses other names than `inference/config.json` (flat). Members carry the flat names. Nothing is
// defaulted: a key that was not in the file is `absent`, and load_config refuses a config without it.
#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace dsv {

/// What a backbone layer owns for its compressed attention.
enum class LayerRole : std::uint8_t {
  Window,   ///< ratio 0: sliding window only
  Full,     ///< a KV source: compressor, index keys and index queries
  Reindex,  ///< an index source only: ranks a source's keys with its own queries
  Reuse,    ///< reads the positions that its index source chose
};

std::string_view role_name(LayerRole role);

enum class ConfigLayout : std::uint8_t { Nested, Flat };

/// Something wrong with a config.
struct ConfigProblem {
  std::string place;    ///< "line:column" of the key it begins with; empty where no file holds that key
  std::string message;  ///< "key is ..., expected ...", with keys spelled as in the file
  std::string text() const { return place.empty() ? message : place + ": " + message; }
};

/// One model description. Members are named as the flat keys; groups in the order of the text.
struct ModelConfig {
  // Text backbone: always needed.
  int vocab_size = 0;
  int dim = 0;
  int n_layers = 0;
  int n_heads = 0;
  int head_dim = 0;
  int rope_head_dim = 0;
  int q_lora_rank = 0;
  int o_lora_rank = 0;
  int o_groups = 0;
  double norm_eps = 0;
  int window_size = 0;
  double rope_theta = 0;
  double rope_factor = 0;
  double beta_fast = 0;
  double beta_slow = 0;
  int original_seq_len = 0;
  double compress_rope_theta = 0;
  std::vector<int> compress_ratios;  ///< backbone layers, then draft layers
  std::vector<int> kv_source_layers;
  std::vector<int> index_source_layers;
  int index_n_heads = 0;
  int index_head_dim = 0;
  int index_topk = 0;
  int candidate_source_layer = 0;
  int candidate_topk_blocks = 0;
  int candidate_block_size = 0;
  int moe_inter_dim = 0;
  int n_routed_experts = 0;
  int n_shared_experts = 0;
  int n_activated_experts = 0;
  std::string score_func;
  double route_scale = 0;
  double swiglu_limit = 0;
  int hc_mult = 0;
  int hc_sinkhorn_iters = 0;
  double hc_eps = 0;
  std::string dtype;         ///< format of quantized dense weights, "fp8"
  std::string expert_dtype;  ///< format of routed experts, "fp4"

  // Engram: needed when the model has Engram layers.
  std::vector<int> engram_layer_ids;
  std::vector<std::int64_t> engram_num_embeddings;  ///< table rows, one per Engram layer
  int engram_vocab_size = 0;                        ///< lower bound of the bucket primes
  int engram_max_ngram_size = 0;
  int engram_n_heads = 0;
  int engram_head_dim = 0;
  int engram_pad_id = 0;
  int engram_compressed_vocab_size = 0;

  // DSpark draft layers: needed when the model has them.
  int n_mtp_layers = 0;
  int dspark_block_size = 0;
  int dspark_noise_token_id = 0;
  std::vector<int> dspark_target_layer_ids;
  int dspark_markov_rank = 0;
  int dspark_n_routed_experts = 0;
  int dspark_n_activated_experts = 0;

  // Vision: needed when the model has a vision tower.
  int vision_n_layers = 0;
  int vision_dim = 0;
  int vision_n_heads = 0;
  int vision_inter_dim = 0;
  int vision_patch_size = 0;
  int vision_downsample_ratio = 0;
  int vision_max_n_token = 0;
  int vision_min_pixels = 0;
  std::optional<double> vision_max_wh_ratio;  ///< null in the file: no limit
  double vision_rope_theta = 0;
  int image_token_id = 0;

  // Facts that only the nested layout states.
  std::optional<std::string> model_type;
  std::optional<std::vector<std::string>> architectures;
  std::optional<int> bos_token_id;
  std::optional<int> eos_token_id;
  std::optional<int> pad_token_id;
  std::optional<std::string> hidden_act;
  std::optional<int> max_position_embeddings;
  std::optional<int> num_key_value_heads;
  std::optional<bool> tie_word_embeddings;
  std::optional<std::string> topk_method;
  std::optional<bool> norm_topk_prob;
  std::optional<std::string> param_dtype;  ///< storage type of unquantized tensors

  /// {rows, columns} of a weight tile that shares one scale. The flat layout does not state it: there
  /// it is what the shape of a scale says.
  std::optional<std::array<int, 2>> weight_block_size;

  // Where it came from.
  std::filesystem::path path;
  ConfigLayout layout = ConfigLayout::Nested;
  std::set<std::string, std::less<>> present;              ///< flat names of the keys that the file held
  std::map<std::string, std::string, std::less<>> places;  ///< "line:column" of those, by flat name
  std::vector<std::string> unknown_keys;  ///< dotted paths of keys that this schema does not know

  bool has(std::string_view flat_key) const { return present.contains(flat_key); }
  bool has_engram() const { return !engram_layer_ids.empty(); }
  bool has_dspark() const { return n_mtp_layers > 0; }
  bool has_vision() const { return vision_n_layers > 0; }

  LayerRole role(int layer) const;
  /// Layer whose compressed KV `layer` reads (itself for a Full layer); -1 when it reads none.
  int kv_source(int layer) const;
  /// Layer whose chosen positions `layer` reads (itself for Full and Reindex); -1 when it reads none.
  int index_source(int layer) const;
  /// Position of `layer` in engram_layer_ids; -1 when it has no Engram.
  int engram_slot(int layer) const;
  bool is_engram_layer(int layer) const { return engram_slot(layer) >= 0; }
  /// Longest sequence in tokens: max_position_embeddings, or original_seq_len * rope_factor where the
  /// file does not state it.
  std::int64_t context_length() const;

  /// Keys that are needed but were not in the file, spelled as in this file's layout.
  std::vector<std::string> missing() const;
  /// Values that are out of range; where there are none, every way in which keys contradict each other.
  std::vector<ConfigProblem> verify() const;
  /// "40 layers + 3 draft, dim 5120, 64 heads of 512, ...": one line for a reader.
  std::string shape_line() const;

  /// The flat layout: every flat key that was present, in the order and with the value types of the
  /// released file (whole numbers stay whole, 1e-20 stays floating, null stays null).
  boost::json::object to_flat_json() const;
  /// The nested layout, for a config that has every nested-only fact and a block size.
  boost::json::object to_nested_json() const;
  /// Every key that was present, by its flat name, nested-only ones included.
  boost::json::object to_json() const;
};

/// Name of the released architecture in `model_type`.
inline constexpr char kModelType[] = "deepseek_v41";

/// Reads a description as it is: a file, or a folder (config.json, then inference/config.json).
/// Errors: unreadable, not JSON, a value of the wrong type, another model_type. Missing keys and
/// contradictions are not errors here: ask missing() and verify().
flow::Result<ModelConfig> read_config(const std::filesystem::path& path);

/// Sets one field by its flat name, as if the file had held that value. Errors: no such key, wrong type.
flow::Status set_config_value(ModelConfig& config, std::string_view flat_key,
                              const boost::json::value& value);

/// Ok for a config that can be run: complete and free of contradictions. Error: one message with the first
/// problem, its place, and the number of others.
flow::Status check_config(const ModelConfig& config);

/// read_config and check_config.
flow::Result<ModelConfig> load_config(const std::filesystem::path& path);

/// One field on which two descriptions differ, or on which one is silent.
struct ConfigDifference {
  std::string key;   ///< flat name
  std::string left;  ///< JSON text of the value, or "absent"
  std::string right;
};

/// All differing fields, in schema order. weight_block_size is compared only where both state it.
std::vector<ConfigDifference> config_differences(const ModelConfig& left, const ModelConfig& right);

}  // namespace dsv
