// The AVX2 variant (Haswell, Zen and later: AVX2, FMA, F16C).
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "stages/kernels/kernels.h"
#include "stages/kernels/limbs.h"
#include "stages/kernels/quantizers.h"
#include "stages/kernels/variants.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace dsv::avx2 {
namespace {

constexpr int kRowTile = 4, kTokenTile = 2;

// Each builds on the one before.
// clang-format off
#include "stages/kernels/lanes_avx2.inc"
#include "stages/kernels/generic_exp.inc"
#include "stages/kernels/generic_elementwise.inc"
#include "stages/kernels/generic_products.inc"
#include "stages/kernels/generic_attention.inc"
// clang-format on

constexpr int kStepBlocks = 2, kFp4Tokens = 2;

/// Twice the weights plus 12, one byte each, of 64 columns.
struct Codes {
  __m256i even, odd;
};

inline Codes decode(const std::uint8_t* p, int blocks) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i packed = blocks == kStepBlocks
                             ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))
                             : _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_shuffle_epi8(table, _mm256_and_si256(packed, nibble)),
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(packed, 4), nibble))};
}

inline __m256 step_scales(const std::uint8_t* p) {
  const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_slli_epi32(codes, 23), _mm256_set1_epi32(0x400000)));
}

// Four partial sums of each block times `unit`, [block * 4 + part]. No 16-bit sum exceeds 4 * 24 * 128.
inline __m256i multiply(const Codes& c, const std::int8_t (&digit)[2][64], int half, short unit) {
  const auto* even = reinterpret_cast<const __m256i*>(digit[0]) + half;
  const auto* odd = reinterpret_cast<const __m256i*>(digit[1]) + half;
  const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(c.even, _mm256_load_si256(even)),
                                         _mm256_maddubs_epi16(c.odd, _mm256_load_si256(odd)));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(unit));
}

inline __m256i partial_sums(const Codes& c, const LimbGroup& x, int half) {
  const __m256i sum = _mm256_add_epi32(multiply(c, x.coarse, half, 256), multiply(c, x.middle, half, 1));
  return x.has_fine ? _mm256_add_epi32(_mm256_slli_epi32(sum, 3), multiply(c, x.fine, half, 1)) : sum;
}

inline void add_blocks(__m128& sum, const Codes* codes, const LimbGroup& x, int first, __m256 weight_scale) {
  const int half = first / kStepBlocks;
  __m256i parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = partial_sums(codes[i], x, half);
  const __m256i sums =
      _mm256_hadd_epi32(_mm256_hadd_epi32(parts[0], parts[1]), _mm256_hadd_epi32(parts[2], parts[3]));
  const __m256i exact =
      _mm256_sub_epi32(sums, _mm256_load_si256(reinterpret_cast<const __m256i*>(x.bias) + half));
  const __m256 scale = _mm256_mul_ps(weight_scale, _mm256_load_ps(x.scale + 8 * half));
  const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(exact), scale);
  sum = _mm_add_ps(sum, _mm256_castps256_ps128(v));
  sum = _mm_add_ps(sum, _mm256_extractf128_ps(v, 1));
}

#include "stages/kernels/generic_fp4.inc"

}  // namespace
}  // namespace dsv::avx2

#pragma GCC pop_options

namespace dsv {

const Kernels kAvx2Kernels = {
    .name = "avx2",
    .quantize_fp8 = scalar::quantize_fp8,
    .quantize_fp4_e8m0 = scalar::quantize_fp4_e8m0,
    .quantize_fp4_e4m3 = scalar::quantize_fp4_e4m3,
    .dequantize_fp8 = scalar::dequantize_fp8,
    .dequantize_fp4_e8m0 = scalar::dequantize_fp4_e8m0,
    .dequantize_fp4_e4m3 = scalar::dequantize_fp4_e4m3,
    .prepared_bytes = limb_prepared_bytes,
    .prepare = prepare_limbs,
    .fp8_product = avx2::fp8_product,
    .fp4_product = avx2::fp4_product,
    .fp8_bf16_product = avx2::fp8_bf16_product,
    .bf16_product = avx2::bf16_product,
    .f32_product = avx2::f32_product,
    .attend = avx2::attend,
    .attention_scratch = avx2::attention_scratch,
    .index_scores = kPortableKernels.index_scores,
    .rms_norm = avx2::rms_norm,
    .sum_of_squares = avx2::sum_of_squares,
    .swiglu = avx2::swiglu,
    .collapse = avx2::collapse,
    .expand = avx2::expand,
};

}  // namespace dsv
