// The activation quantizers in plain scalar code: the definitions behind the entries of the kernel table.
#pragma once

#include <cstdint>

#include "stages/kernels/formats.h"

namespace dsv::scalar {

void quantize_fp8(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales);
void quantize_fp4_e8m0(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales);
void quantize_fp4_e4m3(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales);
void dequantize_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, bf16* x);
void dequantize_fp4_e8m0(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, bf16* x);
void dequantize_fp4_e4m3(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, bf16* x);

}  // namespace dsv::scalar
