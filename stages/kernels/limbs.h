// Activations as byte-sized digits, for fp4 products that sum each block of 32 exactly.
//
// An E4M3 value is an integer of 18 bits and a sign in units of 2^-9: coarse * 2^11 + middle * 2^3 + fine,
// with signed bytes. E2M1 weights are looked up as bytes 0 .. 24 (twice the value plus 12), so that byte
// multiply-adds give the sum of a block as an integer; the constant 12 * (sum of the activations) is
// subtracted for each block. An E4M3 value has four significant bits, so `fine` is zero except next to values
// about 2000 times as large: most groups do without it, and count in units of 2^-6.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stages/kernels/kernels.h"

namespace dsv {

/// Four blocks (128 columns) of one token. Of each block 16 bytes hold the even columns, 16 the odd ones, so
/// that packed nibbles need no shuffle: digit[even, odd][block * 16 + column / 2].
struct alignas(64) LimbGroup {
  std::int8_t coarse[2][64];
  std::int8_t middle[2][64];
  std::int8_t fine[2][64];
  // [block * 4 + row]: the same for four rows.
  float scale[16];        ///< activation scale * unit / 2; NaN where the block holds a NaN
  std::int32_t bias[16];  ///< 12 * sum of the block's integers
  bool has_fine;          ///< the unit is 2^-9 and `fine` counts; else it is 2^-6
};

/// The groups of a prepared token, ceil(cols / 128); missing blocks are zeros. In front of them lies value *
/// scale of every activation as bf16 [cols], padded to 64 bytes.
const LimbGroup* limb_groups(const std::byte* prepared, std::int64_t cols);

/// Kernels::prepared_bytes of this form.
std::int64_t limb_prepared_bytes(std::int64_t cols);

}  // namespace dsv
