#include "stages/audit/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dsv {

namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t blocks(std::int64_t size, std::int64_t block) {
  return (size + block - 1) / block;
}

/// Lists tensors in order; state: the layer, family and shard that the next ones belong to.
class Lister {
 public:
  Lister(const ModelConfig& config, std::array<int, 2> block) : c_(config), block_(block) {}

  std::vector<ExpectedTensor> run() {
    if (c_.has_vision()) shard([&] { vision(); });
    shard([&] { embedding(); });
    for (int l = 0; l < c_.n_layers; ++l) shard([&] { backbone_layer(l); });
    shard([&] { head(); });
    for (int i = 0; i < c_.n_mtp_layers; ++i) shard([&] { draft_layer(i); });
    for (std::size_t slot = 0; slot < c_.engram_layer_ids.size(); ++slot) shard([&] { engram(slot); });
    return std::move(tensors_);
  }

 private:
  template <class Body>
  void shard(Body body) {
    layer_ = -1;
    family_ = Family::Plain;
    prefix_.clear();
    body();
    ++shard_;
  }
  void add(std::string_view name, DType dtype, Shape shape) {
    tensors_.push_back({prefix_ + std::string(name), dtype, std::move(shape), family_, layer_, shard_});
  }
  void bf16(std::string_view name, Shape shape) { add(name, DType::BF16, std::move(shape)); }
  void f32(std::string_view name, Shape shape) { add(name, DType::F32, std::move(shape)); }
  void fp8(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", DType::F8_E4M3, {out, in});
    add(name + ".scale", DType::F8_E8M0, {blocks(out, block_[0]), blocks(in, block_[1])});
  }
  void fp4(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", DType::I8, {out, in / 2});
    add(name + ".scale", DType::F8_E8M0, {out, blocks(in, kRowBlock)});
  }

  void vision() {
    const std::int64_t v = c_.vision_dim, inter = c_.vision_inter_dim, down = c_.vision_downsample_ratio;
    const std::int64_t patch = std::int64_t(3) * c_.vision_patch_size * c_.vision_patch_size;
    family_ = Family::Vision;
    bf16("vision.patch_embed.proj.weight", {v, patch});
    bf16("vision.patch_embed.proj.bias", {v});
    for (int i = 0; i < c_.vision_n_layers; ++i) {
      const std::string block = fmt::format("vision.blocks.{}.", i);
      bf16(block + "norm1.weight", {v});
      bf16(block + "attn.wqkv.weight", {3 * v, v});
      bf16(block + "attn.wqkv.bias", {3 * v});
      bf16(block + "attn.wo.weight", {v, v});
      bf16(block + "attn.wo.bias", {v});
      bf16(block + "norm2.weight", {v});
      bf16(block + "mlp.w1.weight", {2 * inter, v});
      bf16(block + "mlp.w2.weight", {v, inter});
    }
    bf16("vision.norm.weight", {v});
    bf16("aligner.w1.weight", {c_.dim, v * down * down});
    bf16("aligner.w1.bias", {c_.dim});
    bf16("aligner.w2.weight", {c_.dim, c_.dim});
    bf16("aligner.w2.bias", {c_.dim});
  }

  void embedding() {
    bf16("embed.weight", {c_.vocab_size, c_.dim});
    if (!c_.has_vision()) return;
    family_ = Family::Vision;
    for (const char* name : {"image_start", "image_newline", "image_end"}) bf16(name, {c_.dim});
  }

  void head() {
    bf16("head.weight", {c_.vocab_size, c_.dim});
    bf16("norm.weight", {c_.dim});
  }

