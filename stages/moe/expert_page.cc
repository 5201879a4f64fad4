#include "stages/moe/expert_page.h"

#include "stages/model/align.h"

namespace dsv {
using flow::Result;

Result<ExpertLayout> ExpertLayout::make(const Model& model, int layer) {
  const ModelConfig& c = model.config();
  ExpertLayout layout;
  layout.dim_ = c.dim;
  layout.inter_ = c.moe_inter_dim;
  if (c.dim % 32 != 0 || c.moe_inter_dim % 32 != 0) {
    return flow::errorf("dim {} and moe_inter_dim {} must be multiples of 32, the block of fp4 weights",
                        c.dim, c.moe_inter_dim);
  }
  for (int expert = 0; expert < c.n_routed_experts; ++expert) {
    for (const char* matrix : {"w1", "w2", "w3"}) {
      const bool down = matrix[1] == '2';
      const std::int64_t rows = down ? layout.dim_ : layout.inter_, cols = down ? layout.inter_ : layout.dim_;
      const std::string name = fmt::format("layers.{}.ffn.experts.{}.{}.", layer, expert, matrix);
      FLOW_ASSIGN(const TensorInfo* weight,
                  model.checkpoint().require(name + "weight", DType::I8, {rows, cols / 2}));
      FLOW_ASSIGN(const TensorInfo* scale,
                  model.checkpoint().require(name + "scale", DType::F8_E8M0, {rows, cols / 32}));
      layout.tensors_.insert(layout.tensors_.end(), {weight, scale});
    }
  }
  return layout;
}

std::size_t ExpertLayout::page_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < kTensors; ++i) bytes += align_up(tensors_[i]->bytes());
  return bytes;
}

ExpertLayout::Filling ExpertLayout::prepare(const Checkpoint& checkpoint, int expert,
                                            PagePool::Block memory) const {
  Filling filling{std::make_shared<ExpertPage>(), {}};
  ExpertPage& page = *filling.page;
  page.memory = std::move(memory);
  std::byte* at = page.memory.get();
  const std::uint8_t* parts[kTensors];
  for (std::size_t i = 0; i < kTensors; ++i) {
    const TensorInfo& tensor = *tensors_[static_cast<std::size_t>(expert) * kTensors + i];
    filling.reads.push_back({&checkpoint.file_of(tensor), tensor.begin, {at, tensor.bytes()}});
    parts[i] = reinterpret_cast<const std::uint8_t*>(at);
    at += align_up(tensor.bytes());
  }
  page.w1 = {parts[0], parts[1], inter_, dim_};
  page.w2 = {parts[2], parts[3], dim_, inter_};
  page.w3 = {parts[4], parts[5], inter_, dim_};
  return filling;
}

}  // namespace dsv
