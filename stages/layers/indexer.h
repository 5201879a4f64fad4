// The query side of the sparse indexer: ranks compressed positions for each token.
#pragma once

#include "stages/kernels/rope.h"
#include "stages/model/kv_cache.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {

/// What an index source would choose if index_topk were no limit: every visible position of `rows` compressed
/// ones, for tokens at `position`, position + 1, ... of a layer with this ratio.
Selection all_positions(int layer, std::int64_t position, std::int64_t tokens, std::int64_t ratio,
                        std::int64_t rows);

/// Source: reference `Indexer`, `select_candidate_blocks`; MODEL "Attention".
class Indexer {
 public:
  /// Binds the weights of `layer`, an index source.
  flow::Status open(const Model& model, int layer, const RopeTable& rope);

  /// Room for the choice of `tokens` tokens that end before position `end`. `before` is the selection that
  /// earlier layers of the pass made; its candidate blocks limit the ranking of the layers after their
  /// source.
  Selection begin(std::int64_t tokens, std::int64_t end, const QuantizedRows& keys,
                  const Selection& before) const;

  /// Fills rows first, first + 1, ... of `out` for tokens at `position`, position + 1, ...: the index_topk
  /// best visible ones of `keys`. x [tokens, dim]; qr the normalized query latent, quantized.
  void select(const Rows<bf16>& x, const QuantizedActivations& qr, std::int64_t position,
              const QuantizedRows& keys, const Selection& before, std::int64_t first, Selection& out) const;

  std::int64_t weight_bytes() const { return bytes_of(wq_b_) + bytes_of(weights_proj_); }

 private:
  struct Queries {
    Rows<bf16> q;  // [tokens, index_n_heads * index_head_dim], after the fp4 round trip
    Rows<bf16> w;  // [tokens, index_n_heads]
  };
  Queries queries(const Rows<bf16>& x, const QuantizedActivations& qr, std::int64_t position) const;
  void score(const Queries& queries, std::int64_t token, const QuantizedRows& keys, Range range,
             float* scores) const;
  void rank(const Queries& queries, std::int64_t token, std::int64_t visible, const QuantizedRows& keys,
            const Selection& before, std::int64_t row, Selection& out) const;

  const Model* model_ = nullptr;
  const RopeTable* rope_ = nullptr;
  int layer_ = 0;
  std::int64_t ratio_ = 1;
  Fp8Matrix wq_b_;
  Bf16Matrix weights_proj_;
};

}  // namespace dsv
