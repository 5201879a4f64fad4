// The kernel table: one function pointer for each hot loop, one table for each instruction set.
//
// Contract of every entry:
//  - Batch invariance. The bytes of one token's row depend on that row's inputs alone: not on how many
//    tokens are passed together, on the slice of output rows, or on the thread count.
//  - Every sum has one fixed order, the same in every variant but for the fp8 products of amx, so that
//    variants agree to the bit. Dot products keep 16 fp32 lanes: of every 32 columns lane i takes column
//    2i+1, then 2i; at the end the lanes are summed in fp64 and rounded once: where large terms cancel, an
//    fp32 sum of lanes is off by bf16 steps. Products of bf16 and smaller formats are exact in fp32, so a
//    fused and a separate multiplication are the same; with fp32 weights they are separate. The fp4 product
//    sums each block of 32 exactly and adds the scaled blocks in column order.
//  - fp8_product and fp8_bf16_product of amx have an order of their own, for one token and for many: that of
//    the tile instruction TDPBF16PS. Of every 32 columns one chain of fused multiply-adds from zero takes the
//    even ones in order, one the odd ones; the sum of both is added to the tile, which begins at zero every
//    512 columns; the tiles' sums are added in fp64 and rounded once. A term is rounded 34 times at most,
//    in lanes cols / 16 + 8 times: the variants differ by no more than the rounding of each to bf16 and
//    2^-24 * (cols / 16 + 42) * sum |w[c] * x[c]|.
//    Numbers below 2^-126 are zeros to a tile, as operands and as results. None occurs where
//    weight scale * activation scale is at least 2^-108: the scales of quantize_fp8 are at least 2^-22, so
//    weight scales from 2^-86 are safe. Below, amx loses such numbers, less than 2^-126 each. Rows with a
//    weight scale above 2^119, at which 448 is infinite, are NaN.
//  - Weights hold no NaN codes of E4M3 (the result of such a row is unspecified), and weight * scale and
//    activation * scale stay in fp32's normal range. NaN scales and NaN activations give
//    results that are not finite.
//  - No allocation, no threads, no errors: callers validate shapes and split the work.
// Weights are read as they lie in the checkpoint; nothing is expanded to memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "framework/core/parallel.h"
#include "framework/core/recycler.h"
#include "framework/core/status.h"
#include "stages/kernels/formats.h"

namespace dsv {

using flow::Range;

/// BF16 weight, row-major [rows, cols].
struct Bf16Matrix {
  const bf16* data = nullptr;
  std::int64_t rows = 0, cols = 0;
};
/// F32 weight, row-major [rows, cols].
struct F32Matrix {
  const float* data = nullptr;
  std::int64_t rows = 0, cols = 0;
};
/// E4M3 weight [rows, cols] with one E8M0 scale for each tile of block_rows x 32:
/// scales [ceil(rows / block_rows), ceil(cols / 32)]. cols is a multiple of 32.
struct Fp8Matrix {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t block_rows = 32;
};
/// Packed E2M1 weight, codes [rows, cols / 2] (low nibble = even column), one E8M0 scale for 32 columns:
/// scales [rows, cols / 32]. cols is a multiple of 32.
struct Fp4Matrix {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::int64_t rows = 0, cols = 0;
};

struct Kernels;

/// Activations quantized to E4M3 with one E8M0 scale for 32 columns, in the form that the products of
/// one kernel variant read. Made once for an input, shared by every product that takes it.
class QuantizedActivations {
 public:
  /// Quantizes x [tokens, cols] (row stride `stride` elements). cols is a multiple of 32.
  void assign(const Kernels& kernels, const bf16* x, std::int64_t tokens, std::int64_t cols,
              std::int64_t stride);
  std::int64_t tokens() const { return tokens_; }
  std::int64_t cols() const { return cols_; }
  /// E4M3 codes [tokens, cols] and E8M0 scales [tokens, cols / 32].
  const std::uint8_t* codes(std::int64_t token) const { return codes_.data() + token * cols_; }
  const std::uint8_t* scales(std::int64_t token) const { return scales_.data() + token * (cols_ / 32); }
  /// What Kernels::prepare wrote for this token; 64-byte aligned.
  const std::byte* prepared(std::int64_t token) const { return prepared_.get() + token * prepared_stride_; }

 private:
  struct GiveBack {
    std::size_t bytes;
    void operator()(std::byte* p) const { flow::give_block(p, bytes); }
  };
  std::int64_t tokens_ = 0, cols_ = 0, prepared_stride_ = 0;
  flow::StepVector<std::uint8_t> codes_, scales_;
  std::unique_ptr<std::byte, GiveBack> prepared_;
};

/// Arguments of one query's attention over listed rows.
struct AttentionQuery {
  const bf16* q = nullptr;  ///< [heads, dim]
  std::int64_t heads = 0, dim = 0;
  /// Keys = values, one row [dim] each, in list order; nullptr = an unused entry.
  std::span<const bf16* const> rows;
  const float* sink = nullptr;  ///< [heads]
  float scale = 1;
  bf16* out = nullptr;  ///< [heads, dim]
};

/// One kernel variant. MODEL terms: act_quant, fp4_act_quant, linear, sparse_attn, hc_mixes, expert.
struct Kernels {
  std::string_view name;

