#include <new>

#include "stages/kernels/kernels.h"

namespace dsv {
namespace {
constexpr std::align_val_t kAlignment{64};
}

void QuantizedActivations::Free::operator()(std::byte* p) const {
  ::operator delete(p, kAlignment);
}

void QuantizedActivations::assign(const Kernels& kernels, const bf16* x, std::int64_t tokens,
                                  std::int64_t cols, std::int64_t stride) {
  tokens_ = tokens;
  cols_ = cols;
  codes_.resize(static_cast<std::size_t>(tokens * cols));
  scales_.resize(static_cast<std::size_t>(tokens * (cols / 32)));
  prepared_stride_ = kernels.prepared_bytes(cols);
  if (tokens * prepared_stride_ > prepared_capacity_) {
    prepared_capacity_ = tokens * prepared_stride_;
    prepared_.reset(
        static_cast<std::byte*>(::operator new(static_cast<std::size_t>(prepared_capacity_), kAlignment)));
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::uint8_t *codes = codes_.data() + t * cols, *scales = scales_.data() + t * (cols / 32);
    kernels.quantize_fp8(x + t * stride, cols, codes, scales);
    kernels.prepare(codes, scales, cols, prepared_.get() + t * prepared_stride_);
  }
}

}  // namespace dsv
