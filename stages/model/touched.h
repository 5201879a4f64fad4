// What one pass of a stage touches, declared for traces and benchmarks: the bound of a stage is its bytes
// over the bandwidth of the machine.
#pragma once

#include <cstdint>

#include "framework/core/stage.h"
#include "stages/kernels/kernels.h"
#include "stages/model/rows.h"

namespace dsv {

/// Bytes of a weight with its scales.
inline std::int64_t bytes_of(const Bf16Matrix& w) {
  return w.rows * w.cols * 2;
}
inline std::int64_t bytes_of(const F32Matrix& w) {
  return w.rows * w.cols * 4;
}
inline std::int64_t bytes_of(const Fp8Matrix& w) {
  return w.rows * w.cols + (w.rows + w.block_rows - 1) / w.block_rows * (w.cols / 32);
}
inline std::int64_t bytes_of(const Fp4Matrix& w) {
  return w.rows * w.cols / 2 + w.rows * (w.cols / 32);
}
/// Bytes counted elsewhere.
inline std::int64_t bytes_of(std::int64_t bytes) {
  return bytes;
}
template <class T>
std::int64_t bytes_of(const Rows<T>& x) {
  return x.rows() * x.cols() * static_cast<std::int64_t>(sizeof(T));
}

/// Counts a pass over `tokens` tokens that reads or writes what is given: weights, caches, rows.
template <class... Touched>
void count_pass(const flow::Context& context, std::int64_t tokens, const Touched&... touched) {
  if (!context.telemetry()) return;
  context.telemetry().add("items", static_cast<double>(tokens));
  if constexpr (sizeof...(touched) > 0) {
    context.telemetry().add("bytes", static_cast<double>((bytes_of(touched) + ...)));
  }
}

}  // namespace dsv
