#include "stages/model/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "stages/model/checkpoint_index.h"
#include "stages/model/file.h"

namespace dsv {

namespace fs = std::filesystem;
using flow::errorf;
using flow::Result;
using flow::Status;

Checkpoint::Checkpoint() = default;
Checkpoint::~Checkpoint() = default;

namespace {

std::string quoted(const TensorInfo& tensor) {
  return fmt::format("tensor '{}'", tensor.name);
}

}  // namespace

/// The steps of Checkpoint::open.
class Checkpoint::Opener {
 public:
  explicit Opener(fs::path path) : path_(std::move(path)), checkpoint_(new Checkpoint) {}

  Result<std::shared_ptr<const Checkpoint>> open() {
    checkpoint_->path_ = path_;
    FLOW_TRY(choose_shards());
    for (std::size_t i = 0; i < files_.size(); ++i) FLOW_TRY(add_shard(static_cast<int>(i)));
    FLOW_TRY(index_names());
    FLOW_TRY(check_index());
    return std::shared_ptr<const Checkpoint>(std::move(checkpoint_));
  }

 private:
  Status choose_shards() {
    std::error_code error;
    const fs::file_status status = fs::status(path_, error);
    if (!fs::exists(status)) return errorf("{}: there is no such checkpoint", path_.string());
    if (!fs::is_directory(status)) {
      files_.push_back(path_);
      return {};
    }
    FLOW_ASSIGN(const std::vector<std::string> found, shards_on_disk());
    if (!fs::exists(path_ / kIndexFile, error)) {
      if (found.empty()) return errorf("{}: holds no .safetensors file", path_.string());
      for (const std::string& name : found) files_.push_back(path_ / name);
      return require_shards(series_of(found), "that their numbering calls for");
    }
    FLOW_ASSIGN(index_, load_checkpoint_index(path_ / kIndexFile));
    checkpoint_->has_index_ = true;
    std::set_difference(found.begin(), found.end(), index_.shards.begin(), index_.shards.end(),
                        std::back_inserter(checkpoint_->stray_files_));
    for (const std::string& name : index_.shards) files_.push_back(path_ / name);
    return require_shards(index_.shards, fmt::format("named by {}", kIndexFile));
  }

  Result<std::vector<std::string>> shards_on_disk() const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".safetensors") names.push_back(it->path().filename());
    if (error) return errorf("{}: cannot list: {}", path_.string(), error.message());
    std::sort(names.begin(), names.end());
    return names;
  }

  Status require_shards(const std::vector<std::string>& shards, std::string_view why) const {
    std::vector<std::string> missing;
    for (const std::string& name : shards) {
      std::error_code error;
      if (!fs::exists(path_ / name, error)) missing.push_back(name);
    }
    if (missing.empty()) return {};
    return errorf("{}: {} of {} shards {} are not there (incomplete download?): {}", path_.string(),
                  missing.size(), shards.size(), why, fmt::join(missing, ", "));
  }

  Status add_shard(int index) {
    const fs::path& path = files_[static_cast<std::size_t>(index)];
    FLOW_ASSIGN(std::unique_ptr<InputFile> file, InputFile::open(path));
    FLOW_ASSIGN(SafetensorsHeader header, read_safetensors_header(*file));
    FLOW_TRY(first_fault(header).in(path.string()));
    Shard shard{path, file->size(), 0};
    for (TensorInfo& tensor : header.tensors) {
      if (!belongs(tensor.name, index)) continue;
      tensor.shard = index;
      checkpoint_->total_bytes_ += tensor.bytes();
      checkpoint_->tensors_.push_back(std::move(tensor));
      ++shard.tensors;
    }
    checkpoint_->metadata_.merge(header.metadata);
    checkpoint_->shards_.push_back(std::move(shard));
    checkpoint_->files_.push_back(std::move(file));
    return {};
  }

  /// An unknown dtype is no obstacle until somebody asks for that tensor.
  static Status first_fault(const SafetensorsHeader& header) {
    const auto is_fault = [](const HeaderProblem& p) { return p.fault != HeaderFault::UnknownDtype; };
    const auto first = std::find_if(header.problems.begin(), header.problems.end(), is_fault);
    if (first == header.problems.end()) return {};
    const auto more = std::count_if(first + 1, header.problems.end(), is_fault);
    return errorf("{}{}{}", first->text(),
                  more > 0 ? fmt::format("; {} more problem{}", more, more > 1 ? "s" : "") : "",
                  first->fault == HeaderFault::BeyondFile ? " (incomplete download?)" : "");
  }

  bool belongs(const std::string& tensor, int shard) const {
    if (!checkpoint_->has_index_) return true;
    const auto place = index_.shard_of.find(tensor);
    return place != index_.shard_of.end() && place->second == shard;
  }

  Status index_names() {
    checkpoint_->by_name_.reserve(checkpoint_->tensors_.size());
    for (std::size_t i = 0; i < checkpoint_->tensors_.size(); ++i) {
      const TensorInfo& tensor = checkpoint_->tensors_[i];
      const auto [at, added] = checkpoint_->by_name_.emplace(tensor.name, i);
      if (added) continue;
      const TensorInfo& other = checkpoint_->tensors_[at->second];
      return errorf("tensor '{}' is in {} and in {}, and there is no {} to decide", tensor.name,
                    checkpoint_->shard(other.shard).path.string(),
                    checkpoint_->shard(tensor.shard).path.string(), kIndexFile);
    }
    return {};
  }

  Status check_index() const {
    std::vector<std::pair<int, std::string_view>> missing;
    for (const auto& [tensor, shard] : index_.shard_of)
      if (!checkpoint_->by_name_.contains(tensor)) missing.emplace_back(shard, tensor);
    if (missing.empty()) return {};
    const auto [shard, tensor] = *std::ranges::min_element(missing);
    return errorf("{}: has no tensor '{}', which {} places there{}",
                  files_[static_cast<std::size_t>(shard)].string(), tensor, kIndexFile,
                  missing.size() > 1 ? fmt::format("; {} more are missing", missing.size() - 1) : "");
  }

  fs::path path_;
  std::shared_ptr<Checkpoint> checkpoint_;
  std::vector<fs::path> files_;
  CheckpointIndex index_;
};

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const fs::path& path) {
  return Opener(path).open();
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

Result<const TensorInfo*> Checkpoint::require(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) return errorf("{}: has no tensor '{}'", path_.string(), name);
  return tensor;
}

