#include "stages/model/kv_cache.h"

#include <algorithm>

namespace dsv {
namespace {

constexpr std::int64_t kWindowGroup = 32, kCompressedGroup = 16, kIndexGroup = 32;

LayerCache empty_layer(const ModelConfig& config, int layer) {
  LayerCache cache;
  cache.window = QuantizedRows(config.head_dim, config.head_dim / kWindowGroup);
  cache.window.resize(config.window_size);
  if (config.role(layer) == LayerRole::Full) {
    cache.compressed = QuantizedRows(config.head_dim / 2, config.head_dim / kCompressedGroup);
    cache.index_keys = QuantizedRows(config.index_head_dim / 2, config.index_head_dim / kIndexGroup);
  }
  return cache;
}

}  // namespace

void QuantizedRows::resize(std::int64_t rows) {
  size_ = rows;
  codes_.resize(static_cast<std::size_t>(rows * code_bytes_));
  scales_.resize(static_cast<std::size_t>(rows * scale_bytes_));
}

void QuantizedRows::reserve(std::int64_t rows) {
  codes_.reserve(static_cast<std::size_t>(rows * code_bytes_));
  scales_.reserve(static_cast<std::size_t>(rows * scale_bytes_));
}

KvCache::KvCache(const ModelConfig& config) {
  for (int layer = 0; layer < config.n_layers; ++layer) layers.push_back(empty_layer(config, layer));
}

void KvCache::reserve(const ModelConfig& config, std::int64_t tokens) {
  for (int layer = 0; layer < config.n_layers; ++layer) {
    if (config.role(layer) != LayerRole::Full) continue;
    LayerCache& cache = layers[static_cast<std::size_t>(layer)];
    const std::int64_t groups = tokens / config.compress_ratios[static_cast<std::size_t>(layer)];
    cache.compressed.reserve(groups);
    cache.index_keys.reserve(groups);
  }
}

std::uint64_t kv_cache_bytes(const ModelConfig& config, std::int64_t tokens) {
  std::int64_t bytes = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const LayerCache cache = empty_layer(config, layer);
    bytes += cache.window.row_bytes() * config.window_size;
    if (config.role(layer) != LayerRole::Full) continue;
    const std::int64_t groups = tokens / config.compress_ratios[static_cast<std::size_t>(layer)];
    bytes += groups * (cache.compressed.row_bytes() + cache.index_keys.row_bytes());
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace dsv
