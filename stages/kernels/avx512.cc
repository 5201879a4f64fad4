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
#include "stages/kernels/fp4_avx512.inc"
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
