// The model as a service: configuration, checkpoint, kernels, and the dense weights in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/registry.h"
#include "stages/kernels/kernels.h"
#include "stages/model/arena.h"
#include "stages/model/checkpoint.h"
#include "stages/model/config.h"
#include "stages/model/name_map.h"

namespace dsv {

/// Weights of one layer that a Model with `dense: streamed` leaves out.
struct StreamedLayer {
  std::uint64_t bytes = 0;
  Arena memory;                                                   ///< where stages look for them
  std::vector<std::pair<const TensorInfo*, std::byte*>> tensors;  ///< and where each belongs in it
};

/// Opens a checkpoint and holds the dense weights of its text backbone: everything except routed experts,
/// Engram tables, draft stages and the vision tower, which stay in the shards. Weights keep their stored
/// format. Lookups validate dtype, shape and the shape of the scales, so a stage's `open` finds every fault.
///
/// With `dense: streamed` the fp8 weights of the layers are left out too: they have their place in memory,
/// and DenseStream reads them when a pass comes by. Everything else is small.
class Model final : public flow::Service {
 public:
  struct Options {
    std::filesystem::path path = "demo";
    std::string kernels;
    std::string dense = "resident";
  };
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit Model(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;

  const ModelConfig& config() const { return *config_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  std::shared_ptr<const Checkpoint> share_checkpoint() const { return checkpoint_; }
  const Kernels& kernels() const { return *kernels_; }

  /// `name` is the weight's name without ".weight"; fp8 weights also have a ".scale".
  flow::Result<Fp8Matrix> fp8(const std::string& name, std::int64_t rows, std::int64_t cols) const;
  flow::Result<Bf16Matrix> bf16_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) const;
  /// Full tensor names, without ".weight" added.
  flow::Result<Bf16Matrix> bf16_table(const std::string& tensor, std::int64_t rows, std::int64_t cols) const;
  flow::Result<F32Matrix> f32_matrix(const std::string& tensor, std::int64_t rows, std::int64_t cols) const;
  flow::Result<const float*> f32_vector(const std::string& tensor, std::int64_t size) const;
  flow::Result<const bf16*> bf16_vector(const std::string& tensor, std::int64_t size) const;

  /// Layers that are read when they are needed; empty unless `dense` is streamed. In a dry run without
  /// memory.
  const std::vector<StreamedLayer>& streamed() const { return streamed_; }
  /// A stage will bring the weights of `layer` before others use them. Error: they are in memory anyway.
  flow::Status claim(int layer);

  /// Columns of a tile that shares one scale along the input; fixed by the activation quantizer.
  static constexpr std::int64_t kGroup = 32;

 private:
  flow::Status open_headers();
  flow::Status load_dense(const flow::Opening& opening);
  flow::Status place_streamed();
  void sort_tensors();
  flow::Result<const std::byte*> resident(const std::string& tensor, DType dtype,
                                          std::initializer_list<std::int64_t> shape) const;
  std::int64_t tile_rows() const {
    return config_->weight_block_size ? (*config_->weight_block_size)[0] : kGroup;
  }

  Options options_;
  std::shared_ptr<const ModelConfig> config_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  const Kernels* kernels_ = nullptr;
  std::vector<const TensorInfo*> resident_;
  Arena arena_;
  std::vector<StreamedLayer> streamed_;
  std::vector<bool> claimed_;
  NameViewMap<const std::byte*> places_;  // of dense tensors in memory
};

/// Whether a tensor belongs to the part that Model keeps in memory.
bool is_dense(std::string_view tensor);

/// "demo" and other names without a folder of their own are looked up in the installed pipelines; a path that
/// exists stays as it is.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

inline constexpr flow::Uses<Model> kModel{"model", "configuration, weights and kernels"};

}  // namespace dsv