  void backbone_layer(int l) {
    begin_layer(l);
    plain_layer(c_.n_routed_experts);
    family_ = Family::Compression;
    const LayerRole role = c_.role(l);
    if (role == LayerRole::Full) {
      bf16("attn.compressor.wkv.weight", {c_.head_dim, c_.dim});
      bf16("attn.compressor.norm.weight", {c_.head_dim});
      if (c_.compress_ratios[static_cast<std::size_t>(l)] > 1)
        bf16("attn.compressor.wgate.weight", {c_.head_dim, c_.dim});
      bf16("attn.indexer.wk.weight", {c_.index_head_dim, c_.head_dim});
      bf16("attn.indexer.k_norm.weight", {c_.index_head_dim});
    }
    if (role == LayerRole::Full || role == LayerRole::Reindex) {
      fp8("attn.indexer.wq_b", std::int64_t(c_.index_n_heads) * c_.index_head_dim, c_.q_lora_rank);
      bf16("attn.indexer.weights_proj.weight", {c_.index_n_heads, c_.dim});
    }
  }

  void draft_layer(int i) {
    begin_layer(c_.n_layers + i);
    plain_layer(c_.dspark_n_routed_experts);
    if (i == 0) {
      family_ = Family::DraftProjection;
      fp8("main_proj", c_.dim, std::int64_t(c_.n_mtp_layers) * c_.dim);
      bf16("main_norm.weight", {c_.dim});
    }
    if (i + 1 == c_.n_mtp_layers) {
      family_ = Family::DraftHead;
      bf16("markov_head.embed.weight", {c_.vocab_size, c_.dspark_markov_rank});
      bf16("markov_head.head.weight", {c_.vocab_size, c_.dspark_markov_rank});
      bf16("confidence_head.proj.weight", {1, std::int64_t(c_.dim) + c_.dspark_markov_rank});
      bf16("norm.weight", {c_.dim});
    }
  }

  void begin_layer(int layer) {
    layer_ = layer;
    prefix_ = layer_prefix(c_, layer) + ".";
  }

  /// What backbone and draft layers have in common.
  void plain_layer(int experts) {
    const std::int64_t dim = c_.dim, q_width = std::int64_t(c_.n_heads) * c_.head_dim;
    const std::int64_t o_width = std::int64_t(c_.o_groups) * c_.o_lora_rank;
    fp8("attn.wq_a", c_.q_lora_rank, dim);
    bf16("attn.q_norm.weight", {c_.q_lora_rank});
    fp8("attn.wq_b", q_width, c_.q_lora_rank);
    fp8("attn.wkv", c_.head_dim, dim);
    bf16("attn.kv_norm.weight", {c_.head_dim});
    fp8("attn.wo_a", o_width, q_width / std::max(c_.o_groups, 1));
    fp8("attn.wo_b", dim, o_width);
    f32("attn.attn_sink", {c_.n_heads});
    bf16("attn_norm.weight", {dim});
    bf16("ffn_norm.weight", {dim});
    feed_forward(experts);
    const std::int64_t mixes = std::int64_t(c_.hc_mult) * (2 + c_.hc_mult);
    for (const char* hc : {"hc_attn_", "hc_ffn_"}) {
      f32(std::string(hc) + "fn", {mixes, c_.hc_mult * dim});
      f32(std::string(hc) + "base", {mixes});
      f32(std::string(hc) + "scale", {3});
    }
  }

  void feed_forward(int experts) {
    const std::int64_t dim = c_.dim, inter = c_.moe_inter_dim;
    bf16("ffn.gate.weight", {experts, dim});
    f32("ffn.gate.bias", {experts});
    f32("ffn.gate.bias_vl", {experts});
    if (const std::int64_t shared = inter * c_.n_shared_experts; shared > 0) {
      fp8("ffn.shared_experts.w1", shared, dim);
      fp8("ffn.shared_experts.w2", dim, shared);
      fp8("ffn.shared_experts.w3", shared, dim);
    }
    const Family around = std::exchange(family_, Family::Expert);
    for (int e = 0; e < experts; ++e) {
      const std::string expert = fmt::format("ffn.experts.{}.", e);
      fp4(expert + "w1", inter, dim);
      fp4(expert + "w2", dim, inter);
      fp4(expert + "w3", inter, dim);
    }
    family_ = around;
  }

