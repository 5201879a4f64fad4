#include "stages/audit/synth.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <optional>

#include "framework/core/output_file.h"
#include "stages/audit/inventory.h"
#include "stages/audit/random_weights.h"
#include "stages/model/checkpoint_index.h"
#include "stages/model/json.h"
#include "stages/model/safetensors.h"

namespace dsv {

namespace json = boost::json;
namespace fs = std::filesystem;
using flow::errorf;
using flow::Result;
using flow::Status;

namespace {

using Kind = SynthFault::Kind;

/// A new folder, filled out of sight: what is written to path() appears in it on commit, and without one
/// nothing of it is left.
class DraftFolder {
 public:
  explicit DraftFolder(fs::path folder)
      : folder_(std::move(folder)), draft_(folder_ / fmt::format(".{}.part", ::getpid())) {}
  DraftFolder(const DraftFolder&) = delete;
  DraftFolder& operator=(const DraftFolder&) = delete;
  ~DraftFolder() {
    std::error_code ignored;
    if (kept_) fs::remove_all(draft_, ignored);
    if (!kept_ || committed_) return;
    for (fs::path made = folder_; made != *kept_; made = made.parent_path()) fs::remove(made, ignored);
  }

  const fs::path& path() const { return draft_; }

  Status create() {
    std::error_code error;
    if (folder_.empty()) return errorf("the name of the folder to write to is empty");
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error))
      return errorf("{}: already holds {}; name a folder that is empty or not there yet", folder_.string(),
                    entry.path().filename().string());
    fs::path there = folder_;
    while (!there.empty() && !fs::exists(there, error)) there = there.parent_path();
    kept_ = there;
    fs::create_directories(draft_, error);
    return error ? errorf("{}: cannot create: {}", folder_.string(), error.message()) : Status();
  }

  Status commit() {
    std::error_code error;
    for (fs::directory_iterator it(draft_, error), end; !error && it != end;) {
      const fs::path made = it->path();
      it.increment(error);
      if (!error) fs::rename(made, folder_ / made.filename(), error);
    }
    if (error) return errorf("{}: cannot fill: {}", folder_.string(), error.message());
    committed_ = true;
    return {};
  }

 private:
  const fs::path folder_, draft_;
  std::optional<fs::path> kept_;  // the innermost folder that was there before; set by create
  bool committed_ = false;
};

/// One tensor to write, after the faults that change what is written.
struct Planned {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  int shard;
  bool in_shard = true, in_index = true;
};

std::string shard_name(int number, int count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number, count);
}

class Synthesizer {
 public:
  Synthesizer(const ModelConfig& config, fs::path folder, const SynthOptions& options)
      : config_(config), draft_(std::move(folder)), options_(options) {}

  Result<SynthReport> run() {
    FLOW_TRY(plan());
    FLOW_TRY(draft_.create());
    FLOW_TRY(write_descriptions());
    for (int shard = 0; shard < shards_; ++shard) FLOW_TRY(write_shard(shard));
    if (options_.index) FLOW_TRY(write_index());
    FLOW_TRY(draft_.commit());
    return report_;
  }

 private:
  Status plan() {
    if (const auto missing = config_.missing(); !missing.empty())
      return errorf("{}: lacks the key {}", config_.path.string(), missing[0]);
    FLOW_ASSIGN(
        std::vector<ExpectedTensor> expected,
        expected_tensors(config_, config_.weight_block_size.value_or(std::array{kRowBlock, kRowBlock})));
    for (ExpectedTensor& t : expected)
      tensors_.push_back({std::move(t.name), t.dtype, std::move(t.shape), t.shard});
    shards_ = tensors_.back().shard + 1;
    for (const SynthFault& fault : options_.faults) FLOW_TRY(apply(fault));
    for (const Planned& t : tensors_) {
      const auto bytes = tensor_bytes(t.dtype, t.shape);
      if (!bytes)
        return errorf("tensor '{}' cannot be {} {}", t.name, dtype_name(t.dtype), shape_text(t.shape));
      if (t.in_shard) total_ += *bytes;
    }
    return {};
  }

  Status apply(const SynthFault& fault) {
    if (fault.kind == Kind::Add) {
      tensors_.push_back({fault.target, fault.dtype, fault.shape, shards_ - 1});
      return {};
    }
    if (fault.kind == Kind::Truncate || fault.kind == Kind::Omit) return {};
    const auto at = std::ranges::find(tensors_, fault.target, &Planned::name);
    if (at == tensors_.end()) return errorf("there is no tensor '{}' to break", fault.target);
    switch (fault.kind) {
      case Kind::Drop:
        at->in_shard = at->in_index = false;
        break;
      case Kind::Lose:
        at->in_shard = false;
        break;
      case Kind::Reshape:
        at->shape = fault.shape;
        break;
      case Kind::Retype:
        at->dtype = fault.dtype;
        break;
      case Kind::Copy:
        if (at->shard == shards_ - 1) return errorf("tensor '{}' is in the last shard already", at->name);
        tensors_.push_back({at->name, at->dtype, at->shape, shards_ - 1, true, false});
        break;
      default:
        header_faults_[at->shard].push_back(&fault);
    }
    return {};
  }

