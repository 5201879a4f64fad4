#include "stages/kernels/limbs.h"

#include <array>
#include <cstring>
#include <limits>

#include "stages/kernels/tables.h"

namespace dsv {
namespace {

/// An E4M3 value as an integer in units of 2^-9, and its digits. NaN counts as 0.
struct Digits {
  std::int32_t value = 0;
  std::int8_t coarse = 0, middle = 0, fine = 0;
};

constexpr Digits digits_of(std::uint8_t code) {
  if ((code & 0x7f) == 0x7f) return {};
  const auto value = static_cast<std::int32_t>(kE4m3[code] * 512.0f);
  const std::int32_t fine = ((value + 4) & 7) - 4;
  const std::int32_t rest = (value - fine) / 8;
  const std::int32_t middle = ((rest + 128) & 255) - 128;
  return {value, static_cast<std::int8_t>((rest - middle) / 256), static_cast<std::int8_t>(middle),
          static_cast<std::int8_t>(fine)};
}

constexpr std::array<Digits, 256> kDigits = [] {
  std::array<Digits, 256> t{};
  for (std::size_t c = 0; c < 256; ++c) t[c] = digits_of(static_cast<std::uint8_t>(c));
  return t;
}();

/// Writes the digits of a block; returns the sum of its integers in units of 2^-9.
std::int32_t write_digits(const std::uint8_t* codes, int block, LimbGroup& group) {
  std::int32_t sum = 0;
  for (int c = 0; c < 32; ++c) {
    const Digits& d = kDigits[codes[c]];
    const int at = block * 16 + c / 2;
    group.coarse[c % 2][at] = d.coarse;
    group.middle[c % 2][at] = d.middle;
    group.fine[c % 2][at] = d.fine;
    group.has_fine |= d.fine != 0;
    sum += d.value;
  }
  return sum;
}

bool holds_nan(const std::uint8_t* codes) {
  bool nan = false;
  for (int c = 0; c < 32; ++c) nan |= (codes[c] & 0x7f) == 0x7f;
  return nan;
}

/// Value * scale of a block, even columns before odd ones.
void write_scaled(const std::uint8_t* codes, float scale, float* scaled) {
  for (int c = 0; c < 32; ++c) scaled[c % 2 * 16 + c / 2] = kE4m3[codes[c]] * scale;
}

}  // namespace

LimbActivations::LimbActivations(const std::byte* prepared, std::int64_t cols)
    : scaled(reinterpret_cast<const float*>(prepared)),
      groups(reinterpret_cast<const LimbGroup*>(prepared + cols * std::int64_t{sizeof(float)})) {}

std::int64_t limb_prepared_bytes(std::int64_t cols) {
  return cols * std::int64_t{sizeof(float)} + (cols + 127) / 128 * std::int64_t{sizeof(LimbGroup)};
}

void prepare_limbs(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                   std::byte* prepared) {
  float* scaled = reinterpret_cast<float*>(prepared);
  std::byte* groups = prepared + cols * std::int64_t{sizeof(float)};
  for (std::int64_t c = 0; c < cols; c += 128, groups += sizeof(LimbGroup)) {
    LimbGroup group{};
    const int blocks = static_cast<int>(cols - c < 128 ? (cols - c) / 32 : 4);
    std::int32_t sums[4];
    for (int b = 0; b < blocks; ++b) sums[b] = write_digits(codes + c + 32 * b, b, group);
    for (int b = 0; b < blocks; ++b) {
      const std::uint8_t* block = codes + c + 32 * b;
      const float scale = e8m0_value(scales[c / 32 + b]);
      write_scaled(block, scale, scaled + c + 32 * b);
      const float unit = holds_nan(block) ? std::numeric_limits<float>::quiet_NaN()
                         : group.has_fine ? 0x1p-10f
                                          : 0x1p-7f;
      for (int i = 4 * b; i < 4 * b + 4; ++i) {
        group.scale[i] = scale * unit;
        group.bias[i] = 12 * (group.has_fine ? sums[b] : sums[b] / 8);
      }
    }
    std::memcpy(groups, &group, sizeof group);
  }
}

}  // namespace dsv
