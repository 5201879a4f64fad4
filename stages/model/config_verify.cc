// What the keys of one config must have to do with each other.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>

#include "stages/model/config_schema.h"

namespace dsv {

namespace {

/// Whole numbers up to here are exact in single precision, and no product of two of them overflows.
constexpr int kLargest = 1 << 24;

/// What a whole number may be, where that is not 1 to kLargest.
struct Range {
  std::string_view key;
  int least, most;
};
constexpr std::array kRanges = {
    Range{"candidate_source_layer", 0, kLargest},
    Range{"n_shared_experts", 0, kLargest},
    Range{"n_mtp_layers", 0, kLargest},
    Range{"dspark_noise_token_id", 0, kLargest},
    Range{"vision_n_layers", 0, kLargest},
    Range{"image_token_id", 0, kLargest},
    Range{"engram_pad_id", 0, kLargest},
    Range{"original_seq_len", 0, kLargest},
    Range{"vision_min_pixels", 0, kLargest},
    Range{"engram_max_ngram_size", 2, kLargest},
    Range{"engram_vocab_size", 1, std::numeric_limits<int>::max()},
    Range{"hc_sinkhorn_iters", 1, 1000},  // the sums agree after a few dozen
};

std::string shown(const std::string& value) {
  constexpr std::size_t kMostShown = 60;
  return fmt::format("{:?}{}", value.substr(0, kMostShown), value.size() > kMostShown ? "..." : "");
}
std::string shown(bool value) {
  return value ? "true" : "false";
}
std::string shown(int value) {
  return std::to_string(value);
}

/// Collects problems. A relation is judged only where every key it reads was in the file, and none where a
/// number is out of range: that is one mistake, whatever follows from it.
class Verifier {
 public:
  explicit Verifier(const ModelConfig& config) : c_(config) {}

  std::vector<ConfigProblem> run() {
    check_whole_numbers();
    check_floating_numbers();
    if (problems_.empty()) check_relations();
    return std::move(problems_);
  }

 private:
  void check_relations() {
    check_positions();
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
  }

  /// Unless it holds, reports what is said about `key`, whose name is put in front.
  template <class... Args>
  void expect(bool holds, std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    if (holds) return;
    const auto at = c_.places.find(key);
    problems_.push_back({at == c_.places.end() ? "" : at->second,
                         name(key) + " " + fmt::format(format, std::forward<Args>(args)...)});
  }
  /// A key as this file spells it.
  std::string name(std::string_view key) const {
    const auto field = std::ranges::find(config_fields(), key, &ConfigField::flat);
    return std::string(spelled(*field, c_.layout));
  }
  bool known(std::initializer_list<std::string_view> keys) const {
    return std::ranges::all_of(keys, [this](std::string_view key) { return c_.has(key); });
  }
  bool in_use(ConfigGroup group) const {
    return group == ConfigGroup::Engram   ? c_.has_engram()
           : group == ConfigGroup::DSpark ? c_.n_mtp_layers != 0
           : group == ConfigGroup::Vision ? c_.vision_n_layers != 0
                                          : true;
  }
  bool in_backbone(int layer) const { return layer >= 0 && layer < c_.n_layers; }
  int ratio(int layer) const {
    return layer >= 0 && layer < static_cast<int>(c_.compress_ratios.size())
               ? c_.compress_ratios[static_cast<std::size_t>(layer)]
               : 0;
  }

  void check_whole_numbers() {
    for (const ConfigField& field : config_fields()) {
      const auto* member = std::get_if<int ModelConfig::*>(&field.member);
      if (member != nullptr && c_.has(field.flat) && in_use(field.group))
        check_range(field.flat, c_.*(*member));
    }
    if (c_.max_position_embeddings) check_range("max_position_embeddings", *c_.max_position_embeddings);
  }
  void check_range(std::string_view key, int value) {
    const auto stated = std::ranges::find(kRanges, key, &Range::key);
    const Range range = stated == kRanges.end() ? Range{key, 1, kLargest} : *stated;
    expect(value >= range.least, key, "is {}, expected at least {}", value, range.least);
    expect(value <= range.most, key, "is {}, expected at most {}", value, range.most);
  }

  void check_floating_numbers() {
    for (const auto& [key, value] :
         {std::pair{"norm_eps", c_.norm_eps}, {"hc_eps", c_.hc_eps}, {"swiglu_limit", c_.swiglu_limit}}) {
      expect(value >= 0, key, "is {}, expected at least 0", value);
      check_fits(key, value);
    }
    check_more_than(1, "rope_theta", c_.rope_theta);
    check_more_than(1, "compress_rope_theta", c_.compress_rope_theta);
    check_more_than(0, "rope_factor", c_.rope_factor);
    check_more_than(0, "beta_slow", c_.beta_slow);
    check_more_than(0, "beta_fast", c_.beta_fast);
    check_more_than(0, "route_scale", c_.route_scale);
    expect(c_.rope_factor <= kLargest, "rope_factor", "is {}, expected at most {}", c_.rope_factor, kLargest);
  }
  void check_more_than(double bound, std::string_view key, double value) {
    expect(!c_.has(key) || value > bound, key, "is {}, expected more than {}", value, bound);
    check_fits(key, value);
  }
  void check_fits(std::string_view key, double value) {
    expect(value <= std::numeric_limits<float>::max(), key, "is {}, too large for single precision", value);
  }

