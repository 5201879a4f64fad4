// Which experts one launch computes, and for which rows.
#pragma once

#include "cuda/fp4_tile.h"

namespace dsv::cuda {

/// One expert in the card's memory and its rows: `count` (token, expert) pairs from `first` on.
struct ExpertRows {
  Fp4Weight w1, w2, w3;
  int first = 0, count = 0;
};

/// The experts of one launch. Passed by value: it lies in the kernel's parameters.
struct ExpertGroup {
  static constexpr int kCapacity = 16;
  ExpertRows experts[kCapacity];
  int size = 0;

  /// Most rows of one expert.
  int most_rows() const {
    int most = 0;
    for (int i = 0; i < size; ++i) most = experts[i].count > most ? experts[i].count : most;
    return most;
  }
};

}  // namespace dsv::cuda
