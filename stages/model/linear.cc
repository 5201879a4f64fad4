#include "stages/model/linear.h"

#include <algorithm>

namespace dsv {
namespace {

/// Work that pays for waking a worker, in bytes of weights times tokens.
constexpr std::int64_t kSliceWork = 128 * 1024;

}  // namespace

std::int64_t row_grain(std::int64_t bytes_per_row, std::int64_t tokens) {
  const std::int64_t rows = kSliceWork / std::max<std::int64_t>(1, bytes_per_row * tokens);
  return std::max<std::int64_t>(32, rows / 32 * 32);
}

QuantizedActivations quantize(const Kernels& kernels, const Rows<bf16>& x) {
  QuantizedActivations q;
  q.assign(kernels, x.data(), x.rows(), x.cols(), x.cols());
  return q;
}

Rows<bf16> linear(const Kernels& kernels, const Fp8Matrix& w, const QuantizedActivations& x) {
  Rows<bf16> y(x.tokens(), w.rows);
  flow::parallel_for(w.rows, row_grain(w.cols, x.tokens()),
                     [&](Range rows) { kernels.fp8_product(w, x, rows, y.data(), y.cols()); });
  return y;
}

Rows<bf16> linear(const Kernels& kernels, const Fp4Matrix& w, const QuantizedActivations& x) {
  Rows<bf16> y(x.tokens(), w.rows);
  flow::parallel_for(w.rows, row_grain(w.cols / 2, x.tokens()),
                     [&](Range rows) { kernels.fp4_product(w, x, rows, y.data(), y.cols()); });
  return y;
}

Rows<bf16> linear(const Kernels& kernels, const Fp8Matrix& w, const Rows<bf16>& x) {
  return linear(kernels, w, quantize(kernels, x));
}

Rows<float> linear_f32(const Kernels& kernels, const Bf16Matrix& w, const bf16* x, std::int64_t tokens) {
  Rows<float> y(tokens, w.rows);
  flow::parallel_for(w.rows, row_grain(w.cols * 2, tokens), [&](Range rows) {
    kernels.bf16_product(w, x, tokens, w.cols, rows, y.data(), y.cols());
  });
  return y;
}

Rows<float> linear_f32(const Kernels& kernels, const F32Matrix& w, const bf16* x, std::int64_t tokens) {
  Rows<float> y(tokens, w.rows);
  flow::parallel_for(w.rows, row_grain(w.cols * 4, tokens), [&](Range rows) {
    kernels.f32_product(w, x, tokens, w.cols, rows, y.data(), y.cols());
  });
  return y;
}

Rows<bf16> linear_bf16(const Kernels& kernels, const Bf16Matrix& w, const bf16* x, std::int64_t tokens) {
  const Rows<float> wide = linear_f32(kernels, w, x, tokens);
  Rows<bf16> y(tokens, w.rows);
  std::transform(wide.all().begin(), wide.all().end(), y.data(), [](float v) { return bf16(v); });
  return y;
}

Rows<bf16> rms_norm(const Kernels& kernels, const Rows<bf16>& x, const bf16* weight, double eps) {
  Rows<bf16> y(x.rows(), x.cols());
  flow::parallel_for(x.rows(), 8, [&](Range tokens) {
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      kernels.rms_norm(x.row(t), weight, x.cols(), static_cast<float>(eps), y.row(t));
    }
  });
  return y;
}

}  // namespace dsv
