#include "stages/layers/indexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "stages/kernels/candidates.h"
#include "stages/model/linear.h"

namespace dsv {

flow::Status Indexer::open(const Model& model, int layer, const RopeTable& rope) {
  model_ = &model;
  rope_ = &rope;
  layer_ = layer;
  const ModelConfig& c = model.config();
  ratio_ = c.compress_ratios[static_cast<std::size_t>(layer)];
  const std::string indexer = fmt::format("layers.{}.attn.indexer.", layer);
  FLOW_ASSIGN(wq_b_,
              model.fp8(indexer + "wq_b", std::int64_t{c.index_n_heads} * c.index_head_dim, c.q_lora_rank));
  FLOW_ASSIGN(weights_proj_, model.bf16_matrix(indexer + "weights_proj", c.index_n_heads, c.dim));
  return {};
}

Indexer::Queries Indexer::queries(const Rows<bf16>& x, const QuantizedActivations& qr,
                                  std::int64_t position) const {
  const Kernels& kernels = model_->kernels();
  const ModelConfig& c = model_->config();
  Queries out{linear(kernels, wq_b_, qr), linear_bf16(kernels, weights_proj_, x.data(), x.rows())};
  const std::int64_t dim = c.index_head_dim;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)) /
                                        std::sqrt(static_cast<double>(c.index_n_heads)));
  flow::parallel_for(x.rows(), 4, [&](Range tokens) {
    flow::StepVector<std::uint8_t> codes(static_cast<std::size_t>(dim / 2)),
        scales(static_cast<std::size_t>(dim / 32));
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      rope_->apply(out.q.row(t) + dim - c.rope_head_dim, c.index_n_heads, dim, position + t, false);
      for (std::int64_t head = 0; head < c.index_n_heads; ++head) {
        bf16* q = out.q.row(t) + head * dim;
        kernels.quantize_fp4_e8m0(q, dim, codes.data(), scales.data());
        kernels.dequantize_fp4_e8m0(codes.data(), scales.data(), dim, q);
        bf16& w = out.w.row(t)[head];
        w = bf16(static_cast<float>(w) * scale);
      }
    }
  });
  return out;
}

void Indexer::score(const Queries& queries, std::int64_t token, const QuantizedRows& keys, Range range,
                    float* scores) const {
  const ModelConfig& c = model_->config();
  model_->kernels().index_scores(queries.q.row(token), queries.w.row(token), c.index_n_heads,
                                 c.index_head_dim, keys.codes(0), keys.scales(0), range, scores);
}

void Indexer::rank(const Queries& queries, std::int64_t token, std::int64_t visible,
                   const QuantizedRows& keys, const Selection& before, std::int64_t row,
                   Selection& out) const {
  const ModelConfig& c = model_->config();
  flow::StepVector<float> scores(static_cast<std::size_t>(visible), -std::numeric_limits<float>::infinity());
  const bool within_candidates = !before.blocks.empty() && layer_ > c.candidate_source_layer;
  if (within_candidates) {
    for (const std::int64_t block : before.blocks[static_cast<std::size_t>(row)]) {
      const std::int64_t first = block * c.candidate_block_size;
      score(queries, token, keys, {first, std::min(first + c.candidate_block_size, visible)}, scores.data());
    }
  } else {
    flow::parallel_for(visible, 2048,
                       [&](Range range) { score(queries, token, keys, range, scores.data()); });
  }
  const flow::StepVector<std::int32_t> chosen = top_k_positions(scores, c.index_topk);
  std::fill_n(std::copy(chosen.begin(), chosen.end(), out.positions.row(row)),
              out.positions.cols() - static_cast<std::int64_t>(chosen.size()), -1);
  if (layer_ == c.candidate_source_layer) {
    out.blocks[static_cast<std::size_t>(row)] =
        select_candidate_blocks(scores, visible, c.candidate_block_size, c.candidate_topk_blocks);
  }
}

Selection Indexer::begin(std::int64_t tokens, std::int64_t end, const QuantizedRows& keys,
                         const Selection& before) const {
  const ModelConfig& c = model_->config();
  const std::int64_t most = std::min(end / ratio_, keys.size());
  Selection out{layer_, Rows<std::int32_t>(tokens, std::min<std::int64_t>(c.index_topk, most)),
                before.blocks};
  if (layer_ == c.candidate_source_layer) out.blocks.assign(static_cast<std::size_t>(tokens), {});
  return out;
}

void Indexer::select(const Rows<bf16>& x, const QuantizedActivations& qr, std::int64_t position,
                     const QuantizedRows& keys, const Selection& before, std::int64_t first,
                     Selection& out) const {
  const Queries query = queries(x, qr, position);
  flow::parallel_for(x.rows(), 1, [&](Range range) {
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      const std::int64_t visible = std::min((position + t + 1) / ratio_, keys.size());
      rank(query, t, visible, keys, before, first + t, out);
    }
  });
}

Selection all_positions(int layer, std::int64_t position, std::int64_t tokens, std::int64_t ratio,
                        std::int64_t rows) {
  Selection out;
  out.source = layer;
  out.positions = Rows<std::int32_t>(tokens, std::min((position + tokens) / ratio, rows));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t visible = std::min((position + t + 1) / ratio, rows);
    std::int32_t* row = out.positions.row(t);
    std::iota(row, row + visible, 0);
    std::fill(row + visible, row + out.positions.cols(), -1);
  }
  return out;
}

}  // namespace dsv
