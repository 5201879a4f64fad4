// The portable variant: baseline instructions, plain loops for the compiler to vectorize.
#include <cmath>
#include <cstring>
#include <limits>

#include "stages/kernels/kernels.h"
#include "stages/kernels/quantizers.h"
#include "stages/kernels/tables.h"
#include "stages/kernels/variants.h"

namespace dsv::portable {
namespace {

constexpr int kRowTile = 2, kTokenTile = 2, kBlockRows = 4;

// Each builds on the one before.
// clang-format off
#include "stages/kernels/lanes_portable.inc"
#include "stages/kernels/generic_exp.inc"
#include "stages/kernels/generic_elementwise.inc"
#include "stages/kernels/generic_products.inc"
#include "stages/kernels/generic_blocked.inc"
#include "stages/kernels/generic_attention.inc"
// clang-format on

// ---- fp4 product --------------------------------------------------------------------------------------
// An E4M3 value is an integer of 18 bits and a sign in units of 2^-9: high * 512 + low. With twice the E2M1
// value, the sum over a block of 32 is an integer below 2^27.

// Column 4i + k of a block at [8k + i].
using Fp4Digits = std::int16_t[32];
using S8 = std::int16_t __attribute__((vector_size(16)));

struct Fp4Block {
  Fp4Digits low, high;
};

struct PreparedFp4 {
  const Fp4Block* blocks;
  const float* scales;  // activation scale * 2^-10; NaN where the block holds a NaN
};

// A prepared token: value * scale as bf16 [cols], blocks [cols / 32], scales [cols / 32].
constexpr std::int64_t kBlockBytes = 32 * sizeof(bf16) + sizeof(Fp4Block) + sizeof(float);

std::int64_t prepared_bytes(std::int64_t cols) {
  return (cols / 32 * kBlockBytes + 63) / 64 * 64;
}

PreparedFp4 prepared_fp4(const std::byte* prepared, std::int64_t cols) {
  const std::byte* blocks = prepared + cols * static_cast<std::int64_t>(sizeof(bf16));
  const std::byte* scales = blocks + cols / 32 * static_cast<std::int64_t>(sizeof(Fp4Block));
  return {reinterpret_cast<const Fp4Block*>(blocks), reinterpret_cast<const float*>(scales)};
}

void prepare(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, std::byte* prepared) {
  scalar::dequantize_fp8(codes, scales, cols, reinterpret_cast<bf16*>(prepared));
  const PreparedFp4 fp4 = prepared_fp4(prepared, cols);
  for (std::int64_t b = 0; b < cols / 32; ++b) {
    Fp4Block block;
    bool nan = false;
    for (int i = 0; i < 32; ++i) {
      const std::uint8_t code = codes[b * 32 + i];
      nan |= (code & 0x7f) == 0x7f;
      const int value = static_cast<int>((code & 0x7f) == 0x7f ? 0.0f : kE4m3[code] * 512.0f);
      block.low[i % 4 * 8 + i / 4] = static_cast<std::int16_t>(value & 511);
      block.high[i % 4 * 8 + i / 4] = static_cast<std::int16_t>(value >> 9);
    }
    const float scale = nan ? std::numeric_limits<float>::quiet_NaN() : e8m0_value(scales[b]) * 0x1p-10f;
    std::memcpy(const_cast<Fp4Block*>(fp4.blocks) + b, &block, sizeof block);
    std::memcpy(const_cast<float*>(fp4.scales) + b, &scale, sizeof scale);
  }
}

// Twice the E2M1 values of the low four bits: 0 1 2 3 4 6 8 12 and negatives.
S8 twice_e2m1(S8 codes) {
  const S8 m = codes & 7, sign = codes << 12 >> 15;
  const S8 size = m + ((m > 4 ? m : S8{} + 4) - 4) + (2 & (m > 6));
  return (size ^ sign) - sign;
}

void decode_e2m1_block(const std::uint8_t* packed, Fp4Digits& twice) {
  S8 codes;
  std::memcpy(&codes, packed, sizeof codes);
  for (int k = 0; k < 4; ++k) {
    const S8 values = twice_e2m1(codes >> (4 * k));
    std::memcpy(twice + 8 * k, &values, sizeof values);
  }
}

std::int32_t dot32(const Fp4Digits& a, const Fp4Digits& b) {
  std::int32_t sum = 0;
  for (int i = 0; i < 32; ++i) sum += a[i] * b[i];
  return sum;
}

void fp4_product(const Fp4Matrix& w, const QuantizedActivations& x, Range rows, bf16* y,
                 std::int64_t y_stride) {
  constexpr int kTokens = 16;
  const std::int64_t blocks = w.cols / 32;
  for (std::int64_t first = 0; first < x.tokens(); first += kTokens) {
    const int tokens = static_cast<int>(x.tokens() - first < kTokens ? x.tokens() - first : kTokens);
    PreparedFp4 v[kTokens];
    for (int t = 0; t < tokens; ++t) v[t] = prepared_fp4(x.prepared(first + t), w.cols);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      float sum[kTokens] = {};
      for (std::int64_t b = 0; b < blocks; ++b) {
        Fp4Digits weight;
        decode_e2m1_block(w.codes + r * w.cols / 2 + b * 16, weight);
        const float scale = e8m0_value(w.scales[r * blocks + b]);
        for (int t = 0; t < tokens; ++t) {
          const Fp4Block& block = v[t].blocks[b];
          const std::int32_t exact = dot32(weight, block.high) * 512 + dot32(weight, block.low);
          sum[t] += static_cast<float>(exact) * (scale * v[t].scales[b]);
        }
      }
      for (int t = 0; t < tokens; ++t) y[(first + t) * y_stride + r] = bf16(sum[t]);
    }
  }
}

// ---- index scores -------------------------------------------------------------------------------------

// The values of one key, even columns before odd ones in each block of 32, decoded once for all heads.
constexpr std::int64_t kKeyColumns = 512;

struct KeyValues {
  float values[kKeyColumns];
  void decode(const std::uint8_t* packed, std::int64_t cols) {
    for (std::int64_t c = 0; c < cols; c += 32) {
      Fp4Digits twice;
      decode_e2m1_block(packed + c / 2, twice);
      for (int i = 0; i < 32; ++i)
        values[c + i % 2 * 16 + i / 2] = 0.5f * static_cast<float>(twice[i % 4 * 8 + i / 4]);
    }
  }
};

// q . key over columns [0, cols), added to `sum` block by block. The sum of a block is exact in any order:
// all products are small multiples of one power of two.
float add_dot(const bf16* q, const float* key, const std::uint8_t* scales, std::int64_t cols, float sum) {
  for (std::int64_t c = 0; c < cols; c += 32) {
    const Pair v = load_pairs(q + c);
    const float exact = fold(mul_add(v.even, load(key + c), v.odd * load(key + c + 16)));
    sum += exact * e8m0_value(scales[c / 32]);
  }
  return sum;
}

void index_scores(const bf16* q, const bf16* w, std::int64_t heads, std::int64_t dim,
                  const std::uint8_t* key_codes, const std::uint8_t* key_scales, Range keys, float* scores) {
  KeyValues key;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    float score = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      float dot = 0;
      for (std::int64_t c = 0; c < dim; c += kKeyColumns) {
        const std::int64_t n = dim - c < kKeyColumns ? dim - c : kKeyColumns;
        if (h == 0 || dim > kKeyColumns) key.decode(key_codes + (j * dim + c) / 2, n);
        dot = add_dot(q + h * dim + c, key.values, key_scales + (j * dim + c) / 32, n, dot);
      }
      const float rounded = dsv::round_bf16(dot);
      score += dsv::round_bf16((rounded > 0 ? rounded : 0.0f) * static_cast<float>(w[h]));
    }
    scores[j] = dsv::round_bf16(score);
  }
}

}  // namespace
}  // namespace dsv::portable

namespace dsv {

const Kernels kPortableKernels = {
    .name = "portable",
    .quantize_fp8 = scalar::quantize_fp8,
    .quantize_fp4_e8m0 = scalar::quantize_fp4_e8m0,
    .quantize_fp4_e4m3 = scalar::quantize_fp4_e4m3,
    .dequantize_fp8 = scalar::dequantize_fp8,
    .dequantize_fp4_e8m0 = scalar::dequantize_fp4_e8m0,
    .dequantize_fp4_e4m3 = scalar::dequantize_fp4_e4m3,
    .prepared_bytes = portable::prepared_bytes,
    .prepare = portable::prepare,
    .fp8_product = portable::fp8_product,
    .fp4_product = portable::fp4_product,
    .fp8_bf16_product = portable::fp8_bf16_product,
    .bf16_product = portable::bf16_product,
    .f32_product = portable::f32_product,
    .attend = portable::attend,
    .attention_scratch = portable::attention_scratch,
    .index_scores = portable::index_scores,
    .rms_norm = portable::rms_norm,
    .sum_of_squares = portable::sum_of_squares,
    .swiglu = portable::swiglu,
    .collapse = portable::collapse,
    .expand = portable::expand,
};

}  // namespace dsv