  Status write_descriptions() const {
    std::error_code error;
    if (!fs::create_directory(draft_.path() / "inference", error))
      return errorf("{}: cannot create: {}", (draft_.path() / "inference").string(), error.message());
    FLOW_TRY(flow::write_file((draft_.path() / "inference/config.json").string(),
                              json::serialize(config_.to_flat_json())));
    ModelConfig nested = config_;
    nested.layout = ConfigLayout::Nested;
    if (nested.missing().empty())
      FLOW_TRY(flow::write_file((draft_.path() / "config.json").string(),
                                json::serialize(nested.to_nested_json())));
    fs::path source = config_.path.parent_path();
    if (!fs::exists(source / "tokenizer.json", error)) source = source.parent_path();
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      if (!fs::exists(source / name, error)) continue;
      fs::copy_file(source / name, draft_.path() / name, fs::copy_options::overwrite_existing, error);
      if (error) return errorf("{}: cannot copy: {}", (source / name).string(), error.message());
    }
    return {};
  }

  Status write_shard(int shard) {
    if (names_file(Kind::Omit, shard)) return {};
    const fs::path file = draft_.path() / shard_name(shard + 1, shards_);
    SafetensorsWriter writer(file);
    const auto faults = header_faults_.find(shard);
    if (faults != header_faults_.end())
      writer.set_header_edit([&](std::string text) { return spoil(std::move(text), faults->second); });
    for (const Planned& t : tensors_)
      if (t.shard == shard && t.in_shard) FLOW_TRY(writer.declare(t.name, t.dtype, t.shape));
    for (const Planned& t : tensors_)
      if (t.shard == shard && t.in_shard) FLOW_TRY(write_payload(writer, t));
    FLOW_TRY(writer.commit());
    ++report_.shards;
    if (options_.progress) options_.progress(report_.bytes, total_);
    return shorten(file, shard);
  }

  Status write_payload(SafetensorsWriter& writer, const Planned& t) {
    std::uint64_t left = *tensor_bytes(t.dtype, t.shape);
    ++report_.tensors;
    report_.bytes += left;
    if (options_.payload != SynthPayload::Random) return writer.skip(left);
    RandomWeights weights(options_.seed, t.name, t.dtype, t.shape);
    buffer_.resize(1 << 20);
    while (left > 0) {
      const std::span piece(buffer_.data(), std::min<std::uint64_t>(left, buffer_.size()));
      weights.next(piece);
      FLOW_TRY(writer.append(piece));
      left -= piece.size();
    }
    return {};
  }

  Status shorten(const fs::path& file, int shard) const {
    std::error_code error;
    if (options_.payload == SynthPayload::None) {
      FLOW_ASSIGN(const std::string header, read_header_text(file));
      fs::resize_file(file, 8 + header.size(), error);
    } else if (names_file(Kind::Truncate, shard)) {
      fs::resize_file(file, fs::file_size(file) - 1, error);
    }
    return error ? errorf("{}: cannot shorten: {}", file.string(), error.message()) : Status();
  }

  bool names_file(Kind kind, int shard) const {
    return std::ranges::any_of(options_.faults, [&](const SynthFault& fault) {
      return fault.kind == kind && fault.target == std::to_string(shard + 1);
    });
  }

  /// The header's text with tensors described wrongly.
  static std::string spoil(std::string text, const std::vector<const SynthFault*>& faults) {
    Result<json::value> parsed = parse_json(text);
    if (!parsed.ok()) return text;
    json::object& header = parsed->get_object();
    std::string twice;
    for (const SynthFault* fault : faults) {
      json::value& entry = header[fault->target];
      json::array& offsets = entry.get_object()["data_offsets"].get_array();
      if (fault->kind == Kind::Overlap) offsets[0] = offsets[0].to_number<std::int64_t>() - 1;
      if (fault->kind == Kind::Short) offsets[1] = offsets[1].to_number<std::int64_t>() - 1;
      if (fault->kind == Kind::Duplicate)
        twice += json::serialize(json::string_view(fault->target)) + ":" + json::serialize(entry) + ",";
    }
    return json::serialize(header).insert(1, twice);
  }

  Status write_index() const {
    json::object map;
    std::uint64_t total = 0;
    for (const Planned& t : tensors_) {
      if (!t.in_index) continue;
      map[t.name] = shard_name(t.shard + 1, shards_);
      total += *tensor_bytes(t.dtype, t.shape);
    }
    const json::object root{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
    return flow::write_file((draft_.path() / kIndexFile).string(), json::serialize(root));
  }

  const ModelConfig& config_;
  DraftFolder draft_;
  const SynthOptions& options_;
  std::vector<Planned> tensors_;
  std::map<int, std::vector<const SynthFault*>> header_faults_;
  std::vector<std::byte> buffer_;
  std::uint64_t total_ = 0;
  int shards_ = 0;
  SynthReport report_;
};

}  // namespace

Result<SynthReport> synthesize(const ModelConfig& config, const fs::path& folder,
                               const SynthOptions& options) {
  return Synthesizer(config, folder, options).run();
}

}  // namespace dsv
