#include "stages/model/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "framework/core/data_dirs.h"
#include "framework/core/units.h"
#include "stages/model/align.h"
#include "stages/model/file.h"
#include "stages/model/finite.h"

namespace dsv {
using flow::Result;
using flow::Status;
namespace {

/// The layer of a weight that can be streamed: fp8, for those are large and no stage looks at them when it is
/// opened. -1 for others.
int streamable_layer(const TensorInfo& tensor) {
  int layer = -1;
  if (tensor.dtype != DType::F8_E4M3 && tensor.dtype != DType::F8_E8M0) return -1;
  return std::sscanf(tensor.name.c_str(), "layers.%d.", &layer) == 1 ? layer : -1;
}

/// Groups of tensors that stay in the shards, for the load report.
std::string unread_groups(const Checkpoint& checkpoint) {
  struct Group {
    const char* name;
    std::size_t tensors = 0;
    std::uint64_t bytes = 0;
  } groups[] = {{"routed experts"}, {"Engram tables"}, {"draft stages"}, {"vision"}};
  for (const TensorInfo& t : checkpoint.tensors()) {
    if (is_dense(t.name)) continue;
    const bool draft = t.name.starts_with("mtp."), layer = t.name.starts_with("layers.");
    const bool table = t.name.find(".engram.") != std::string::npos;
    Group& group = groups[draft ? 2 : !layer ? 3 : table ? 1 : 0];
    ++group.tensors;
    group.bytes += t.bytes();
  }
  std::string text;
  for (const Group& g : groups) {
    if (g.tensors == 0) continue;
    text += fmt::format("{}{} {} tensors, {}", text.empty() ? "" : "; ", g.name, g.tensors,
                        flow::bytes_text(g.bytes));
  }
  return text.empty() ? "nothing" : text;
}

Result<boost::json::object> load_values(const std::filesystem::path& path) {
  FLOW_ASSIGN(const ModelConfig config, load_config(resolve_checkpoint(path)));
  return config.to_json();
}

struct ConfigOptions {
  std::filesystem::path path = "demo";
};

flow::ValueInfo config_values() {
  flow::ValueInfo info;
  info.name = "ModelConfig";
  info.doc = "The configuration of a checkpoint, under the names of its flat layout.";
  info.options.make = [] { return std::make_shared<ConfigOptions>(); };
  flow::add_option(info.options, "path", &ConfigOptions::path, "checkpoint folder or configuration file");
  info.load = [](const void* options) {
    return load_values(static_cast<const ConfigOptions*>(options)->path);
  };
  return info;
}

}  // namespace

bool is_dense(std::string_view tensor) {
  if (tensor == "embed.weight" || tensor == "head.weight" || tensor == "norm.weight") return true;
  if (!tensor.starts_with("layers.")) return false;
  return tensor.find(".ffn.experts.") == std::string_view::npos &&
         tensor.find(".engram.embed.") == std::string_view::npos;
}

std::filesystem::path resolve_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || path.is_absolute() || std::filesystem::exists(path, ignored)) return path;
  for (const std::filesystem::path& dir : flow::data_dirs()) {
    if (std::filesystem::exists(dir / "pipelines" / path, ignored)) return dir / "pipelines" / path;
  }
  return path;
}

void Model::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc(
      "A DeepSeek-V4.1 checkpoint: its configuration, its shards, and the dense weights of the text backbone "
      "in "
      "memory, in their stored formats. Routed experts and Engram tables stay in the shards.");
  spec.option("path", &Options::path, "checkpoint folder; 'demo' is the built-in one");
  spec.option(
      "kernels", &Options::kernels,
      "kernel variant: portable, avx2, avx512, ...; empty = DSV41_KERNELS, or the best of this machine");
  spec.option("dense", &Options::dense,
              "fp8 weights of the layers: resident, or streamed by DenseStream and the stages DenseWeights")
      .choices({"resident", "streamed"});
}

