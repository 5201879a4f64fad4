// Op: the second half of an expert, y = bf16(w2 . act_quant(hidden)).
#pragma once

#include "cuda/experts.h"

namespace dsv::cuda {

struct Down {
  static constexpr const char* kName = "down";
  ExpertGroup group;
  const Digits* hidden = nullptr;  // [pairs, inter / 32]
  bf16* y = nullptr;               // [pairs, dim]
  int dim = 0, inter = 0;

  DSV_HOST_DEVICE int output_rows() const { return dim; }
};

template <int kTokens>
struct DownTile : Fp4Tile<1, kTokens> {
  using Base = Fp4Tile<1, kTokens>;
  int first_pair = 0, pairs = 0;

  DSV_HOST_DEVICE DownTile(const Down& op, const ExpertRows& expert, int first_row, int token_tile) {
    this->weights[0] = expert.w2;
    this->rows = op.dim;
    this->blocks = op.inter / kBlock;
    this->first = first_row;
    first_pair = expert.first + token_tile * kTokens;
    pairs = expert.count - token_tile * kTokens;
    for (int t = 0; t < kTokens; ++t) {
      this->x[t] = op.hidden + std::int64_t{first_pair + (t < pairs ? t : 0)} * this->blocks;
    }
  }

  DSV_HOST_DEVICE void finish(const Down& op, int lane, const typename Base::Scratch& scratch) const {
    for (int i = lane; i < Base::kOutputs; i += kLanes) {
      const int r = i / kTokens, t = i % kTokens, row = this->first + r;
      if (row >= op.dim || t >= pairs) continue;
      op.y[std::int64_t{first_pair + t} * op.dim + row] = Base::result(scratch, 0, r, t);
    }
  }
};

}  // namespace dsv::cuda