  void check_positions() {
    if (known({"beta_fast", "beta_slow"}))
      expect(c_.beta_fast >= c_.beta_slow, "beta_fast", "{} is less than {} {}", c_.beta_fast,
             name("beta_slow"), c_.beta_slow);
    const bool stated = known({"max_position_embeddings"});
    if (!stated && !known({"original_seq_len", "rope_factor"})) return;
    const std::int64_t length = c_.context_length();
    expect(length <= kLargest, "original_seq_len",
           "{} times {} {} is a context of {} tokens, expected at most {}", c_.original_seq_len,
           name("rope_factor"), c_.rope_factor, length, kLargest);
    if (known({"window_size"}))
      expect(c_.window_size <= length, "window_size", "{} exceeds the context of {} tokens", c_.window_size,
             length);
  }

  void check_attention() {
    if (known({"n_heads", "o_groups"}))
      expect(c_.n_heads % c_.o_groups == 0, "n_heads", "{} is no multiple of {} {}", c_.n_heads,
             name("o_groups"), c_.o_groups);
    if (!known({"rope_head_dim"})) return;
    expect(c_.rope_head_dim % 2 == 0, "rope_head_dim", "{} is odd", c_.rope_head_dim);
    if (known({"head_dim"})) check_at_most("rope_head_dim", c_.rope_head_dim, "head_dim", c_.head_dim);
    if (known({"index_head_dim"}))
      check_at_most("rope_head_dim", c_.rope_head_dim, "index_head_dim", c_.index_head_dim);
  }
  void check_at_most(std::string_view key, int value, std::string_view limit_key, int limit) {
    expect(value <= limit, key, "{} exceeds {} {}", value, name(limit_key), limit);
  }

  void check_ratios() {
    if (!known({"compress_ratios", "n_layers"})) return;
    constexpr std::string_view key = "compress_ratios";
    const auto& ratios = c_.compress_ratios;
    const std::int64_t expected = std::int64_t(c_.n_layers) + c_.n_mtp_layers;
    expect(std::ssize(ratios) == expected, key, "has {} entries, expected {} ({} layers + {} draft)",
           ratios.size(), expected, c_.n_layers, c_.n_mtp_layers);
    expect(std::ranges::any_of(ratios, [](int r) { return r != 0; }), key, "holds nothing but zeros");
    for (std::size_t l = 0; l < ratios.size(); ++l) {
      expect(ratios[l] >= 0, key, "has {} for layer {}, expected at least 0", ratios[l], l);
      expect(std::int64_t(l) < c_.n_layers || ratios[l] == 0, key,
             "has {} for layer {}, a draft layer, which compresses nothing", ratios[l], l);
    }
  }

  void check_ascending(std::string_view key, const std::vector<int>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (known({"n_layers"}))
        expect(in_backbone(layers[i]), key, "names layer {}, outside the {} layers of the backbone",
               layers[i], c_.n_layers);
      if (i > 0)
        expect(layers[i - 1] < layers[i], key, "is not ascending: {} after {}", layers[i], layers[i - 1]);
    }
  }

  void check_sources(std::string_view key, const std::vector<int>& layers) {
    if (!known({key, "compress_ratios"})) return;
    expect(!layers.empty(), key, "is empty");
    check_ascending(key, layers);
    for (const int l : layers)
      expect(!in_backbone(l) || ratio(l) > 0, key, "names layer {}, whose compress ratio is 0", l);
  }

  void check_readers() {
    if (!known({"compress_ratios", "n_layers", "kv_source_layers", "index_source_layers"})) return;
    for (const int l : c_.kv_source_layers)
      expect(std::ranges::find(c_.index_source_layers, l) != c_.index_source_layers.end(), "kv_source_layers",
             "names layer {}, which is not in {}", l, name("index_source_layers"));
    for (int l = 0; l < std::min(c_.n_layers, static_cast<int>(c_.compress_ratios.size())); ++l) {
      if (ratio(l) <= 0) continue;
      check_reader(l, "kv_source_layers", c_.kv_source(l));
      check_reader(l, "index_source_layers", c_.index_source(l));
    }
  }
  void check_reader(int layer, std::string_view sources, int source) {
    expect(source >= 0, sources, "has no layer at or before layer {}, which reads compressed positions",
           layer);
    if (source >= 0)
      expect(ratio(source) == ratio(layer), "compress_ratios",
             "has {} for layer {}, but {} for layer {}, its source in {}", ratio(layer), layer, ratio(source),
             source, name(sources));
  }

  void check_candidates() {
    if (known({"candidate_source_layer", "index_source_layers"}))
      expect(std::ranges::find(c_.index_source_layers, c_.candidate_source_layer) !=
                 c_.index_source_layers.end(),
             "candidate_source_layer", "{} is no index source", c_.candidate_source_layer);
  }

