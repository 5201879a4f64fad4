#include "stages/kernels/quantizers.h"

#include <cmath>

#include "stages/kernels/tables.h"

namespace dsv::scalar {
namespace {

float largest_magnitude(const bf16* x, int count, float floor) {
  float largest = floor;
  for (int i = 0; i < count; ++i) {
    const float magnitude = std::fabs(static_cast<float>(x[i]));
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

void pack_e2m1(const bf16* x, int count, float scale, std::uint8_t* packed) {
  for (int i = 0; i < count; i += 2) {
    const int low = e2m1_code(static_cast<float>(x[i]) / scale);
    const int high = e2m1_code(static_cast<float>(x[i + 1]) / scale);
    packed[i / 2] = static_cast<std::uint8_t>(low | high << 4);
  }
}

void unpack_e2m1(const std::uint8_t* packed, int count, float scale, bf16* x) {
  for (int i = 0; i < count; i += 2) {
    x[i] = bf16(e2m1_value(packed[i / 2] & 15) * scale);
    x[i + 1] = bf16(e2m1_value(packed[i / 2] >> 4) * scale);
  }
}

}  // namespace

void quantize_fp8(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::int64_t c = 0; c < cols; c += 32) {
    scales[c / 32] = e8m0_ceil_code(largest_magnitude(x + c, 32, 1e-4f) * (1.0f / 448.0f));
    const float scale = e8m0_value(scales[c / 32]);
    for (int i = 0; i < 32; ++i) codes[c + i] = e4m3_code(static_cast<float>(x[c + i]) / scale);
  }
}

void quantize_fp4_e8m0(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::int64_t c = 0; c < cols; c += 32) {
    scales[c / 32] = e8m0_ceil_code(largest_magnitude(x + c, 32, 0x1.8p-124f) * (1.0f / 6.0f));
    pack_e2m1(x + c, 32, e8m0_value(scales[c / 32]), codes + c / 2);
  }
}

void quantize_fp4_e4m3(const bf16* x, std::int64_t cols, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::int64_t c = 0; c < cols; c += 16) {
    scales[c / 16] = e4m3_code(largest_magnitude(x + c, 16, 6.0f / 512.0f) / 6.0f);
    pack_e2m1(x + c, 16, kE4m3[scales[c / 16]], codes + c / 2);
  }
}

void dequantize_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, bf16* x) {
  for (std::int64_t c = 0; c < cols; ++c) x[c] = bf16(kE4m3[codes[c]] * e8m0_value(scales[c / 32]));
}

void dequantize_fp4_e8m0(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, bf16* x) {
  for (std::int64_t c = 0; c < cols; c += 32)
    unpack_e2m1(codes + c / 2, 32, e8m0_value(scales[c / 32]), x + c);
}

void dequantize_fp4_e4m3(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols, bf16* x) {
  for (std::int64_t c = 0; c < cols; c += 16) unpack_e2m1(codes + c / 2, 16, kE4m3[scales[c / 16]], x + c);
}

}  // namespace dsv::scalar