Status Model::open_headers() {
  const std::filesystem::path path = resolve_checkpoint(options_.path);
  FLOW_ASSIGN(ModelConfig config, load_config(path));
  if (config.weight_block_size && (*config.weight_block_size)[1] != kGroup) {
    return flow::errorf(
        "{}: weight_block_size is [{}, {}]; the second number must be {}, the group of the activations",
        config.path.string(), (*config.weight_block_size)[0], (*config.weight_block_size)[1], kGroup);
  }
  config_ = std::make_shared<const ModelConfig>(std::move(config));
  FLOW_ASSIGN(checkpoint_, Checkpoint::open(path));
  FLOW_ASSIGN(kernels_, select_kernels(options_.kernels));
  sort_tensors();
  return {};
}

/// Dense tensors that stay in memory, and those that come and go.
void Model::sort_tensors() {
  const bool streaming = options_.dense == "streamed";
  if (streaming) streamed_.resize(static_cast<std::size_t>(config_->n_layers));
  for (const TensorInfo& tensor : checkpoint_->tensors()) {
    if (!is_dense(tensor.name)) continue;
    const int layer = streaming ? streamable_layer(tensor) : -1;
    if (layer < 0 || layer >= config_->n_layers) {
      resident_.push_back(&tensor);
    } else {
      streamed_[static_cast<std::size_t>(layer)].tensors.emplace_back(&tensor, nullptr);
      streamed_[static_cast<std::size_t>(layer)].bytes += align_up(tensor.bytes());
    }
  }
}

/// Room for what is streamed: addresses, which take no memory until they are written to.
Status Model::place_streamed() {
  for (StreamedLayer& layer : streamed_) {
    if (layer.bytes == 0) continue;
    FLOW_ASSIGN(layer.memory, Arena::reserve(layer.bytes));
    std::byte* at = layer.memory.data();
    for (auto& [tensor, place] : layer.tensors) {
      place = at;
      places_.emplace(tensor->name, at);
      at += align_up(tensor->bytes());
    }
  }
  claimed_.resize(streamed_.size());
  return {};
}

Status Model::claim(int layer) {
  if (streamed_.empty()) return Status::error("the model has its dense weights in memory (dense: resident)");
  if (layer < config_->n_layers) claimed_[static_cast<std::size_t>(layer)] = true;
  return {};
}

Status Model::open(const flow::Opening& opening) {
  FLOW_TRY(open_headers());
  FLOW_TRY(place_streamed());
  return load_dense(opening);
}

Result<std::vector<flow::PlanLine>> Model::plan(const flow::Opening&) {
  FLOW_TRY(open_headers());
  std::uint64_t bytes = 0;
  for (const TensorInfo* tensor : resident_) bytes += align_up(tensor->bytes());
  return std::vector<flow::PlanLine>{{"dense weights", bytes, bytes, 0}};
}

