#include "stages/kernels/limbs.h"

#include <array>
#include <cstring>
#include <limits>

#include "stages/kernels/tables.h"

namespace dsv {
namespace {

/// An E4M3 value as an integer in units of 2^-9, and its signed base-64 digits. NaN counts as 0.
struct Digits {
  std::int32_t value = 0;
  std::int8_t digit[3] = {};
};

constexpr Digits digits_of(std::uint8_t code) {
  Digits d;
  if ((code & 0x7f) == 0x7f) return d;
  d.value = static_cast<std::int32_t>(kE4m3[code] * 512.0f);
  std::int32_t rest = d.value;
  for (int i = 0; i < 2; ++i) {
    const std::int32_t low = ((rest + 32) & 63) - 32;  // -32 .. 31
    d.digit[i] = static_cast<std::int8_t>(low);
    rest = (rest - low) / 64;
  }
  d.digit[2] = static_cast<std::int8_t>(rest);  // at most 56 in size
  return d;
}

constexpr std::array<Digits, 256> kDigits = [] {
  std::array<Digits, 256> t{};
  for (std::size_t c = 0; c < 256; ++c) t[c] = digits_of(static_cast<std::uint8_t>(c));
  return t;
}();

void write_block(const std::uint8_t* codes, float scale, int block, LimbGroup& group) {
  std::int32_t sum = 0;
  bool nan = false;
  for (int c = 0; c < 32; ++c) {
    const Digits& d = kDigits[codes[c]];
    sum += d.value;
    nan |= (codes[c] & 0x7f) == 0x7f;
    for (int i = 0; i < 3; ++i) group.limb[i][c % 2][block * 16 + c / 2] = d.digit[i];
  }
  for (int row = 0; row < 4; ++row) {
    group.scale[block * 4 + row] = nan ? std::numeric_limits<float>::quiet_NaN() : scale * 0x1p-10f;
    group.bias[block * 4 + row] = 12 * sum;
  }
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
  for (std::int64_t c = 0; c < cols; c += 128) {
    LimbGroup group{};
    for (int b = 0; b < 4 && c + 32 * b < cols; ++b) {
      const float scale = e8m0_value(scales[c / 32 + b]);
      write_block(codes + c + 32 * b, scale, b, group);
      write_scaled(codes + c + 32 * b, scale, scaled + c + 32 * b);
    }
    std::memcpy(groups + c / 128 * std::int64_t{sizeof group}, &group, sizeof group);
  }
}

}  // namespace dsv
