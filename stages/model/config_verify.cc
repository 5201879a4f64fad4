// What the keys of one config must have to do with each other.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "stages/model/config_schema.h"

namespace dsv {

namespace {

/// Collects problems. A relation is judged only where every key it reads was in the file.
class Verifier {
 public:
  explicit Verifier(const ModelConfig& config) : c_(config) {}

  std::vector<std::string> run() {
    check_sizes();
    check_attention();
    check_ratios();
    check_sources("kv_source_layers", c_.kv_source_layers);
    check_sources("index_source_layers", c_.index_source_layers);
    check_readers();
    check_candidates();
    check_experts();
    check_engram();
    check_drafts();
    check_vision();
    check_token_ids();
    check_nested_facts();
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  bool known(std::initializer_list<std::string_view> keys) const {
    return std::ranges::all_of(keys, [this](std::string_view key) { return c_.has(key); });
  }
  bool in_use(ConfigGroup group) const {
    return group == ConfigGroup::Engram   ? c_.has_engram()
           : group == ConfigGroup::DSpark ? c_.has_dspark()
           : group == ConfigGroup::Vision ? c_.has_vision()
                                          : true;
  }
  bool in_backbone(int layer) const { return layer >= 0 && layer < c_.n_layers; }
  int ratio(int layer) const {
    return layer >= 0 && layer < static_cast<int>(c_.compress_ratios.size())
               ? c_.compress_ratios[static_cast<std::size_t>(layer)]
               : 0;
  }

  void check_sizes() {
    // Whole numbers that may be zero: positions of layers, ids, and parts a model can lack.
    constexpr std::array<std::string_view, 9> zero_allowed = {
        "candidate_source_layer", "n_shared_experts", "n_mtp_layers",
        "dspark_noise_token_id",  "vision_n_layers",  "image_token_id",
        "engram_pad_id",          "original_seq_len", "vision_min_pixels"};
    for (const ConfigField& field : config_fields()) {
      const auto* member = std::get_if<int ModelConfig::*>(&field.member);
      if (member == nullptr || !c_.has(field.flat)) continue;
      const int least = std::ranges::find(zero_allowed, field.flat) == zero_allowed.end() ? 1 : 0;
      expect(!in_use(field.group) || c_.*(*member) >= least, "{} is {}, expected at least {}", field.flat,
             c_.*(*member), least);
    }
    for (const auto& [key, value] :
         {std::pair{"norm_eps", c_.norm_eps}, {"hc_eps", c_.hc_eps}, {"swiglu_limit", c_.swiglu_limit}})
      expect(value >= 0, "{} is {}, expected at least 0", key, value);
    for (const auto& [key, value] : {std::pair{"rope_theta", c_.rope_theta},
                                     {"compress_rope_theta", c_.compress_rope_theta},
                                     {"rope_factor", c_.rope_factor},
                                     {"beta_slow", c_.beta_slow},
                                     {"route_scale", c_.route_scale}})
      expect(!c_.has(key) || value > 0, "{} is {}, expected more than 0", key, value);
    if (known({"beta_fast", "beta_slow"}))
      expect(c_.beta_fast >= c_.beta_slow, "beta_fast {} is less than beta_slow {}", c_.beta_fast,
             c_.beta_slow);
  }

  void check_attention() {
    if (known({"n_heads", "o_groups"}))
      expect(c_.o_groups > 0 && c_.n_heads % c_.o_groups == 0, "n_heads {} is no multiple of o_groups {}",
             c_.n_heads, c_.o_groups);
    if (!known({"rope_head_dim"})) return;
    expect(c_.rope_head_dim % 2 == 0, "rope_head_dim {} is odd", c_.rope_head_dim);
    if (known({"head_dim"}))
      expect(c_.rope_head_dim <= c_.head_dim, "rope_head_dim {} exceeds head_dim {}", c_.rope_head_dim,
             c_.head_dim);
    if (known({"index_head_dim"}))
      expect(c_.rope_head_dim <= c_.index_head_dim, "rope_head_dim {} exceeds index_head_dim {}",
             c_.rope_head_dim, c_.index_head_dim);
  }

  void check_ratios() {
    if (!known({"compress_ratios", "n_layers"})) return;
    const auto& ratios = c_.compress_ratios;
    const std::int64_t expected = std::int64_t(c_.n_layers) + c_.n_mtp_layers;
    expect(std::ssize(ratios) == expected,
           "compress_ratios has {} entries, expected {} ({} layers + {} draft)", ratios.size(), expected,
           c_.n_layers, c_.n_mtp_layers);
    expect(std::ranges::any_of(ratios, [](int r) { return r != 0; }), "compress_ratios are all zero");
    for (std::size_t l = 0; l < ratios.size(); ++l) {
      expect(ratios[l] >= 0, "compress_ratios[{}] is {}, expected at least 0", l, ratios[l]);
      expect(std::int64_t(l) < c_.n_layers || ratios[l] == 0,
             "compress_ratios[{}] is {}, but layer {} is a draft layer, which compresses nothing", l,
             ratios[l], l);
    }
  }

  void check_ascending(std::string_view key, const std::vector<int>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (known({"n_layers"}))
        expect(in_backbone(layers[i]), "{} names layer {}, outside the {} layers of the backbone", key,
               layers[i], c_.n_layers);
      if (i > 0)
        expect(layers[i - 1] < layers[i], "{} is not ascending: {} after {}", key, layers[i], layers[i - 1]);
    }
  }

