// Random operands of the kernels: every code of each format, scales around 1, rows of a given stride.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "stages/kernels/kernels.h"

namespace dsv::testing {

/// A seeded source of operands.
class Samples {
 public:
  explicit Samples(unsigned seed) : random_(seed) {}

  std::vector<float> floats(std::int64_t n, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) v = normal(random_);
    return x;
  }
  std::vector<bf16> bf16s(std::int64_t n, float deviation = 1) {
    std::vector<bf16> x;
    for (const float v : floats(n, deviation)) x.emplace_back(v);
    return x;
  }
  /// E4M3 codes, all but the NaNs.
  std::vector<std::uint8_t> e4m3(std::int64_t n) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(n));
    for (auto& c : codes) do
        c = static_cast<std::uint8_t>(random_());
      while ((c & 0x7f) == 0x7f);
    return codes;
  }
  std::vector<std::uint8_t> bytes(std::int64_t n) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(n));
    for (auto& c : codes) c = static_cast<std::uint8_t>(random_());
    return codes;
  }
  /// E8M0 codes of 2^-spread .. 2^spread.
  std::vector<std::uint8_t> scales(std::int64_t n, int spread = 6) {
    std::uniform_int_distribution<int> exponent(-spread, spread);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(n));
    for (auto& c : codes) c = static_cast<std::uint8_t>(127 + exponent(random_));
    return codes;
  }

 private:
  std::mt19937 random_;
};

/// A random quantized weight that owns its bytes. Codes is Fp8Matrix or Fp4Matrix.
template <class Matrix>
struct SampleWeight {
  std::vector<std::uint8_t> codes, scales;
  Matrix matrix;
};

inline SampleWeight<Fp8Matrix> fp8_weight(Samples& s, std::int64_t rows, std::int64_t cols,
                                          std::int64_t block_rows = 32) {
  SampleWeight<Fp8Matrix> w{
      s.e4m3(rows * cols), s.scales((rows + block_rows - 1) / block_rows * (cols / 32)), {}};
  w.matrix = {w.codes.data(), w.scales.data(), rows, cols, block_rows};
  return w;
}
inline SampleWeight<Fp4Matrix> fp4_weight(Samples& s, std::int64_t rows, std::int64_t cols) {
  SampleWeight<Fp4Matrix> w{s.bytes(rows * cols / 2), s.scales(rows * cols / 32), {}};
  w.matrix = {w.codes.data(), w.scales.data(), rows, cols};
  return w;
}

/// One weight element as fp64.
inline double weight_value(const Fp8Matrix& w, std::int64_t r, std::int64_t c) {
  return double{e4m3_value(w.codes[r * w.cols + c])} *
         e8m0_value(w.scales[r / w.block_rows * (w.cols / 32) + c / 32]);
}
inline double weight_value(const Fp4Matrix& w, std::int64_t r, std::int64_t c) {
  const std::uint8_t byte = w.codes[(r * w.cols + c) / 2];
  return double{e2m1_value(static_cast<std::uint8_t>(c % 2 ? byte >> 4 : byte & 15))} *
         e8m0_value(w.scales[(r * w.cols + c) / 32]);
}
inline double weight_value(const Bf16Matrix& w, std::int64_t r, std::int64_t c) {
  return double{static_cast<float>(w.data[r * w.cols + c])};
}
inline double weight_value(const F32Matrix& w, std::int64_t r, std::int64_t c) {
  return w.data[r * w.cols + c];
}

}  // namespace dsv::testing
