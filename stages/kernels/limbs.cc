#include "stages/kernels/limbs.h"

#include <array>
#include <cstring>
#include <limits>

#include "stages/kernels/quantizers.h"
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

std::int64_t values_bytes(std::int64_t cols) {
  return (cols * std::int64_t{sizeof(bf16)} + 63) / 64 * 64;
}

}  // namespace

const LimbGroup* limb_groups(const std::byte* prepared, std::int64_t cols) {
  return reinterpret_cast<const LimbGroup*>(prepared + values_bytes(cols));
}

std::int64_t limb_prepared_bytes(std::int64_t cols) {
  return values_bytes(cols) + (cols + 127) / 128 * std::int64_t{sizeof(LimbGroup)};
}

void prepare_limbs(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t cols,
                   std::byte* prepared) {
  scalar::dequantize_fp8(codes, scales, cols, reinterpret_cast<bf16*>(prepared));
  std::byte* groups = prepared + values_bytes(cols);
  for (std::int64_t c = 0; c < cols; c += 128, groups += sizeof(LimbGroup)) {
    LimbGroup group{};
    const int blocks = static_cast<int>(cols - c < 128 ? (cols - c) / 32 : 4);
    std::int32_t sums[4];
    for (int b = 0; b < blocks; ++b) sums[b] = write_digits(codes + c + 32 * b, b, group);
    for (int b = 0; b < blocks; ++b) {
      const std::uint8_t* block = codes + c + 32 * b;
      const float scale = e8m0_value(scales[c / 32 + b]);
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
