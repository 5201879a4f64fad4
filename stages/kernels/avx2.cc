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
#include "stages/kernels/fp4_avx2.inc"
#include "stages/kernels/generic_fp4.inc"
#include "stages/kernels/generic_fp4_tiles.inc"
#include "stages/kernels/generic_index.inc"
// clang-format on

void fp4_product(const Fp4Matrix& w, const QuantizedActivations& x, Range rows, bf16* y,
                 std::int64_t y_stride) {
  if (x.tokens() == 1) return fp4_single_token(w, x, rows, y);
  fp4_tiles(w, x, {0, x.tokens()}, rows, y, y_stride);
}

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
