// Op: the first half of an expert, hidden = bf16(weight * silu(w1 x) * (w3 x)) with both products rounded to
// bf16 and clamped by `limit`.
#pragma once

#include "cuda/experts.h"

namespace dsv::cuda {

struct GateUp {
  static constexpr const char* kName = "gate_up";
  ExpertGroup group;
  const Digits* x = nullptr;             // [tokens, dim / 32]
  const std::int32_t* tokens = nullptr;  // [pairs]: row of x
  const float* weights = nullptr;        // [pairs]
  bf16* hidden = nullptr;                // [pairs, inter]
  int dim = 0, inter = 0;
  float limit = 0;

  DSV_HOST_DEVICE int output_rows() const { return inter; }
};

template <int kTokens>
struct GateUpTile : Fp4Tile<2, kTokens> {
  using Base = Fp4Tile<2, kTokens>;
  int first_pair = 0, pairs = 0;

  DSV_HOST_DEVICE GateUpTile(const GateUp& op, const ExpertRows& expert, int first_row, int token_tile) {
    this->weights[0] = expert.w1;
    this->weights[1] = expert.w3;
    this->rows = op.inter;
    this->blocks = op.dim / kBlock;
    this->first = first_row;
    first_pair = expert.first + token_tile * kTokens;
    pairs = expert.count - token_tile * kTokens;
    for (int t = 0; t < kTokens; ++t) {
      const std::int64_t token = op.tokens[first_pair + (t < pairs ? t : 0)];
      this->x[t] = op.x + token * this->blocks;
    }
  }

  DSV_HOST_DEVICE void finish(const GateUp& op, int lane, const typename Base::Scratch& scratch) const {
    for (int i = lane; i < Base::kOutputs; i += kLanes) {
      const int r = i / kTokens, t = i % kTokens, row = this->first + r;
      if (row >= op.inter || t >= pairs) continue;
      const std::int64_t pair = first_pair + t;
      op.hidden[pair * op.inter + row] =
          swiglu(Base::result(scratch, 0, r, t), Base::result(scratch, 1, r, t), op.limit, op.weights[pair]);
    }
  }
};

}  // namespace dsv::cuda
