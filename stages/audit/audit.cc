#include "stages/audit/audit.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "stages/audit/checks.h"
#include "stages/model/config_schema.h"

namespace dsv {

using flow::Result;
using flow::Status;

namespace {

// Keys without which the inventory cannot be listed.
constexpr std::array<std::string_view, 34> kInventoryKeys = {"vocab_size",
                                                             "dim",
                                                             "n_layers",
                                                             "n_heads",
                                                             "head_dim",
                                                             "q_lora_rank",
                                                             "o_groups",
                                                             "o_lora_rank",
                                                             "compress_ratios",
                                                             "kv_source_layers",
                                                             "index_source_layers",
                                                             "index_n_heads",
                                                             "index_head_dim",
                                                             "candidate_source_layer",
                                                             "moe_inter_dim",
                                                             "n_routed_experts",
                                                             "n_shared_experts",
                                                             "hc_mult",
                                                             "engram_layer_ids",
                                                             "engram_num_embeddings",
                                                             "engram_vocab_size",
                                                             "engram_max_ngram_size",
                                                             "engram_n_heads",
                                                             "engram_head_dim",
                                                             "engram_compressed_vocab_size",
                                                             "n_mtp_layers",
                                                             "dspark_target_layer_ids",
                                                             "dspark_markov_rank",
                                                             "dspark_n_routed_experts",
                                                             "vision_n_layers",
                                                             "vision_dim",
                                                             "vision_inter_dim",
                                                             "vision_patch_size",
                                                             "vision_downsample_ratio"};

/// The smallest power of two that cuts `size` elements into this many blocks; 0 when there is none.
int block_from(std::int64_t size, std::int64_t blocks) {
  for (int block = 1; block > 0 && block <= (1 << 20); block *= 2)
    if ((size + block - 1) / block == blocks) return block;
  return 0;
}

std::optional<std::array<int, 2>> block_at_hand(const ModelConfig& config, const ShardSet& shards) {
  for (int l = 0; l < config.n_layers + config.n_mtp_layers; ++l) {
    const std::string name = layer_prefix(config, l) + ".attn.wq_a";
    const TensorInfo *weight = shards.find(name + ".weight"), *scale = shards.find(name + ".scale");
    if (weight == nullptr || scale == nullptr || weight->shape.size() != 2 || scale->shape.size() != 2)
      continue;
    return std::array{block_from(weight->shape[0], scale->shape[0]),
                      block_from(weight->shape[1], scale->shape[1])};
  }
  return std::nullopt;
}

class Auditor {
 public:
  Auditor(const ModelConfig& config, const ShardSet& shards, const AuditOptions& options)
      : options_(options), context_{config, shards, shards.tensors(), {}, {}, {}, {}, {}} {}

  Result<AuditReport> run() {
    FLOW_TRY(prepare());
    for (const auto& checks : {config_checks(), structure_checks(), storage_checks()})
      for (const CheckSpec& check : checks) run(check);
    if (context_.shards.index() || !context_.shards.index_error().empty()) run(index_check());
    describe_source();
    count_categories();
    measure_coverage();
    note_files();
    return std::move(report_);
  }

 private:
  Status prepare() {
    choose_block();
    for (const ConfigField& field : config_fields())
      if (!context_.config.has(field.flat) && is_needed(context_.config, field))
        inventory_ok_ &= std::ranges::find(kInventoryKeys, field.flat) == kInventoryKeys.end();
    if (!inventory_ok_) return {};
    FLOW_ASSIGN(
        context_.expected,
        expected_tensors(context_.config, context_.fp8_block.value_or(std::array{kRowBlock, kRowBlock})));
    context_.expected_by_name.reserve(context_.expected.size());
    for (ExpectedTensor& t : context_.expected) context_.expected_by_name.emplace(t.name, &t);
    for (const auto& [name, header] : context_.tensors) {
      const auto expected = context_.expected_by_name.find(name);
      if (expected == context_.expected_by_name.end())
        context_.unexpected.push_back(name);
      else
        expected->second->header = header;
    }
    return {};
  }

