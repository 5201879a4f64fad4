// The decoding table of E4M3.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "stages/kernels/formats.h"

namespace dsv {

namespace table_detail {
constexpr float e4m3(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const std::uint32_t sign = (code & 0x80) ? 0x80000000u : 0u;
  if ((code & 0x7f) == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  float magnitude = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) / 512.0f;
  for (int i = 1; i < exponent; ++i) magnitude *= 2;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}
}  // namespace table_detail

/// Value of every E4M3 code.
inline constexpr std::array<float, 256> kE4m3 = [] {
  std::array<float, 256> t{};
  for (int c = 0; c < 256; ++c) t[static_cast<std::size_t>(c)] = table_detail::e4m3(c);
  return t;
}();

}  // namespace dsv
