// The gated feed-forward network of one expert.
#pragma once

#include "stages/kernels/kernels.h"
#include "stages/model/linear.h"

namespace dsv {

/// y = w2(bf16(weight * silu(g) * u)) with g = w1(x), u = w3(x), both clamped by `limit` when it is positive.
/// x [tokens, dim]; `weights` has one factor for each token, or is null (1). W is Fp8Matrix or Fp4Matrix.
/// Source: reference `Expert`; MODEL "Mixture of experts".
template <class W>
Rows<bf16> expert_mlp(const Kernels& kernels, const W& w1, const W& w2, const W& w3,
                      const QuantizedActivations& x, const float* weights, double limit) {
  const Rows<bf16> g = linear(kernels, w1, x), u = linear(kernels, w3, x);
  Rows<bf16> hidden(g.rows(), g.cols());
  flow::parallel_for(g.rows(), 4, [&](Range tokens) {
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      kernels.swiglu(g.row(t), u.row(t), g.cols(), static_cast<float>(limit), weights ? weights[t] : 1.0f,
                     hidden.row(t));
    }
  });
  return linear(kernels, w2, quantize(kernels, hidden));
}

}  // namespace dsv
