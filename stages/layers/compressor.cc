#include "stages/layers/compressor.h"

#include <algorithm>
#include <cmath>

#include "stages/model/linear.h"

namespace dsv {
namespace {

/// out[d] = sum over the group of kv * softmax over the group (score), each column for itself.
void pool_group(const float* kv, const float* score, std::int64_t ratio, std::int64_t dim, bf16* out) {
  for (std::int64_t d = 0; d < dim; ++d) {
    float top = score[d];
    for (std::int64_t i = 1; i < ratio; ++i) top = std::max(top, score[i * dim + d]);
    float total = 0;
    for (std::int64_t i = 0; i < ratio; ++i) total += std::exp(score[i * dim + d] - top);
    float sum = 0;
    for (std::int64_t i = 0; i < ratio; ++i)
      sum += kv[i * dim + d] * (std::exp(score[i * dim + d] - top) / total);
    out[d] = bf16(sum);
  }
}

}  // namespace

flow::Status Compressor::open(const Model& model, int layer, const RopeTable& rope) {
  model_ = &model;
  rope_ = &rope;
  const ModelConfig& c = model.config();
  ratio_ = c.compress_ratios[static_cast<std::size_t>(layer)];
  const std::string attn = fmt::format("layers.{}.attn.", layer);
  FLOW_ASSIGN(wkv_, model.bf16_matrix(attn + "compressor.wkv", c.head_dim, c.dim));
  if (ratio_ > 1) {
    FLOW_ASSIGN(wgate_, model.bf16_matrix(attn + "compressor.wgate", c.head_dim, c.dim));
  }
  FLOW_ASSIGN(norm_, model.bf16_vector(attn + "compressor.norm.weight", c.head_dim));
  FLOW_ASSIGN(wk_, model.bf16_matrix(attn + "indexer.wk", c.index_head_dim, c.head_dim));
  FLOW_ASSIGN(k_norm_, model.bf16_vector(attn + "indexer.k_norm.weight", c.index_head_dim));
  return {};
}

std::int64_t Compressor::append(const Rows<bf16>& x, LayerCache& cache) const {
  const Kernels& kernels = model_->kernels();
  Rows<bf16> pooled = ratio_ == 1 ? linear_bf16(kernels, wkv_, x.data(), x.rows()) : pool(x, cache);
  const std::int64_t groups = pooled.rows();
  if (groups > 0) store(rms_norm(kernels, pooled, norm_, model_->config().norm_eps), cache);
  return groups;
}

Rows<bf16> Compressor::pool(const Rows<bf16>& x, LayerCache& cache) const {
  const Rows<float> kv = linear_f32(model_->kernels(), wkv_, x.data(), x.rows());
  const Rows<float> score = linear_f32(model_->kernels(), wgate_, x.data(), x.rows());
  cache.open_kv.insert(cache.open_kv.end(), kv.all().begin(), kv.all().end());
  cache.open_score.insert(cache.open_score.end(), score.all().begin(), score.all().end());

  const std::int64_t dim = kv.cols(), group = ratio_ * dim;
  const std::int64_t groups = static_cast<std::int64_t>(cache.open_kv.size()) / group;
  Rows<bf16> pooled(groups, dim);
  flow::parallel_for(groups, 8, [&](Range range) {
    for (std::int64_t g = range.begin; g < range.end; ++g) {
      pool_group(cache.open_kv.data() + g * group, cache.open_score.data() + g * group, ratio_, dim,
                 pooled.row(g));
    }
  });
  cache.open_kv.erase(cache.open_kv.begin(), cache.open_kv.begin() + groups * group);
  cache.open_score.erase(cache.open_score.begin(), cache.open_score.begin() + groups * group);
  return pooled;
}

void Compressor::store(Rows<bf16> latents, LayerCache& cache) const {
  const Kernels& kernels = model_->kernels();
  const ModelConfig& c = model_->config();
  // The index key is made of the latent before its rotation.
  Rows<bf16> keys = linear_bf16(kernels, wk_, latents.data(), latents.rows());
  keys = rms_norm(kernels, keys, k_norm_, c.norm_eps);
  const std::int64_t first = cache.compressed.size();
  cache.compressed.resize(first + latents.rows());
  cache.index_keys.resize(first + latents.rows());
  for (std::int64_t g = 0; g < latents.rows(); ++g) {
    const std::int64_t row = first + g, position = row * ratio_;
    rope_->apply(keys.row(g) + c.index_head_dim - c.rope_head_dim, position, false);
    kernels.quantize_fp4_e8m0(keys.row(g), c.index_head_dim, cache.index_keys.codes(row),
                              cache.index_keys.scales(row));
    rope_->apply(latents.row(g) + c.head_dim - c.rope_head_dim, position, false);
    kernels.quantize_fp4_e4m3(latents.row(g), c.head_dim, cache.compressed.codes(row),
                              cache.compressed.scales(row));
  }
}

}  // namespace dsv
