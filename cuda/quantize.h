// Op: activations to fp8 (act_quant), in the form that the products read.
#pragma once

#include "cuda/arithmetic.h"

namespace dsv::cuda {

/// out[i] = quantize_block(x + 32 i), i < blocks. One thread makes one block.
struct Quantize {
  static constexpr const char* kName = "quantize";
  const bf16* x = nullptr;
  Digits* out = nullptr;
  int blocks = 0;

  DSV_HOST_DEVICE void run(int block) const { out[block] = quantize_block(x + std::int64_t{block} * kBlock); }
};

}  // namespace dsv::cuda