Status Model::load_dense(const flow::Opening& opening) {
  const auto began = std::chrono::steady_clock::now();
  std::size_t size = 0;
  for (const TensorInfo* tensor : resident_) size += align_up(tensor->bytes());
  if (size == 0) return flow::errorf("{}: no weights of a text backbone", checkpoint_->path().string());
  FLOW_ASSIGN(arena_, Arena::reserve(size));

  std::size_t offset = 0, quantized = 0;
  auto told = began;
  for (const TensorInfo* tensor : resident_) {
    if (opening.cancelled()) return {};
    const std::span memory(arena_.data() + offset, tensor->bytes());
    FLOW_TRY(checkpoint_->read(*tensor, 0, memory));
    if (const auto bad = first_not_finite(tensor->dtype, memory)) {
      return flow::errorf("{}: {}: element {} is not a finite number; the file is damaged, download it again",
                          checkpoint_->file_of(*tensor).path().string(), tensor->name, *bad);
    }
    places_.emplace(tensor->name, arena_.data() + offset);
    offset += align_up(tensor->bytes());
    if (tensor->dtype == DType::F8_E4M3) ++quantized;
    if (const auto now = std::chrono::steady_clock::now(); now - told > std::chrono::seconds(1)) {
      told = now;
      opening.console().note(fmt::format("load: {} of {}", flow::bytes_text(offset), flow::bytes_text(size)));
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  opening.console().note(fmt::format("load: {}: {} dense tensors ({} quantized), {} in {:.2f} s; kernels {}",
                                     config_->path.parent_path().string(), resident_.size(), quantized,
                                     flow::bytes_text(size), seconds, kernels_->name));
  opening.console().note("load: left in the shards: " + unread_groups(*checkpoint_));
  if (const auto& stray = checkpoint_->stray_files(); !stray.empty())
    opening.console().note(
        fmt::format("load: ignored, for the index does not name them: {}", fmt::join(stray, ", ")));
  return {};
}

Result<const std::byte*> Model::resident(const std::string& tensor, DType dtype,
                                         std::initializer_list<std::int64_t> shape) const {
  FLOW_TRY(checkpoint_->require(tensor, dtype, shape).status());
  const auto it = places_.find(tensor);
  if (it == places_.end()) return flow::errorf("{} is not a dense weight of the text backbone", tensor);
  const int layer = streamed_.empty() ? -1 : streamable_layer(*checkpoint_->find(tensor));
  if (layer >= 0 && !claimed_[static_cast<std::size_t>(layer)]) {
    return flow::errorf(
        "{} is streamed (dense: streamed), but no stage DenseWeights of layer {} comes before", tensor,
        layer);
  }
  return it->second;
}

Result<Fp8Matrix> Model::fp8(const std::string& name, std::int64_t rows, std::int64_t cols) const {
  const std::int64_t tile = tile_rows();
  if (cols % kGroup != 0)
    return flow::errorf("{}.weight: {} columns are not a multiple of {}", name, cols, kGroup);
  FLOW_ASSIGN(const std::byte* codes, resident(name + ".weight", DType::F8_E4M3, {rows, cols}));
  FLOW_ASSIGN(const std::byte* scales,
              resident(name + ".scale", DType::F8_E8M0, {(rows + tile - 1) / tile, cols / kGroup}));
  return Fp8Matrix{reinterpret_cast<const std::uint8_t*>(codes),
                   reinterpret_cast<const std::uint8_t*>(scales), rows, cols, tile};
}

Result<Bf16Matrix> Model::bf16_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) const {
  return bf16_table(name + ".weight", rows, cols);
}

Result<Bf16Matrix> Model::bf16_table(const std::string& tensor, std::int64_t rows, std::int64_t cols) const {
  FLOW_ASSIGN(const std::byte* data, resident(tensor, DType::BF16, {rows, cols}));
  return Bf16Matrix{reinterpret_cast<const bf16*>(data), rows, cols};
}

Result<F32Matrix> Model::f32_matrix(const std::string& tensor, std::int64_t rows, std::int64_t cols) const {
  FLOW_ASSIGN(const std::byte* data, resident(tensor, DType::F32, {rows, cols}));
  return F32Matrix{reinterpret_cast<const float*>(data), rows, cols};
}

Result<const float*> Model::f32_vector(const std::string& tensor, std::int64_t size) const {
  FLOW_ASSIGN(const std::byte* data, resident(tensor, DType::F32, {size}));
  return reinterpret_cast<const float*>(data);
}

Result<const bf16*> Model::bf16_vector(const std::string& tensor, std::int64_t size) const {
  FLOW_ASSIGN(const std::byte* data, resident(tensor, DType::BF16, {size}));
  return reinterpret_cast<const bf16*>(data);
}

FLOW_REGISTER_SERVICE(Model);
[[maybe_unused]] static const bool registered_config =
    (flow::Registry::instance().add(config_values()), true);

}  // namespace dsv
