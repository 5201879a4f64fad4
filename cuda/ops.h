// All ops. To add one, see README.md.
#pragma once

#include <type_traits>
#include <variant>

#include "cuda/down.h"
#include "cuda/gate_up.h"
#include "cuda/quantize.h"

namespace dsv::cuda {

using Op = std::variant<Quantize, GateUp, Down>;

/// Calls f(integral constant) with the number of activation rows that a warp of the products should take.
template <class F>
auto with_token_tile(int most_rows, F f) {
  if (most_rows <= 1) return f(std::integral_constant<int, 1>());
  if (most_rows <= 2) return f(std::integral_constant<int, 2>());
  return f(std::integral_constant<int, 4>());
}

}  // namespace dsv::cuda
