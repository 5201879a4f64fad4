// The arithmetic of routed experts in source that the host and the cards share: the same bytes as the kernel
// table (stages/kernels/kernels.h) gives.
//
// Activations are three signed byte digits of an integer in units of 2^-9 (as in stages/kernels/limbs.h),
// weights are bytes of twice their value, so that four-way byte products sum a block of 32 exactly.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "stages/kernels/formats.h"

/// Unrolls the following loop n times on a card, so that its loads are under way together.
#ifdef __CUDA_ARCH__
#define DSV_PRAGMA(text) _Pragma(#text)
#define DSV_UNROLL(n) DSV_PRAGMA(unroll n)
#else
#define DSV_UNROLL(n)
#endif

namespace dsv::cuda {

inline constexpr int kBlock = 32;  // columns that share a scale

/// 32 quantized activations: coarse * 2^11 + middle * 2^3 + fine in units of 2^-9, four columns a word.
struct alignas(16) Digits {
  std::uint32_t coarse[8], middle[8], fine[8];
  float scale;  ///< activation scale * 2^-10: the units of both factors; NaN where the block holds a NaN
};

/// 32 packed E2M1 codes, the low nibble of each byte first.
struct alignas(16) PackedBlock {
  std::uint32_t words[4];
};

/// Sum of the products of four signed bytes, added to `sum`.
DSV_HOST_DEVICE inline std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
#ifdef __CUDA_ARCH__
  return __dp4a(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b), sum);
#else
  for (int i = 0; i < 32; i += 8) {
    sum += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
  }
  return sum;
#endif
}

/// Byte i of the result is byte (selector nibble i & 7) of the eight bytes low, high.
DSV_HOST_DEVICE inline std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high,
                                                std::uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes >> (8 * (selector >> (4 * i) & 7)));
    result |= std::uint32_t{byte} << (8 * i);
  }
  return result;
#endif
}

/// Twice the values of the four E2M1 codes in the low half of `codes`, as signed bytes.
DSV_HOST_DEVICE inline std::uint32_t twice_e2m1(std::uint32_t codes) {
  const std::uint32_t magnitude = codes & 0x7777u;
  const std::uint32_t positive = pick_bytes(0x03020100u, 0x0c080604u, magnitude);
  const std::uint32_t negative = pick_bytes(0xfdfeff00u, 0xf4f8fafcu, magnitude);
  return pick_bytes(positive, negative, 0x3210u | (codes & 0x8888u) >> 1);
}

/// 16-byte aligned codes of one block.
DSV_HOST_DEVICE inline PackedBlock load_block(const std::uint8_t* codes) {
  PackedBlock block;
  std::memcpy(&block, __builtin_assume_aligned(codes, 16), sizeof block);
  return block;
}

/// A block's weights as bytes, four columns a word.
struct WeightBytes {
  std::uint32_t words[8];
  DSV_HOST_DEVICE explicit WeightBytes(const PackedBlock& packed) {
    for (int i = 0; i < 4; ++i) {
      words[2 * i] = twice_e2m1(packed.words[i]);
      words[2 * i + 1] = twice_e2m1(packed.words[i] >> 16);
    }
  }
};

/// w . x over one block: the exact integer sum, rounded to fp32, times both scales.
DSV_HOST_DEVICE inline float block_product(const WeightBytes& w, float w_scale, const Digits& x) {
  std::int32_t coarse = 0, middle = 0, fine = 0;
  for (int i = 0; i < 8; ++i) {
    coarse = dot4(w.words[i], x.coarse[i], coarse);
    middle = dot4(w.words[i], x.middle[i], middle);
    fine = dot4(w.words[i], x.fine[i], fine);
  }
  return static_cast<float>(coarse * 2048 + middle * 8 + fine) * (w_scale * x.scale);
}

/// An E4M3 code as an integer in units of 2^-9; NaN codes give 0.
DSV_HOST_DEVICE inline std::int32_t e4m3_units(std::uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return 0;
  const std::int32_t magnitude = exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
  return (code & 0x80) ? -magnitude : magnitude;
}

/// act_quant of 32 activations: E4M3 with scale 2^ceil(log2(max(|x|max, 1e-4) / 448)).
DSV_HOST_DEVICE inline Digits quantize_block(const bf16* x) {
  float largest = 1e-4f;
  for (int i = 0; i < kBlock; ++i) {
    const float magnitude = std::fabs(static_cast<float>(x[i]));
    largest = magnitude > largest ? magnitude : largest;
  }
  const std::uint8_t scale_code = e8m0_ceil_code(largest * (1.0f / 448.0f));
  const float scale = e8m0_value(scale_code);
  Digits digits{};
  bool nan = false;
  for (int i = 0; i < kBlock; ++i) {
    const std::uint8_t code = e4m3_code(static_cast<float>(x[i]) / scale);
    nan |= (code & 0x7f) == 0x7f;
    const std::int32_t units = e4m3_units(code);
    const std::int32_t fine = ((units + 4) & 7) - 4, rest = (units - fine) >> 3;
    const std::int32_t middle = ((rest + 128) & 255) - 128, coarse = (rest - middle) >> 8;
    const int shift = i % 4 * 8;
    digits.coarse[i / 4] |= (static_cast<std::uint32_t>(coarse) & 255u) << shift;
    digits.middle[i / 4] |= (static_cast<std::uint32_t>(middle) & 255u) << shift;
    digits.fine[i / 4] |= (static_cast<std::uint32_t>(fine) & 255u) << shift;
  }
  digits.scale = nan ? std::numeric_limits<float>::quiet_NaN() : scale * 0x1p-10f;
  return digits;
}

namespace one_lane {
#include "cuda/lanes_one.inc"
#include "stages/kernels/generic_exp.inc"
}  // namespace one_lane

/// One column of Kernels::swiglu.
DSV_HOST_DEVICE inline bf16 swiglu(bf16 g, bf16 u, float limit, float weight) {
  return bf16(one_lane::gated({static_cast<float>(g)}, {static_cast<float>(u)}, limit, {weight}).lane);
}

}  // namespace dsv::cuda
