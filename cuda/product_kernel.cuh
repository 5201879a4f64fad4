// The kernel that runs one warp of an fp4 product.
#pragma once

#include "cuda/launch.h"

namespace dsv::cuda {

inline constexpr int kWarps = 4;  // of a thread block

/// Grid: x = tiles of output rows, y = tiles of activation rows, z = experts. Block: lanes, warps.
template <template <int> class Tile, int kTokens, class ProductOp>
__global__ void __launch_bounds__(kLanes* kWarps) product(const __grid_constant__ ProductOp op) {
  __shared__ typename Tile<kTokens>::Scratch scratches[kWarps];
  const ExpertRows& expert = op.group.experts[blockIdx.z];
  const int lane = static_cast<int>(threadIdx.x), token_tile = static_cast<int>(blockIdx.y);
  const int first_row = static_cast<int>(blockIdx.x * kWarps + threadIdx.y) * kTileRows;
  if (token_tile * kTokens >= expert.count || first_row >= op.output_rows()) return;  // the whole warp
  auto& scratch = scratches[threadIdx.y];
  const Tile<kTokens> tile(op, expert, first_row, token_tile);
  typename Tile<kTokens>::Lane own;
  for (int group = 0; group < tile.groups(); ++group) {
    tile.multiply(group, lane, scratch);
    __syncwarp();
    tile.add(group, lane, scratch, own);
    __syncwarp();
  }
  tile.publish(lane, own, scratch);
  __syncwarp();
  tile.finish(op, lane, scratch);
}

template <template <int> class Tile, class ProductOp>
cudaError_t launch_product(const ProductOp& op, cudaStream_t stream) {
  return with_token_tile(op.group.most_rows(), [&](auto tokens) {
    constexpr int kTokens = decltype(tokens)::value;
    constexpr int kRows = kWarps * kTileRows;
    const dim3 grid(static_cast<unsigned>((op.output_rows() + kRows - 1) / kRows),
                    static_cast<unsigned>((op.group.most_rows() + kTokens - 1) / kTokens),
                    static_cast<unsigned>(op.group.size));
    product<Tile, kTokens><<<grid, dim3(kLanes, kWarps), 0, stream>>>(op);
    return cudaGetLastError();
  });
}

}  // namespace dsv::cuda
