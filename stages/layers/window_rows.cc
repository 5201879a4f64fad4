#include "stages/layers/window_rows.h"

#include <algorithm>

namespace dsv {

WindowRows::WindowRows(const Kernels& kernels, LayerCache& cache, std::int64_t window, std::int64_t dim,
                       Range pass, std::int64_t queries)
    : kernels_(kernels),
      cache_(cache),
      window_(window),
      first_(queries - window + 1),
      next_(std::clamp(first_, pass.begin, pass.end)),
      rows_(pass.end - first_, dim) {
  if (next_ < pass.end && next_ != cache.window_end) cache.window_begin = next_;
  for (std::int64_t p = std::max(first_, cache.window_begin); p < std::min(next_, cache.window_end); ++p) {
    kernels.dequantize_fp8(cache.window.codes(p % window), cache.window.scales(p % window), dim,
                           rows_.row(p - first_));
  }
}

void WindowRows::append(const Rows<bf16>& kv) {
  for (std::int64_t t = 0; t < kv.rows(); ++t, ++next_) {
    const std::int64_t slot = next_ % window_;
    kernels_.quantize_fp8(kv.row(t), kv.cols(), cache_.window.codes(slot), cache_.window.scales(slot));
    kernels_.dequantize_fp8(cache_.window.codes(slot), cache_.window.scales(slot), kv.cols(),
                            rows_.row(next_ - first_));
  }
  cache_.window_end = next_;
}

}  // namespace dsv
