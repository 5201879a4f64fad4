#include "stages/audit/random_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "stages/kernels/formats.h"

namespace dsv {

namespace {

/// Value below which a normal variable lies with probability p in (0, 1).
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return low;
}

/// kCount values of equal probability that follow the standard normal distribution.
template <std::size_t kCount>
const std::array<double, kCount>& normal_values() {
  static const std::array<double, kCount> values = [] {
    std::array<double, kCount> v;
    for (std::size_t i = 0; i < kCount; ++i) v[i] = normal_quantile((static_cast<double>(i) + 0.5) / kCount);
    return v;
  }();
  return values;
}

struct Distribution {
  double mean, deviation;
};

/// What an unquantized tensor of this name looks like in a trained model.
Distribution distribution_of(std::string_view tensor, std::span<const std::int64_t> shape) {
  const auto ends = [&](std::string_view with) { return tensor.ends_with(with); };
  if (tensor.find("norm") != tensor.npos || ends("q_weight") || ends("k_weight")) return {1.0, 0.05};
  if (ends("bias") || ends("bias_vl")) return {0.0, 0.02};
  if (ends("_scale")) return {0.5, 0.1};
  if (ends("_base")) return {0.0, 0.3};
  if (ends("attn_sink") || ends("embed.weight") || tensor.starts_with("image_")) return {0.0, 1.0};
  const double inputs = shape.empty() ? 1.0 : static_cast<double>(std::max<std::int64_t>(shape.back(), 1));
  return {0.0, 1 / std::sqrt(inputs)};
}

// Codes are drawn with these deviations; a scale brings them to that of the weight.
constexpr double kFp8Deviation = 4.0, kFp4Deviation = 2.0;

std::uint32_t packed_fp4(std::size_t byte) {
  const auto code = [](std::size_t i) {
    return e2m1_code(static_cast<float>(normal_values<16>()[i] * kFp4Deviation));
  };
  return static_cast<std::uint32_t>(code(byte & 15) | code(byte >> 4) << 4);
}

/// E8M0 codes for a scale of `blocks` blocks of 32 inputs. Two neighbours, so that scales differ.
std::vector<std::uint32_t> scale_codes(std::string_view tensor, std::span<const std::int64_t> shape) {
  const bool fp4 = tensor.find(".experts.") != tensor.npos,
             table = tensor.find("engram.embed") != tensor.npos;
  const double inputs =
      32.0 * static_cast<double>(shape.empty() ? 1 : std::max<std::int64_t>(shape.back(), 1));
  const double wanted = table ? 1.0 : 1 / std::sqrt(inputs);
  const int exponent =
      static_cast<int>(std::lround(std::log2(wanted / (fp4 ? kFp4Deviation : kFp8Deviation))));
  const auto code = static_cast<std::uint32_t>(std::clamp(127 + exponent, 1, 253));
  return {code, code, code, code - 1};
}

std::uint64_t name_hash(std::string_view text) {  // FNV-1a: the same on every platform
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

RandomWeights::RandomWeights(std::uint64_t seed, std::string_view tensor, DType dtype,
                             std::span<const std::int64_t> shape)
    : state_(seed * 0x9e3779b97f4a7c15u ^ name_hash(tensor)),
      element_bytes_(std::max(dtype_bits(dtype) / 8, 1)) {
  if (dtype == DType::F8_E8M0) {
    table_ = scale_codes(tensor, shape);
  } else if (dtype == DType::F8_E4M3) {
    for (const double v : normal_values<256>())
      table_.push_back(e4m3_code(static_cast<float>(v * kFp8Deviation)));
  } else if (dtype == DType::I8 || dtype == DType::U8) {
    for (std::size_t byte = 0; byte < 256; ++byte) table_.push_back(packed_fp4(byte));
  } else {
    const Distribution d = distribution_of(tensor, shape);
    for (const double v : normal_values<4096>()) {
      const auto x = static_cast<float>(d.mean + d.deviation * v);
      table_.push_back(dtype == DType::BF16 ? bf16(x).bits : std::bit_cast<std::uint32_t>(x));
    }
  }
}

std::uint64_t RandomWeights::draw() {  // splitmix64
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

template <class T>
void RandomWeights::fill(std::span<std::byte> out) {
  constexpr std::size_t per_draw = 8 / sizeof(T);
  const std::size_t mask = table_.size() - 1;  // every table's size is a power of two
  for (std::size_t at = 0; at < out.size(); at += 8) {
    std::uint64_t bits = draw();
    T piece[per_draw];
    for (T& element : piece) {
      element = static_cast<T>(table_[bits & mask]);
      bits >>= 64 / per_draw;
    }
    std::memcpy(out.data() + at, piece, std::min<std::size_t>(8, out.size() - at));
  }
}

void RandomWeights::next(std::span<std::byte> out) {
  if (element_bytes_ == 1) return fill<std::uint8_t>(out);
  if (element_bytes_ == 2) return fill<std::uint16_t>(out);
  fill<std::uint32_t>(out);
}

}  // namespace dsv