  void choose_block() {
    const auto& stated = context_.config.weight_block_size;
    const auto seen =
        stated || options_.fp8_block ? std::nullopt : block_at_hand(context_.config, context_.shards);
    context_.fp8_block = options_.fp8_block ? options_.fp8_block : stated ? stated : seen;
    context_.fp8_block_origin = options_.fp8_block ? "as asked"
                                : stated           ? "from the config"
                                                   : "from the first scale";
  }

  void run(const CheckSpec& check) {
    Finding finding;
    if (check.needs_inventory && !inventory_ok_) {
      AuditCheck skipped{std::string(check.group),
                         std::string(check.title),
                         Verdict::Undecided,
                         "the config lacks keys that this needs",
                         {}};
      return report_.checks.push_back(std::move(skipped));
    }
    check.run(context_, finding);
    report_.checks.push_back(std::move(finding).result(check.group, check.title));
  }

  void describe_source() {
    const ModelConfig& config = context_.config;
    report_.config = fmt::format("{} ({})", config.path.string(),
                                 config.layout == ConfigLayout::Nested ? "nested" : "flat");
    report_.shape = config.shape_line();
  }

  void count_categories() {
    std::array<CategoryRow, kCategories> rows;
    for (const auto& [name, tensor] : context_.tensors) {
      CategoryRow& row = rows[static_cast<std::size_t>(category_of(name))];
      ++row.tensors;
      ++report_.tensors;
      if (tensor == nullptr) continue;
      row.bytes += tensor->bytes();
      report_.bytes += tensor->bytes();
      ++report_.readable;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].category = static_cast<Category>(i);
      if (rows[i].tensors > 0) report_.categories.push_back(rows[i]);
    }
  }

  void measure_coverage() {
    std::map<int, LayerCoverage> layers;
    for (const ExpectedTensor& t : context_.expected) {
      if (t.layer < 0) continue;
      LayerCoverage& layer = layers[t.layer];
      ++layer.expected;
      if (t.header != nullptr) {
        ++layer.at_hand;
        continue;
      }
      for (const std::string& shard : context_.shards.waiting_for(t.name))
        if (std::ranges::find(layer.waits_for, shard) == layer.waits_for.end())
          layer.waits_for.push_back(shard);
    }
    for (auto& [l, layer] : layers) {
      layer.layer = layer_prefix(context_.config, l);
      if (layer.at_hand < layer.expected) report_.coverage.push_back(std::move(layer));
    }
  }

  void note_files() {
    for (const ShardFile& file : context_.shards.files()) {
      const std::string name = file.path.filename();
      if (file.state == ShardFile::State::Used) {
        ++report_.shards;
        if (name != file.shard) report_.notes.push_back(fmt::format("{} is taken for {}", name, file.shard));
      }
      if (file.state == ShardFile::State::Duplicate)
        report_.notes.push_back(fmt::format("{} skipped: its header is that of {}", name, file.error));
      if (file.state == ShardFile::State::Stray)
        report_.notes.push_back(fmt::format("{} ignored: the index does not name it", name));
      if (file.state == ShardFile::State::Arriving)
        report_.notes.push_back(fmt::format("{} is still arriving: {}", name, file.error));
    }
    const auto& missing = context_.shards.missing_shards();
    if (!missing.empty())
      report_.notes.push_back(
          fmt::format("{} shards are not at hand: {}", missing.size(), fmt::join(missing, ", ")));
    for (const std::string& key : context_.config.unknown_keys)
      report_.notes.push_back(fmt::format("the config has the unknown key '{}'", key));
  }

  const AuditOptions& options_;
  AuditContext context_;
  bool inventory_ok_ = true;
  AuditReport report_;
};

}  // namespace

std::int64_t AuditReport::count(Verdict verdict) const {
  return std::ranges::count(checks, verdict, &AuditCheck::verdict);
}

bool AuditReport::passed(bool require_complete) const {
  return count(Verdict::Fail) == 0 && (!require_complete || count(Verdict::Undecided) == 0);
}

Result<AuditReport> audit(const ModelConfig& config, const ShardSet& shards, const AuditOptions& options) {
  return Auditor(config, shards, options).run();
}

}  // namespace dsv