  void check_sources(std::string_view key, const std::vector<int>& layers) {
    if (!known({key, "compress_ratios"})) return;
    expect(!layers.empty(), "{} is empty", key);
    check_ascending(key, layers);
    for (const int l : layers)
      expect(!in_backbone(l) || ratio(l) > 0, "{} names layer {}, whose compress ratio is 0", key, l);
  }

  void check_readers() {
    if (!known({"compress_ratios", "n_layers", "kv_source_layers", "index_source_layers"})) return;
    for (const int l : c_.kv_source_layers)
      expect(std::ranges::find(c_.index_source_layers, l) != c_.index_source_layers.end(),
             "layer {} is a KV source but no index source", l);
    for (int l = 0; l < std::min(c_.n_layers, static_cast<int>(c_.compress_ratios.size())); ++l) {
      if (ratio(l) <= 0) continue;
      check_reader(l, "KV", c_.kv_source(l));
      check_reader(l, "index", c_.index_source(l));
    }
  }
  void check_reader(int layer, std::string_view kind, int source) {
    expect(source >= 0, "layer {} reads compressed positions but has no {} source at or before it", layer,
           kind);
    if (source >= 0)
      expect(ratio(source) == ratio(layer),
             "layer {} has ratio {}, but its {} source, layer {}, has ratio {}", layer, ratio(layer), kind,
             source, ratio(source));
  }

  void check_candidates() {
    if (known({"candidate_source_layer", "index_source_layers"}))
      expect(std::ranges::find(c_.index_source_layers, c_.candidate_source_layer) !=
                 c_.index_source_layers.end(),
             "candidate_source_layer {} is no index source", c_.candidate_source_layer);
  }

  void check_experts() {
    constexpr std::array<std::string_view, 3> functions = {"softmax", "sigmoid", "sqrtsoftplus"};
    if (known({"n_activated_experts", "n_routed_experts"}))
      expect(c_.n_activated_experts <= c_.n_routed_experts,
             "n_activated_experts {} exceeds n_routed_experts {}", c_.n_activated_experts,
             c_.n_routed_experts);
    if (known({"score_func"}))
      expect(std::ranges::find(functions, c_.score_func) != functions.end(),
             "score_func is '{}', expected one of {}", c_.score_func, fmt::join(functions, ", "));
    if (known({"dtype"}))
      expect(c_.dtype == "fp8", "dtype is '{}'; dense weights are read as fp8 only", c_.dtype);
    if (known({"expert_dtype"}))
      expect(c_.expert_dtype == "fp4", "expert_dtype is '{}'; experts are read as fp4 only", c_.expert_dtype);
  }

