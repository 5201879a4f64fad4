// The CUDA back end of a build without it.
#include "cuda/device.h"

namespace dsv::cuda {

flow::Result<std::unique_ptr<Runtime>> cuda_runtime() {
  return flow::errorf("this program was built without CUDA (cmake -DDSV41_CUDA=ON)");
}

}  // namespace dsv::cuda
