// The AVX-512 variant (Ice Lake, Zen 4 and later: F, BW, DQ, VL, VBMI, VNNI).
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "stages/kernels/kernels.h"
#include "stages/kernels/limbs.h"
#include "stages/kernels/quantizers.h"
#include "stages/kernels/tables.h"
#include "stages/kernels/variants.h"

// GCC 12 takes the undefined registers of its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,avx2,fma,f16c")

namespace dsv::avx512 {
namespace {

constexpr int kRowTile = 4, kTokenTile = 3, kBlockRows = 8;

// Each builds on the one before.
// clang-format off
#include "stages/kernels/lanes_avx512.inc"
#include "stages/kernels/generic_exp.inc"
#include "stages/kernels/generic_elementwise.inc"
#include "stages/kernels/generic_quantizers.inc"
#include "stages/kernels/generic_products.inc"
#include "stages/kernels/generic_blocked.inc"
#include "stages/kernels/generic_attention.inc"
// clang-format on

/// The decoded codes of sixteen rows of a block: [even, odd columns][word][row * 4 + byte].
using TileCodes = std::uint8_t[2][4][64];

constexpr int kStepBlocks = 4, kFp4Tokens = 8;

/// Twice the weights plus 12, one byte each, of 128 columns.
struct Codes {
  __m512i even, odd;
};

// Four copies of the sixteen values: a byte permutation looks at six bits, so nibbles need no mask.
inline __m512i code_table() {
  return _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
}
inline Codes decode(__m512i packed) {
  return {_mm512_permutexvar_epi8(packed, code_table()),
          _mm512_permutexvar_epi8(_mm512_srli_epi16(packed, 4), code_table())};
}
inline Codes decode(const std::uint8_t* p, int blocks) {
  return decode(_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1 << 2 * blocks) - 1), p));
}

using Words = __m512i;
inline Words words_load(const std::uint8_t* p) {
  return _mm512_loadu_si512(p);
}
inline void words_store(float* p, Words w) {
  _mm512_storeu_si512(p, w);
}

inline Words scale_words(const std::uint8_t* p) {
  const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_max_epu32(_mm512_slli_epi32(codes, 23), _mm512_set1_epi32(0x400000));
}

inline __m512 step_scales(const std::uint8_t* p) {
  return _mm512_castsi512_ps(scale_words(p));
}

inline __m512i multiply_add(__m512i sum, const Codes& c, const std::int8_t (&digit)[2][64]) {
  sum = _mm512_dpbusd_epi32(sum, c.even, _mm512_load_si512(digit[0]));
  return _mm512_dpbusd_epi32(sum, c.odd, _mm512_load_si512(digit[1]));
}

// One row: four partial sums of each block, [block * 4 + part].
inline __m512i partial_sums(const Codes& c, const LimbGroup& x) {
  const __m512i coarse = multiply_add(_mm512_setzero_si512(), c, x.coarse);
  const __m512i sum = multiply_add(_mm512_slli_epi32(coarse, 8), c, x.middle);
  return x.has_fine ? multiply_add(_mm512_slli_epi32(sum, 3), c, x.fine) : sum;
}

// Adds the four parts of each block: [block * 4 + row] from four rows of partial sums.
inline __m512i add_parts(const __m512i* s) {
  const __m512i s01 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
  const __m512i s23 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(s01, s23), _mm512_unpackhi_epi64(s01, s23));
}

inline void add_blocks(__m128& sum, const Codes* codes, const LimbGroup& x, int, __m512 weight_scale) {
  __m512i parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = partial_sums(codes[i], x);
  const __m512i exact = _mm512_sub_epi32(add_parts(parts), _mm512_load_si512(x.bias));
  const __m512 scale = _mm512_mul_ps(weight_scale, _mm512_load_ps(x.scale));
  const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(exact), scale);
  sum = _mm_add_ps(sum, _mm512_castps512_ps128(v));
  sum = _mm_add_ps(sum, _mm512_extractf32x4_ps(v, 1));
  sum = _mm_add_ps(sum, _mm512_extractf32x4_ps(v, 2));
  sum = _mm_add_ps(sum, _mm512_extractf32x4_ps(v, 3));
}

