// The AVX2 variant (Haswell, Zen and later: AVX2, FMA, F16C).
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

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace dsv::avx2 {
namespace {

constexpr int kRowTile = 4, kTokenTile = 3, kBlockRows = 4;

// Each builds on the one before.
// clang-format off
#include "stages/kernels/lanes_avx2.inc"
#include "stages/kernels/generic_exp.inc"
#include "stages/kernels/generic_elementwise.inc"
#include "stages/kernels/generic_quantizers.inc"
#include "stages/kernels/generic_products.inc"
#include "stages/kernels/generic_blocked.inc"
#include "stages/kernels/generic_attention.inc"
// clang-format on

/// The decoded codes of eight rows of a block: [even, odd columns][word][row * 4 + byte].
using TileCodes = std::uint8_t[2][4][32];

constexpr int kStepBlocks = 2, kFp4Tokens = 3;

/// Twice the weights plus 12, one byte each, of 64 columns.
struct Codes {
  __m256i even, odd;
};

inline Codes decode(__m256i packed) {
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  const __m256i nibble = _mm256_set1_epi8(15);
  return {_mm256_shuffle_epi8(table, _mm256_and_si256(packed, nibble)),
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(packed, 4), nibble))};
}
inline Codes decode(const std::uint8_t* p, int blocks) {
  if (blocks == kStepBlocks) return decode(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return decode(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

using Words = __m256i;
inline Words words_load(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const Words*>(p));
}
inline void words_store(float* p, Words w) {
  _mm256_storeu_si256(reinterpret_cast<Words*>(p), w);
}

inline Words scale_words(const std::uint8_t* p) {
  const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_max_epu32(_mm256_slli_epi32(codes, 23), _mm256_set1_epi32(0x400000));
}

inline __m256 step_scales(const std::uint8_t* p) {
  return _mm256_castsi256_ps(scale_words(p));
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

// Pairs of words, of double words and of 128-bit lanes change places until rows are columns.
inline void transpose(Words (&w)[8]) {
  Words a[8];
  for (int i = 0; i < 8; i += 4) {
    const Words low01 = _mm256_unpacklo_epi32(w[i], w[i + 1]), high01 = _mm256_unpackhi_epi32(w[i], w[i + 1]);
    const Words low23 = _mm256_unpacklo_epi32(w[i + 2], w[i + 3]),
                high23 = _mm256_unpackhi_epi32(w[i + 2], w[i + 3]);
    a[i] = _mm256_unpacklo_epi64(low01, low23);
    a[i + 1] = _mm256_unpackhi_epi64(low01, low23);
    a[i + 2] = _mm256_unpacklo_epi64(high01, high23);
    a[i + 3] = _mm256_unpackhi_epi64(high01, high23);
  }
  for (int i = 0; i < 4; ++i) {
    w[i] = _mm256_permute2x128_si256(a[i], a[i + 4], 0x20);
    w[i + 4] = _mm256_permute2x128_si256(a[i], a[i + 4], 0x31);
  }
}

inline void store_codes(Words packed, std::uint8_t* even, std::uint8_t* odd) {
  const Codes codes = decode(packed);
  _mm256_store_si256(reinterpret_cast<__m256i*>(even), codes.even);
  _mm256_store_si256(reinterpret_cast<__m256i*>(odd), codes.odd);
}

inline __m256i broadcast_word(const std::int8_t* p) {
  std::int32_t word;
  std::memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

// Sums of the even or odd columns of a block, in 16 bits: at most 4 * 2 * 24 * 128.
inline __m256i half_sums(const std::uint8_t (&codes)[4][32], const std::int8_t* digits) {
  __m256i sum = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    const __m256i w = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes[i]));
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, broadcast_word(digits + 4 * i)));
  }
  return sum;
}

inline __m256i block_sums(const TileCodes& codes, const std::int8_t (&digit)[2][64], int block, short unit) {
  const __m256i units = _mm256_set1_epi16(unit);
  return _mm256_add_epi32(_mm256_madd_epi16(half_sums(codes[0], digit[0] + 16 * block), units),
                          _mm256_madd_epi16(half_sums(codes[1], digit[1] + 16 * block), units));
}

template <int N>
inline void tile_sums(const TileCodes& codes, const LimbGroup* const* x, int block, Words* out) {
  for (int j = 0; j < N; ++j) {
    out[j] = _mm256_add_epi32(block_sums(codes, x[j]->coarse, block, 256),
                              block_sums(codes, x[j]->middle, block, 1));
  }
}

inline Words add_fine(const TileCodes& codes, const LimbGroup& x, int block, Words sum) {
  return _mm256_add_epi32(_mm256_slli_epi32(sum, 3), block_sums(codes, x.fine, block, 1));
}

inline Part unbiased(Words sum, std::int32_t bias) {
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(sum, _mm256_set1_epi32(bias)));
}

inline Words index_sums(const TileCodes& codes, const std::int8_t (&digits)[2][16]) {
  const __m256i pairs = _mm256_add_epi16(half_sums(codes[0], digits[0]), half_sums(codes[1], digits[1]));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// clang-format off
#include "stages/kernels/generic_fp4.inc"
#include "stages/kernels/generic_fp4_tiles.inc"
#include "stages/kernels/generic_index.inc"
// clang-format on

}  // namespace
}  // namespace dsv::avx2

#pragma GCC pop_options

namespace dsv {

const Kernels kAvx2Kernels = {
    .name = "avx2",
    .quantize_fp8 = avx2::quantize_fp8,
    .quantize_fp4_e8m0 = avx2::quantize_fp4_e8m0,
    .quantize_fp4_e4m3 = avx2::quantize_fp4_e4m3,
    .dequantize_fp8 = avx2::dequantize_fp8,
    .dequantize_fp4_e8m0 = avx2::dequantize_fp4_e8m0,
    .dequantize_fp4_e4m3 = avx2::dequantize_fp4_e4m3,
    .prepared_bytes = limb_prepared_bytes,
    .prepare = avx2::prepare,
    .fp8_product = avx2::fp8_product,
    .fp4_product = avx2::fp4_product,
    .fp8_bf16_product = avx2::fp8_bf16_product,
    .bf16_product = avx2::bf16_product,
    .f32_product = avx2::f32_product,
    .attend = avx2::attend,
    .attention_scratch = avx2::attention_scratch,
    .index_scores = avx2::index_scores,
    .rms_norm = avx2::rms_norm,
    .sum_of_squares = avx2::sum_of_squares,
    .swiglu = avx2::swiglu,
    .collapse = avx2::collapse,
    .expand = avx2::expand,
};

}  // namespace dsv