  void engram(std::size_t slot) {
    layer_ = c_.engram_layer_ids[slot];
    prefix_ = fmt::format("layers.{}.", layer_);
    const std::int64_t rows = slot < c_.engram_num_embeddings.size() ? c_.engram_num_embeddings[slot] : 0;
    const std::int64_t width = c_.engram_head_dim;
    const std::int64_t columns = std::int64_t(c_.engram_max_ngram_size - 1) * c_.engram_n_heads;
    family_ = Family::EngramTable;
    add("engram.embed.weight", DType::F8_E4M3, {rows, width});
    add("engram.embed.scale", DType::F8_E8M0, {rows, blocks(width, kRowBlock)});
    family_ = Family::EngramGate;
    fp8("engram.wkv", (c_.hc_mult + std::int64_t(1)) * c_.dim, columns * width);
    bf16("engram.q_weight", {c_.hc_mult, c_.dim});
    bf16("engram.k_weight", {c_.hc_mult, c_.dim});
  }

  const ModelConfig& c_;
  const std::array<int, 2> block_;
  std::vector<ExpectedTensor> tensors_;
  Family family_ = Family::Plain;
  int layer_ = -1, shard_ = 0;
  std::string prefix_;
};

}  // namespace

std::string layer_prefix(const ModelConfig& config, int layer) {
  return layer < config.n_layers ? fmt::format("layers.{}", layer)
                                 : fmt::format("mtp.{}", layer - config.n_layers);
}

flow::Result<std::vector<ExpectedTensor>> expected_tensors(const ModelConfig& config,
                                                           std::array<int, 2> block) {
  // As double: no product of the config's numbers can overflow it.
  const double layer = 50.0, expert = 6.0;
  const double count = config.n_layers * (layer + expert * config.n_routed_experts) +
                       config.n_mtp_layers * (layer + expert * config.dspark_n_routed_experts) +
                       8.0 * config.vision_n_layers +
                       6.0 * static_cast<double>(config.engram_layer_ids.size());
  if (count > kMaxTensors)
    return flow::errorf("{}: calls for about {:.0f} tensors, more than the {} that a checkpoint may have",
                        config.path.string(), count, kMaxTensors);
  return Lister(config, block).run();
}

std::string_view category_name(Category category) {
  switch (category) {
    case Category::RoutedExperts:
      return "routed experts";
    case Category::Engram:
      return "Engram";
    case Category::Attention:
      return "attention";
    case Category::EmbeddingAndHead:
      return "embedding and head";
    case Category::SharedExperts:
      return "shared experts";
    case Category::Vision:
      return "vision and aligner";
    case Category::Draft:
      return "draft layers";
    case Category::GatesAndMixing:
      return "gates, norms, hyper-connections";
    case Category::Other:
      return "other";
  }
  return "other";
}

Category category_of(std::string_view tensor) {
  const auto starts = [&](std::string_view with) { return tensor.starts_with(with); };
  const bool layer = starts("layers."), draft = starts("mtp.");
  if (layer || draft) {
    tensor.remove_prefix(tensor.find('.') + 1);
    tensor.remove_prefix(std::min(tensor.find('.'), tensor.size() - 1) + 1);
    if (starts("ffn.experts.")) return Category::RoutedExperts;
    if (draft) return Category::Draft;
    if (starts("engram.")) return Category::Engram;
    if (starts("ffn.shared_experts.")) return Category::SharedExperts;
    if (starts("attn")) return Category::Attention;  // with the norm before it
    return starts("ffn") || starts("hc_") ? Category::GatesAndMixing : Category::Other;
  }
  if (starts("vision.") || starts("aligner.") || starts("image_")) return Category::Vision;
  const bool ends = tensor == "embed.weight" || tensor == "head.weight" || tensor == "norm.weight";
  return ends ? Category::EmbeddingAndHead : Category::Other;
}

}  // namespace dsv
