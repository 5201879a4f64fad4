#include "cuda/product_kernel.cuh"

namespace dsv::cuda {

cudaError_t launch(const Down& op, cudaStream_t stream) {
  return launch_product<DownTile>(op, stream);
}

}  // namespace dsv::cuda