// Pairs of words, of double words and of 128-bit lanes change places until rows are columns.
inline void transpose(Words (&w)[16]) {
  Words a[16];
  for (int i = 0; i < 16; i += 4) {
    const Words low01 = _mm512_unpacklo_epi32(w[i], w[i + 1]), high01 = _mm512_unpackhi_epi32(w[i], w[i + 1]);
    const Words low23 = _mm512_unpacklo_epi32(w[i + 2], w[i + 3]),
                high23 = _mm512_unpackhi_epi32(w[i + 2], w[i + 3]);
    a[i] = _mm512_unpacklo_epi64(low01, low23);
    a[i + 1] = _mm512_unpackhi_epi64(low01, low23);
    a[i + 2] = _mm512_unpacklo_epi64(high01, high23);
    a[i + 3] = _mm512_unpackhi_epi64(high01, high23);
  }
  for (int i = 0; i < 4; ++i) {
    const Words low = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x44),
                high = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xee);
    const Words low2 = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x44);
    const Words high2 = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xee);
    w[i] = _mm512_shuffle_i32x4(low, low2, 0x88);
    w[i + 4] = _mm512_shuffle_i32x4(low, low2, 0xdd);
    w[i + 8] = _mm512_shuffle_i32x4(high, high2, 0x88);
    w[i + 12] = _mm512_shuffle_i32x4(high, high2, 0xdd);
  }
}

inline void store_codes(Words packed, std::uint8_t* even, std::uint8_t* odd) {
  const Codes codes = decode(packed);
  _mm512_store_si512(even, codes.even);
  _mm512_store_si512(odd, codes.odd);
}

inline __m512i broadcast_word(const std::int8_t* p) {
  std::int32_t word;
  std::memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}

template <int N>
inline void tile_sums(const TileCodes& codes, const LimbGroup* const* x, int block, Words* out) {
  __m512i coarse[N], middle[N];
  for (int j = 0; j < N; ++j) coarse[j] = middle[j] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int odd = i / 4, at = 16 * block + 4 * (i % 4);
    const __m512i w = _mm512_load_si512(codes[odd][i % 4]);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      coarse[j] = _mm512_dpbusd_epi32(coarse[j], w, broadcast_word(x[j]->coarse[odd] + at));
      middle[j] = _mm512_dpbusd_epi32(middle[j], w, broadcast_word(x[j]->middle[odd] + at));
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) out[j] = _mm512_add_epi32(_mm512_slli_epi32(coarse[j], 8), middle[j]);
}

// sum * 8 plus the products with the fine digits of one block.
inline Words add_fine(const TileCodes& codes, const LimbGroup& x, int block, Words sum) {
  sum = _mm512_slli_epi32(sum, 3);
  for (int i = 0; i < 8; ++i) {
    const __m512i digits = broadcast_word(x.fine[i / 4] + 16 * block + 4 * (i % 4));
    sum = _mm512_dpbusd_epi32(sum, _mm512_load_si512(codes[i / 4][i % 4]), digits);
  }
  return sum;
}

inline Part unbiased(Words sum, std::int32_t bias) {
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(bias)));
}

inline Words index_sums(const TileCodes& codes, const std::int8_t (&digits)[2][16]) {
  __m512i sum = _mm512_setzero_si512();
  for (int i = 0; i < 8; ++i) {
    const __m512i w = _mm512_load_si512(codes[i / 4][i % 4]);
    sum = _mm512_dpbusd_epi32(sum, w, broadcast_word(digits[i / 4] + 4 * (i % 4)));
  }
  return sum;
}

// clang-format off
#include "stages/kernels/generic_fp4.inc"
#include "stages/kernels/generic_fp4_tiles.inc"
#include "stages/kernels/generic_index.inc"
// clang-format on

}  // namespace
}  // namespace dsv::avx512

#pragma GCC pop_options

namespace dsv {

const Kernels kAvx512Kernels = {
    .name = "avx512",
    .quantize_fp8 = avx512::quantize_fp8,
    .quantize_fp4_e8m0 = avx512::quantize_fp4_e8m0,
    .quantize_fp4_e4m3 = avx512::quantize_fp4_e4m3,
    .dequantize_fp8 = avx512::dequantize_fp8,
    .dequantize_fp4_e8m0 = avx512::dequantize_fp4_e8m0,
    .dequantize_fp4_e4m3 = avx512::dequantize_fp4_e4m3,
    .prepared_bytes = limb_prepared_bytes,
    .prepare = avx512::prepare,
    .fp8_product = avx512::fp8_product,
    .fp4_product = avx512::fp4_product,
    .fp8_bf16_product = avx512::fp8_bf16_product,
    .bf16_product = avx512::bf16_product,
    .f32_product = avx512::f32_product,
    .attend = avx512::attend,
    .attention_scratch = avx512::attention_scratch,
    .index_scores = avx512::index_scores,
    .rms_norm = avx512::rms_norm,
    .sum_of_squares = avx512::sum_of_squares,
    .swiglu = avx512::swiglu,
    .collapse = avx512::collapse,
    .expand = avx512::expand,
};

}  // namespace dsv
