#include "cuda/launch.h"

namespace dsv::cuda {
namespace {

constexpr int kThreads = 64;

__global__ void quantize(const Quantize op) {
  const int block = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (block < op.blocks) op.run(block);
}

}  // namespace

cudaError_t launch(const Quantize& op, cudaStream_t stream) {
  quantize<<<(op.blocks + kThreads - 1) / kThreads, kThreads, 0, stream>>>(op);
  return cudaGetLastError();
}

}  // namespace dsv::cuda