  void check_engram() {
    if (!c_.has_engram()) return;
    check_ascending("engram_layer_ids", c_.engram_layer_ids);
    if (known({"engram_num_embeddings"})) {
      expect(c_.engram_num_embeddings.size() == c_.engram_layer_ids.size(),
             "engram_num_embeddings has {} entries for {} Engram layers", c_.engram_num_embeddings.size(),
             c_.engram_layer_ids.size());
      for (const std::int64_t rows : c_.engram_num_embeddings)
        expect(rows > 0, "engram_num_embeddings holds {}, expected rows", rows);
    }
    if (known({"engram_max_ngram_size"}))
      expect(c_.engram_max_ngram_size >= 2, "engram_max_ngram_size is {}, expected at least 2",
             c_.engram_max_ngram_size);
    if (known({"engram_compressed_vocab_size", "vocab_size"}))
      expect(c_.engram_compressed_vocab_size <= c_.vocab_size,
             "engram_compressed_vocab_size {} exceeds vocab_size {}", c_.engram_compressed_vocab_size,
             c_.vocab_size);
    if (known({"engram_pad_id", "pad_token_id"}))
      expect(c_.engram_pad_id == *c_.pad_token_id, "engram_pad_id {} is not the tokenizer's pad id {}",
             c_.engram_pad_id, *c_.pad_token_id);
  }

  void check_drafts() {
    if (!c_.has_dspark()) return;
    if (known({"dspark_target_layer_ids"})) {
      expect(!c_.dspark_target_layer_ids.empty(), "dspark_target_layer_ids is empty");
      check_ascending("dspark_target_layer_ids", c_.dspark_target_layer_ids);
    }
    if (known({"dspark_n_activated_experts", "dspark_n_routed_experts"}))
      expect(c_.dspark_n_activated_experts <= c_.dspark_n_routed_experts,
             "dspark_n_activated_experts {} exceeds dspark_n_routed_experts {}",
             c_.dspark_n_activated_experts, c_.dspark_n_routed_experts);
  }

  void check_vision() {
    if (!c_.has_vision()) return;
    if (known({"vision_dim", "vision_n_heads"}) && c_.vision_n_heads > 0) {
      const int head = c_.vision_dim / c_.vision_n_heads;
      expect(c_.vision_dim % c_.vision_n_heads == 0, "vision_dim {} is no multiple of vision_n_heads {}",
             c_.vision_dim, c_.vision_n_heads);
      expect(head % 4 == 0,
             "vision heads of {} cannot rotate by row and by column (expected a multiple of 4)", head);
    }
    if (known({"vision_patch_size"}))
      expect(c_.vision_patch_size % 2 == 0, "vision_patch_size {} is odd", c_.vision_patch_size);
    expect(!c_.vision_max_wh_ratio || *c_.vision_max_wh_ratio > 0,
           "vision_max_wh_ratio is {}, expected more than 0", c_.vision_max_wh_ratio.value_or(1));
  }

  void check_token_ids() {
    if (!known({"vocab_size"})) return;
    const auto inside = [this](std::string_view key, std::optional<int> id) {
      if (id && known({key}))
        expect(*id >= 0 && *id < c_.vocab_size, "{} {} is outside the vocabulary of {}", key, *id,
               c_.vocab_size);
    };
    inside("bos_token_id", c_.bos_token_id);
    inside("eos_token_id", c_.eos_token_id);
    inside("pad_token_id", c_.pad_token_id);
    inside("image_token_id", c_.image_token_id);
    inside("engram_pad_id", c_.engram_pad_id);
    inside("dspark_noise_token_id", c_.dspark_noise_token_id);
  }

  void check_nested_facts() {
    const auto only = [this](std::string_view key, const auto& found, const auto& supported) {
      if (found)
        expect(*found == supported, "{} is {}, but this model is defined for {} only", key, *found,
               supported);
    };
    only("num_key_value_heads", c_.num_key_value_heads, 1);
    only("hidden_act", c_.hidden_act, "silu");
    only("topk_method", c_.topk_method, "noaux_tc");
    only("norm_topk_prob", c_.norm_topk_prob, true);
    only("tie_word_embeddings", c_.tie_word_embeddings, false);
    only("param_dtype", c_.param_dtype, "bfloat16");
  }

  const ModelConfig& c_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> ModelConfig::verify() const {
  return Verifier(*this).run();
}

}  // namespace dsv