  /// act_quant of one row: groups of 32, scale 2^ceil(log2(max(|x|max, 1e-4) / 448)). codes [cols], scales
  /// [cols/32].
  void (*quantize_fp8)(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales);
  /// fp4_act_quant with E8M0 scales, groups of 32: codes packed [cols/2], scales [cols/32].
  void (*quantize_fp4_e8m0)(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales);
  /// fp4_act_quant with E4M3 scales, groups of 16: codes packed [cols/2], scales [cols/16].
  void (*quantize_fp4_e4m3)(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales);
  /// The inverses: bf16(value * scale) for each element.
  void (*dequantize_fp8)(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, bf16* x);
  void (*dequantize_fp4_e8m0)(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                              bf16* x);
  void (*dequantize_fp4_e4m3)(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                              bf16* x);

  /// Bytes of the prepared form of one token of `cols` columns (a multiple of 64), and its maker.
  std::int64_t (*prepared_bytes)(std::int64_t cols);
  void (*prepare)(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                  std::byte* prepared);

  /// y[t][r] = bf16(w[r] . x[t]) for every token and r in `rows`; y row stride `y_stride` elements.
  void (*fp8_product)(const Fp8Matrix& w, const QuantizedActivations& x, Range rows, bf16* y,
                      std::int64_t y_stride);
  void (*fp4_product)(const Fp4Matrix& w, const QuantizedActivations& x, Range rows, bf16* y,
                      std::int64_t y_stride);
  /// The same with a bf16 input and the weight dequantized to bf16 in registers (wo_a).
  void (*fp8_bf16_product)(const Fp8Matrix& w, const bf16* x, std::int64_t tokens, std::int64_t x_stride,
                           Range rows, bf16* y, std::int64_t y_stride);
  /// y[t][r] = w[r] . x[t] in fp32, x bf16; the caller rounds where the model rounds.
  void (*bf16_product)(const Bf16Matrix& w, const bf16* x, std::int64_t tokens, std::int64_t x_stride,
                       Range rows, float* y, std::int64_t y_stride);
  void (*f32_product)(const F32Matrix& w, const bf16* x, std::int64_t tokens, std::int64_t x_stride,
                      Range rows, float* y, std::int64_t y_stride);

  /// sparse_attn of one query: online softmax over blocks of 64 list entries, running max from -1e30,
  /// probabilities rounded to bf16 before the value product, fp32 denominator, sink without value.
  /// `heads` selects a slice of the query's heads. scratch: attention_scratch(dim) floats.
  void (*attend)(const AttentionQuery& query, Range heads, float* scratch);
  std::int64_t (*attention_scratch)(std::int64_t dim);

  /// Indexer scores of one query against stored keys: score[j] = bf16(sum_h bf16(relu(bf16(q_h . k_j)) *
  /// w_h)). q [heads, dim] as an fp4 round trip (quantize_fp4_e8m0) leaves it, w [heads] bf16; keys packed
  /// fp4 [n, dim/2] with E8M0 scales [n, dim/32]; scores for j in `keys`.
  void (*index_scores)(const bf16* q, const bf16* w, std::int64_t heads, std::int64_t dim,
                       const std::uint8_t* key_codes, const std::uint8_t* key_scales, Range keys,
                       float* scores);

  /// y = bf16(w * (x * rsqrt(mean(x^2) + eps))), one row.
  void (*rms_norm)(const bf16* x, const bf16* w, std::int64_t cols, float eps, bf16* y);
  /// sum(x^2) of one row in fp32.
  float (*sum_of_squares)(const bf16* x, std::int64_t cols);
  /// Expert activation of one row: g clamped from above, u to +-limit (limit <= 0: no clamp);
  /// y = bf16(weight * silu(g) * u).
  void (*swiglu)(const bf16* g, const bf16* u, std::int64_t cols, float limit, float weight, bf16* y);
  /// y = bf16(sum_c mix[c] * h[c]) for copies h [copies, dim].
  void (*collapse)(const bf16* h, const float* mix, std::int64_t copies, std::int64_t dim, bf16* y);
  /// y[c'] = bf16(post[c'] * x + sum_c comb[c][c'] * h[c]); comb [copies, copies] row-major; y must not alias
  /// h.
  void (*expand)(const bf16* x, const bf16* h, const float* post, const float* comb, std::int64_t copies,
                 std::int64_t dim, bf16* y);
};

/// Every variant compiled in, portable first.
std::span<const Kernels* const> all_kernels();
/// Whether this machine (CPU and operating system) can run the variant.
bool can_run(const Kernels& kernels);
/// The variant named, or the best that runs here when `name` is empty. An unknown name or one that cannot
/// run here is an error that lists the names that can.
flow::Result<const Kernels*> select_kernels(std::string_view name);

}  // namespace dsv