Result<const TensorInfo*> Checkpoint::require(std::string_view name, DType dtype,
                                              std::span<const std::int64_t> shape) const {
  const TensorInfo* tensor = find(name);
  const auto expected = [&] { return fmt::format("{} {}", dtype_name(dtype), shape_text(shape)); };
  if (tensor == nullptr)
    return errorf("{}: has no tensor '{}' (expected {})", path_.string(), name, expected());
  if (tensor->dtype != dtype || !std::ranges::equal(tensor->shape, shape))
    return errorf("{}: expected {}, found {} {}", place(*tensor), expected(), dtype_name(tensor->dtype),
                  shape_text(tensor->shape));
  return tensor;
}

const InputFile& Checkpoint::file_of(const TensorInfo& tensor) const {
  return *files_[static_cast<std::size_t>(tensor.shard)];
}

std::string Checkpoint::place(const TensorInfo& tensor) const {
  return fmt::format("{}: {}", shard(tensor.shard).path.string(), quoted(tensor));
}

Result<TensorView> Checkpoint::view(std::string_view name) const {
  FLOW_ASSIGN(const TensorInfo* tensor, require(name));
  return view(*tensor);
}

Result<TensorView> Checkpoint::view(const TensorInfo& tensor) const {
  FLOW_ASSIGN(const std::byte* base, file_of(tensor).map());
  return TensorView{&tensor, {base + tensor.begin, tensor.bytes()}};
}

Status TensorView::check_layout(std::size_t size, std::size_t alignment) const {
  if (static_cast<std::size_t>(dtype_bits(info->dtype)) != 8 * size)
    return errorf("tensor '{}': {} elements are not {} bytes long", info->name, dtype_name(info->dtype),
                  size);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0)
    return errorf("tensor '{}': lies at an address that is no multiple of {}", info->name, alignment);
  return {};
}

Status Checkpoint::read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > tensor.bytes() || out.size() > tensor.bytes() - offset)
    return errorf("{}: {} bytes from offset {} on do not lie inside its {} bytes", place(tensor), out.size(),
                  offset, tensor.bytes());
  return file_of(tensor)
      .read(tensor.begin + offset, out)
      .in(fmt::format("{}, offset {}", quoted(tensor), offset));
}

Result<std::vector<std::byte>> Checkpoint::read(const TensorInfo& tensor) const {
  std::vector<std::byte> bytes(tensor.bytes());
  FLOW_TRY(read(tensor, 0, bytes));
  return bytes;
}

}  // namespace dsv
