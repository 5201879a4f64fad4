// Linear layers over many tokens, split over the compute workers by output rows.
#pragma once

#include "stages/kernels/kernels.h"
#include "stages/model/rows.h"

namespace dsv {

/// y [tokens, w.rows] = bf16(x . w^T) with fp8 or fp4 weights and quantized activations.
Rows<bf16> linear(const Kernels& kernels, const Fp8Matrix& w, const QuantizedActivations& x);
Rows<bf16> linear(const Kernels& kernels, const Fp4Matrix& w, const QuantizedActivations& x);
/// The same from bf16 rows [tokens, w.cols], quantized here.
Rows<bf16> linear(const Kernels& kernels, const Fp8Matrix& w, const Rows<bf16>& x);
/// y [tokens, w.rows] in fp32 from bf16 rows, weights bf16 or fp32.
Rows<float> linear_f32(const Kernels& kernels, const Bf16Matrix& w, const bf16* x, std::int64_t tokens);
Rows<float> linear_f32(const Kernels& kernels, const F32Matrix& w, const bf16* x, std::int64_t tokens);
/// The same, rounded to bf16.
Rows<bf16> linear_bf16(const Kernels& kernels, const Bf16Matrix& w, const bf16* x, std::int64_t tokens);

/// Output rows that make one slice worth handing to another thread.
std::int64_t row_grain(std::int64_t bytes_per_row, std::int64_t tokens);

/// x [tokens, cols] quantized row by row.
QuantizedActivations quantize(const Kernels& kernels, const Rows<bf16>& x);
/// y [tokens, cols] = RMSNorm of each row of x.
Rows<bf16> rms_norm(const Kernels& kernels, const Rows<bf16>& x, const bf16* weight, double eps);

}  // namespace dsv
