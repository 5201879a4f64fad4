// Random tensor contents with the statistics of trained weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "stages/model/dtype.h"

namespace dsv {

/// The bytes of one random tensor, piece by piece. They depend on the seed and the tensor alone.
///
/// Weights have standard deviation 1/sqrt(inputs), norms lie around 1, biases and the rest near 0; codes
/// of FP8 and FP4 follow a normal distribution and their scales bring it to that deviation. No NaN occurs.
class RandomWeights {
 public:
  RandomWeights(std::uint64_t seed, std::string_view tensor, DType dtype,
                std::span<const std::int64_t> shape);

  /// Fills `out`, whose size is a whole number of 8 bytes except in the last piece.
  void next(std::span<std::byte> out);

 private:
  std::uint64_t draw();
  template <class T>
  void fill(std::span<std::byte> out);

  std::uint64_t state_;
  int element_bytes_ = 1;
  std::vector<std::uint32_t> table_;  ///< values of equal probability, as the bits of one element
};

}  // namespace dsv
