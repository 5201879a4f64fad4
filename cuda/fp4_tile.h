// The fp4 x fp8 product of one warp, as source that a card and the emulation run alike.
//
// A warp makes a tile: kRows output rows of kMatrices matrices for kTokens rows of activations. Over groups
// of 32 blocks, its lanes multiply one block each and leave the products in shared memory (`multiply`); then
// each lane adds the products of its own outputs in column order (`add`), which is the order of the kernel
// table. At the end the sums change lanes through shared memory (`publish`). Between two of these steps the
// warp synchronizes.
#pragma once

#include "cuda/arithmetic.h"

namespace dsv::cuda {

inline constexpr int kLanes = 32;
inline constexpr int kTileRows = 8;

/// A packed weight in the card's memory: codes [rows, cols / 2] and scales [rows, cols / 32], 16-byte
/// aligned.
struct Fp4Weight {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
};

template <int kMatrices, int kTokens>
struct Fp4Tile {
  static constexpr int kOutputs = kTileRows * kTokens;  // of each matrix
  static constexpr int kSums = kMatrices * kOutputs;
  static constexpr int kOwned = (kSums + kLanes - 1) / kLanes;

  /// Shared by the warp; the padding keeps lanes in different banks.
  struct Scratch {
    float terms[kSums][kLanes + 1];
  };
  /// What a lane keeps.
  struct Lane {
    float sums[kOwned] = {};
  };

  Fp4Weight weights[kMatrices];
  int rows = 0, blocks = 0;  // of each matrix
  int first = 0;             // first output row; rows behind the end repeat the last one
  const Digits* x[kTokens];  // [blocks] each

  DSV_HOST_DEVICE int groups() const { return (blocks + kLanes - 1) / kLanes; }

  DSV_HOST_DEVICE void multiply(int group, int lane, Scratch& scratch) const {
    const int block = group * kLanes + lane;
    if (block >= blocks) return;
    Digits digits[kTokens];
    for (int t = 0; t < kTokens; ++t) digits[t] = x[t][block];
    DSV_UNROLL(2)
    for (int m = 0; m < kMatrices; ++m) {
      DSV_UNROLL(1)
      for (int r = 0; r < kTileRows; r += kLoads) multiply_rows(m, r, block, digits, scratch.terms);
    }
  }

  DSV_HOST_DEVICE void add(int group, int lane, const Scratch& scratch, Lane& own) const {
    const int left = blocks - group * kLanes, count = left < kLanes ? left : kLanes;
    for (int o = 0; o < kOwned; ++o) {
      const int s = o * kLanes + lane;
      if (s >= kSums) return;
      for (int i = 0; i < count; ++i) own.sums[o] += scratch.terms[s][i];
    }
  }

  DSV_HOST_DEVICE void publish(int lane, const Lane& own, Scratch& scratch) const {
    for (int o = 0; o < kOwned; ++o) {
      const int s = o * kLanes + lane;
      if (s < kSums) scratch.terms[s][0] = own.sums[o];
    }
  }

  /// The published sum of matrix m, row first + r, activations t, as the product's bf16 result.
  DSV_HOST_DEVICE static bf16 result(const Scratch& scratch, int m, int r, int t) {
    return bf16(scratch.terms[m * kOutputs + r * kTokens + t][0]);
  }

 private:
  static constexpr int kLoads = kTokens == 1 ? 8 : 2;  // rows whose weights are under way together

  DSV_HOST_DEVICE void multiply_rows(int m, int r, int block, const Digits* digits,
                                     float (*terms)[kLanes + 1]) const {
    PackedBlock packed[kLoads];
    std::uint8_t scales[kLoads];
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t row = first + r + i < rows ? first + r + i : rows - 1;
      const std::int64_t at = row * blocks + block;
      packed[i] = load_block(weights[m].codes + at * (kBlock / 2));
      scales[i] = weights[m].scales[at];
    }
    const int lane = block % kLanes;
    for (int i = 0; i < kLoads; ++i) {
      const WeightBytes bytes(packed[i]);
      for (int t = 0; t < kTokens; ++t) {
        terms[m * kOutputs + (r + i) * kTokens + t][lane] =
            block_product(bytes, e8m0_value(scales[i]), digits[t]);
      }
    }
  }
};

}  // namespace dsv::cuda
