// Activations as byte-sized digits, for fp4 products that sum each block of 32 exactly.
//
// An E4M3 value is an integer of 18 bits and a sign in units of 2^-9. Written in base 64 with signed digits,
// and E2M1 weights looked up as bytes 0 .. 24 (twice the value plus 12), byte multiply-adds give the sum of a
// block as an integer. The constant 12 * (sum of the activations) is subtracted for each block; it is the
// same in all rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stages/kernels/kernels.h"

namespace dsv {

/// Four blocks (128 columns) of one token. Of each block 16 bytes hold the even columns, 16 the odd ones, so
/// that packed nibbles need no shuffle. scale and bias are repeated for four rows.
struct alignas(64) LimbGroup {
  std::int8_t limb[3][2][64];  ///< [digit, lowest first][even, odd][block * 16 + column / 2]
  float scale[16];        ///< [block * 4 + row]: activation scale * 2^-10; NaN where the block holds a NaN
  std::int32_t bias[16];  ///< [block * 4 + row]: 12 * sum of the block's integers
};

/// A prepared token of the variants that use limbs: the scaled values [cols], then the groups.
struct LimbActivations {
  const float* scaled;
  const LimbGroup* groups;  ///< ceil(cols / 128); missing blocks are zeros
  LimbActivations(const std::byte* prepared, std::int64_t cols);
};

std::int64_t limb_prepared_bytes(std::int64_t cols);
/// Kernels::prepare in that form.
void prepare_limbs(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                   std::byte* prepared);

}  // namespace dsv
