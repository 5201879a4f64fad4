#include "cuda/product_kernel.cuh"

namespace dsv::cuda {

cudaError_t launch(const GateUp& op, cudaStream_t stream) {
  return launch_product<GateUpTile>(op, stream);
}

}  // namespace dsv::cuda
