#include "stages/kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dsv {
namespace {

// Column pair whose wavelength makes `rotations` turns over the original context.
double correction_pair(double rotations, const RopeParams& p) {
  const double length = static_cast<double>(p.original_seq_len);
  return p.dim * std::log(length / (rotations * 2 * std::numbers::pi)) / (2 * std::log(p.theta));
}

// YaRN: pairs below the ramp keep their frequency, pairs above it are slowed down by `factor`.
void apply_yarn(const RopeParams& p, std::vector<float>& frequencies) {
  const double low = std::max(std::floor(correction_pair(p.beta_fast, p)), 0.0);
  double high = std::min(std::ceil(correction_pair(p.beta_slow, p)), p.dim - 1.0);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float position = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float keep = 1.0f - std::clamp(position, 0.0f, 1.0f);
    frequencies[i] = frequencies[i] / static_cast<float>(p.factor) * (1.0f - keep) + frequencies[i] * keep;
  }
}

}  // namespace

RopeTable::RopeTable(const RopeParams& params) : frequencies_(static_cast<std::size_t>(params.dim / 2)) {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(params.dim);
    const float power = static_cast<float>(std::pow(params.theta, static_cast<double>(exponent)));
    frequencies_[i] = 1.0f / power;
  }
  if (params.original_seq_len > 0) apply_yarn(params, frequencies_);
}

void RopeTable::angles(std::int64_t position, std::size_t first, std::size_t count, float* cosines,
                       float* sines) const {
  for (std::size_t i = 0; i < count; ++i) {
    const float angle = static_cast<float>(position) * frequencies_[first + i];
    cosines[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    sines[i] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

void RopeTable::apply(bf16* tails, std::int64_t rows, std::int64_t stride, std::int64_t position,
                      bool inverse) const {
  constexpr std::size_t kPairs = 64;  // angles in use at once
  float cosines[kPairs], sines[kPairs];
  for (std::size_t first = 0; first < frequencies_.size(); first += kPairs) {
    const std::size_t count = std::min(kPairs, frequencies_.size() - first);
    angles(position, first, count, cosines, sines);
    for (std::int64_t row = 0; row < rows; ++row) {
      bf16* x = tails + row * stride + 2 * first;
      for (std::size_t i = 0; i < count; ++i) {
        const float c = cosines[i], s = inverse ? -sines[i] : sines[i];
        const float a = static_cast<float>(x[2 * i]), b = static_cast<float>(x[2 * i + 1]);
        x[2 * i] = bf16(a * c - b * s);
        x[2 * i + 1] = bf16(a * s + b * c);
      }
    }
  }
}

}  // namespace dsv
