// Number formats of the checkpoint: bf16, E4M3 (fp8), E2M1 (fp4) and E8M0 (block scale).
//
// Source: OCP Microscaling Formats (MX) 1.0 for E2M1/E8M0, OCP 8-bit floating point 1.0 for E4M3.
// These are the scalar definitions that every kernel variant is tested against.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// Marks functions that CUDA code shares.
#ifdef __CUDACC__
#define DSV_HOST_DEVICE __host__ __device__
#else
#define DSV_HOST_DEVICE
#endif

namespace dsv {

/// bfloat16: the upper half of an fp32. Conversion from fp32 rounds to nearest even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  DSV_HOST_DEVICE explicit bf16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  DSV_HOST_DEVICE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  friend bool operator==(bf16 a, bf16 b) { return a.bits == b.bits; }
};
static_assert(sizeof(bf16) == 2);

/// x rounded to bf16, as fp32.
DSV_HOST_DEVICE inline float round_bf16(float x) {
  return static_cast<float>(bf16(x));
}

/// Value of an E8M0 scale: 2^(code-127); code 0 is 2^-127 (an fp32 subnormal), code 255 is NaN.
DSV_HOST_DEVICE inline float e8m0_value(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23);
}

/// Value of an E4M3 code (bias 7, no infinity, 0x7F and 0xFF are NaN, subnormals down to 2^-9).
DSV_HOST_DEVICE inline float e4m3_value(std::uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) ? -magnitude : magnitude;
}

/// Nearest E4M3 code of x, ties to even, saturating at +-448. NaN gives 0x7F with x's sign.
DSV_HOST_DEVICE inline std::uint8_t e4m3_code(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint8_t>((u >> 24) & 0x80u);
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) return static_cast<std::uint8_t>(sign | 0x7fu);
  if (magnitude >= 448.0f) return static_cast<std::uint8_t>(sign | 0x7eu);
  if (magnitude < 0.015625f) {  // below 2^-6: subnormal, multiples of 2^-9
    return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(std::nearbyint(magnitude * 512.0f)));
  }
  const std::uint32_t m = u & 0x7fffffffu;
  const std::uint32_t rounded = m + 0x7ffffu + ((m >> 20) & 1u);
  const std::uint32_t code = (rounded >> 20) - ((127u - 7u) << 3);
  return static_cast<std::uint8_t>(sign | (code > 0x7eu ? 0x7eu : code));
}

/// Value of an E2M1 code (low 4 bits): 0 .5 1 1.5 2 3 4 6 and their negatives; code 8 is -0.
DSV_HOST_DEVICE inline float e2m1_value(std::uint8_t code) {
  constexpr float kMagnitude[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return (code & 8) ? -kMagnitude[code & 7] : kMagnitude[code & 7];
}

/// Nearest E2M1 code of x, ties to the even code, saturating at +-6; the sign of zero is kept.
DSV_HOST_DEVICE inline std::uint8_t e2m1_code(float x) {
  const float a = std::fabs(x);
  std::uint8_t code = 0;  // the tie of each pair of neighbours goes to the even code
  if (a > 5.0f)
    code = 7;
  else if (a >= 3.5f)
    code = 6;
  else if (a > 2.5f)
    code = 5;
  else if (a >= 1.75f)
    code = 4;
  else if (a > 1.25f)
    code = 3;
  else if (a >= 0.75f)
    code = 2;
  else if (a > 0.25f)
    code = 1;
  return static_cast<std::uint8_t>(code | (std::signbit(x) ? 8 : 0));
}

/// E8M0 code of 2^ceil(log2(x)) for x > 0, taken from the exponent bits: an exact power stays.
DSV_HOST_DEVICE inline std::uint8_t e8m0_ceil_code(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint8_t>((u >> 23) + ((u & 0x7fffffu) != 0 ? 1u : 0u));
}

}  // namespace dsv
