#include "stages/kernels/kernels.h"

namespace dsv {

void QuantizedActivations::assign(const Kernels& kernels, const bf16* x, std::int64_t tokens,
                                  std::int64_t cols, std::int64_t stride) {
  tokens_ = tokens;
  cols_ = cols;
  codes_.resize(static_cast<std::size_t>(tokens * cols));
  scales_.resize(static_cast<std::size_t>(tokens * (cols / 32)));
  prepared_stride_ = kernels.prepared_bytes(cols);
  const auto bytes = static_cast<std::size_t>(tokens * prepared_stride_);
  prepared_ = {static_cast<std::byte*>(flow::take_block(bytes)), GiveBack{bytes}};
  // One token is a matter of microseconds.
  flow::parallel_for(tokens, 2, [&](Range range) {
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      std::uint8_t *codes = codes_.data() + t * cols, *scales = scales_.data() + t * (cols / 32);
      kernels.quantize_fp8(x + t * stride, cols, codes, scales);
      kernels.prepare(codes, scales, cols, prepared_.get() + t * prepared_stride_);
    }
  });
}

}  // namespace dsv
