// How the ops are started on a card, and the grid that the fp4 products share. CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include "cuda/ops.h"

namespace dsv::cuda {

/// Enqueues an op. The arguments are copied; what they point to lies in the card's memory.
cudaError_t launch(const Quantize& op, cudaStream_t stream);
cudaError_t launch(const GateUp& op, cudaStream_t stream);
cudaError_t launch(const Down& op, cudaStream_t stream);

}  // namespace dsv::cuda