  void check_experts() {
    constexpr std::array<std::string_view, 3> functions = {"softmax", "sigmoid", "sqrtsoftplus"};
    if (known({"n_activated_experts", "n_routed_experts"}))
      check_at_most("n_activated_experts", c_.n_activated_experts, "n_routed_experts", c_.n_routed_experts);
    if (known({"score_func"}))
      expect(std::ranges::find(functions, c_.score_func) != functions.end(), "score_func",
             "is {}, expected one of {}", shown(c_.score_func), fmt::join(functions, ", "));
    if (known({"dtype"}))
      expect(c_.dtype == "fp8", "dtype", "is {}; dense weights are read as fp8 only", shown(c_.dtype));
    if (known({"expert_dtype"}))
      expect(c_.expert_dtype == "fp4", "expert_dtype", "is {}; experts are read as fp4 only",
             shown(c_.expert_dtype));
  }

  void check_engram() {
    if (known({"engram_num_embeddings", "engram_layer_ids"}))
      expect(c_.engram_num_embeddings.size() == c_.engram_layer_ids.size(), "engram_num_embeddings",
             "has {} entries, but {} has {}", c_.engram_num_embeddings.size(), name("engram_layer_ids"),
             c_.engram_layer_ids.size());
    if (!c_.has_engram()) return;
    check_ascending("engram_layer_ids", c_.engram_layer_ids);
    if (known({"engram_num_embeddings"}))
      for (const std::int64_t rows : c_.engram_num_embeddings)
        expect(rows > 0, "engram_num_embeddings", "holds {}, expected rows", rows);
    if (known({"engram_compressed_vocab_size", "vocab_size"}))
      check_at_most("engram_compressed_vocab_size", c_.engram_compressed_vocab_size, "vocab_size",
                    c_.vocab_size);
    if (known({"engram_pad_id", "pad_token_id"}))
      expect(c_.engram_pad_id == *c_.pad_token_id, "engram_pad_id", "{} is not the tokenizer's pad id {}",
             c_.engram_pad_id, *c_.pad_token_id);
  }

  void check_drafts() {
    if (known({"dspark_target_layer_ids", "n_mtp_layers"}))
      expect(c_.dspark_target_layer_ids.empty() != c_.has_dspark(), "dspark_target_layer_ids",
             "has {} entries, but there are {} draft layers ({})", c_.dspark_target_layer_ids.size(),
             c_.n_mtp_layers, name("n_mtp_layers"));
    if (!c_.has_dspark()) return;
    check_ascending("dspark_target_layer_ids", c_.dspark_target_layer_ids);
    if (known({"dspark_n_activated_experts", "dspark_n_routed_experts"}))
      check_at_most("dspark_n_activated_experts", c_.dspark_n_activated_experts, "dspark_n_routed_experts",
                    c_.dspark_n_routed_experts);
  }

  void check_vision() {
    if (!c_.has_vision()) return;
    if (known({"vision_dim", "vision_n_heads"})) {
      const int heads = c_.vision_n_heads, head = c_.vision_dim / heads;
      expect(c_.vision_dim % heads == 0, "vision_dim", "{} is no multiple of {} {}", c_.vision_dim,
             name("vision_n_heads"), heads);
      expect(c_.vision_dim % heads != 0 || head % 4 == 0, "vision_dim",
             "{} makes heads of {}, which cannot rotate by row and by column (expected a multiple of 4)",
             c_.vision_dim, head);
    }
    if (known({"vision_patch_size"}))
      expect(c_.vision_patch_size % 2 == 0, "vision_patch_size", "{} is odd", c_.vision_patch_size);
    expect(!c_.vision_max_wh_ratio || *c_.vision_max_wh_ratio > 0, "vision_max_wh_ratio",
           "is {}, expected more than 0", c_.vision_max_wh_ratio.value_or(1));
  }

  void check_token_ids() {
    if (!known({"vocab_size"})) return;
    const auto inside = [this](std::string_view key, std::optional<int> id) {
      if (id && known({key}))
        expect(*id >= 0 && *id < c_.vocab_size, key, "{} is outside the vocabulary of {}", *id,
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
    const auto only = [this]<class T>(std::string_view key, const std::optional<T>& found,
                                      const T& supported) {
      if (found)
        expect(*found == supported, key, "is {}, but this model is defined for {} only", shown(*found),
               shown(supported));
    };
    only("num_key_value_heads", c_.num_key_value_heads, 1);
    only("hidden_act", c_.hidden_act, std::string("silu"));
    only("topk_method", c_.topk_method, std::string("noaux_tc"));
    only("norm_topk_prob", c_.norm_topk_prob, true);
    only("tie_word_embeddings", c_.tie_word_embeddings, false);
    only("param_dtype", c_.param_dtype, std::string("bfloat16"));
  }

  const ModelConfig& c_;
  std::vector<ConfigProblem> problems_;
};

}  // namespace

std::vector<ConfigProblem> ModelConfig::verify() const {
  return Verifier(*this).run();
}

}  // namespace dsv
