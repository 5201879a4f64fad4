// Rotary position embedding over adjacent pairs, with optional YaRN frequency scaling.
//
// Source: Su et al., "RoFormer" (arXiv 2104.09864); Peng et al., "YaRN" (arXiv 2309.00071).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stages/kernels/formats.h"

namespace dsv {

/// What decides the frequencies of one kind of layer.
struct RopeParams {
  int dim = 0;                           ///< rotated columns, even
  double theta = 10000;                  ///< base
  double factor = 1;                     ///< YaRN: context extension
  std::int64_t original_seq_len = 0;     ///< YaRN: context of the first training; 0 = no YaRN
  double beta_fast = 32, beta_slow = 1;  ///< YaRN: rotations at the ends of the ramp
};

/// Rotates the tail of a row by its position. Frequencies, angles, cosines and sines are fp32.
class RopeTable {
 public:
  explicit RopeTable(const RopeParams& params);
  int dim() const { return static_cast<int>(2 * frequencies_.size()); }
  /// cos and sin [dim / 2] of the angles at `position`.
  void angles(std::int64_t position, float* cosines, float* sines) const {
    angles(position, 0, frequencies_.size(), cosines, sines);
  }
  /// Rotates the pairs (2i, 2i+1) of row_tail [dim] in place; `inverse` turns them back. Rounds to bf16.
  void apply(bf16* row_tail, std::int64_t position, bool inverse) const {
    apply(row_tail, 1, 0, position, inverse);
  }
  /// The same for `rows` tails, `stride` elements apart, all at one position (the heads of a token).
  void apply(bf16* tails, std::int64_t rows, std::int64_t stride, std::int64_t position, bool inverse) const;

 private:
  void angles(std::int64_t position, std::size_t first, std::size_t count, float* cosines,
              float* sines) const;

  std::vector<float> frequencies_;
};

}  // namespace dsv
