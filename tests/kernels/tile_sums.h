// The fp8 products of the amx variant in plain C++: the order of sums that kernels.h documents.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "stages/kernels/kernels.h"
#include "tests/kernels/samples.h"

namespace dsv::testing {

/// Subnormal numbers are zeros to a tile.
inline float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

/// sum + w . x for 32 columns, as one tile instruction computes it.
inline float add_block(float sum, const float* w, const float* x) {
  float chain[2] = {0, 0};
  for (int i = 0; i < 32; ++i) chain[i % 2] = flushed(std::fma(flushed(w[i]), flushed(x[i]), chain[i % 2]));
  return flushed(sum + flushed(chain[0] + chain[1]));
}

/// w . x: tile instructions over 512 columns each, added in fp64.
inline bf16 tile_sum(const std::vector<float>& w, const std::vector<float>& x) {
  double total = 0;
  for (std::size_t begin = 0; begin < w.size(); begin += 512) {
    float sum = 0;
    for (std::size_t c = begin; c < std::min(begin + 512, w.size()); c += 32)
      sum = add_block(sum, &w[c], &x[c]);
    total += double{sum};
  }
  return bf16(static_cast<float>(total));
}

/// y [tokens, rows] of x [tokens, cols].
inline std::vector<bf16> tile_product(const Fp8Matrix& w, const std::vector<bf16>& x) {
  const auto cols = static_cast<std::size_t>(w.cols), tokens = x.size() / cols;
  std::vector<std::vector<float>> rows(static_cast<std::size_t>(w.rows));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t c = 0; c < w.cols; ++c)
      rows[static_cast<std::size_t>(r)].push_back(static_cast<float>(weight_value(w, r, c)));
  }
  std::vector<bf16> y;
  std::vector<float> token(cols);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t c = 0; c < cols; ++c) token[c] = static_cast<float>(x[t * cols + c]);
    for (const auto& row : rows) y.push_back(tile_sum(row, token));
  }
  return y;
}

}  // namespace dsv::testing
