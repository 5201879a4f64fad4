// The compressor of a Full layer: pools groups of tokens into latents, and stores them as compressed KV
// and index keys.
#pragma once

#include "stages/kernels/rope.h"
#include "stages/model/kv_cache.h"
#include "stages/model/model.h"
#include "stages/model/rows.h"
#include "stages/model/touched.h"

namespace dsv {

/// Source: reference `Compressor` and `Indexer` (key side); MODEL "Attention".
class Compressor {
 public:
  /// Binds the weights of `layer`, whose ratio is at least 1.
  flow::Status open(const Model& model, int layer, const RopeTable& rope);

  /// Takes x [tokens, dim] at positions position, position + 1, ..., appends every group that is complete
  /// now to the cache, and keeps the open group there. Returns the number of groups appended.
  std::int64_t append(const Rows<bf16>& x, LayerCache& cache) const;

  std::int64_t weight_bytes() const { return bytes_of(wkv_) + bytes_of(wgate_) + bytes_of(wk_); }

 private:
  Rows<bf16> pool(const Rows<bf16>& x, LayerCache& cache) const;
  void store(Rows<bf16> latents, LayerCache& cache) const;

  const Model* model_ = nullptr;
  const RopeTable* rope_ = nullptr;
  std::int64_t ratio_ = 1;
  Bf16Matrix wkv_, wgate_, wk_;
  const bf16* norm_ = nullptr;
  const bf16* k_norm_ = nullptr;
};

}  // namespace dsv
