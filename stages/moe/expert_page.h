// One routed expert as it lies in the checkpoint: packed fp4 matrices and their scales, in one buffer.
#pragma once

#include <memory>
#include <string>

#include "stages/kernels/kernels.h"
#include "stages/model/io/storage.h"
#include "stages/model/model.h"
#include "stages/moe/page_pool.h"

namespace dsv {

/// w1 and w3 [moe_inter_dim, dim], w2 [dim, moe_inter_dim].
struct ExpertPage {
  Fp4Matrix w1, w2, w3;
  PagePool::Block memory;
};

/// Where the six tensors of every expert of one layer lie.
class ExpertLayout {
 public:
  /// Looks up and validates the tensors of all experts of `layer`.
  static flow::Result<ExpertLayout> make(const Model& model, int layer);

  std::size_t page_bytes() const;
  /// A page for one expert in `memory` of page_bytes(), and the reads that fill it.
  struct Filling {
    std::shared_ptr<ExpertPage> page;
    Reads reads;
  };
  Filling prepare(const Checkpoint& checkpoint, int expert, PagePool::Block memory) const;
  /// Offset of the expert's first byte in its shard, for reading in file order.
  std::uint64_t position(int expert) const {
    return tensors_[static_cast<std::size_t>(expert) * kTensors]->begin;
  }

 private:
  static constexpr std::size_t kTensors = 6;  // w1, w2, w3: weight and scale each
  std::vector<const TensorInfo*> tensors_;
  std::int64_t dim_ = 0, inter_ = 0;
};

}  // namespace dsv
