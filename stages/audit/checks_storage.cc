// The audit's checks of how tensors are packed and filed: quantization, experts, drafts, vision, files.
#include <algorithm>
#include <array>

#include "stages/audit/checks.h"

namespace dsv {

namespace {

std::string scale_of(std::string_view weight) {
  return std::string(weight.substr(0, weight.rfind('.'))) + ".scale";
}

std::int64_t blocks(std::int64_t size, std::int64_t block) {
  return (size + block - 1) / block;
}

/// Every problem of the used headers whose fault is one of `faults`.
void fail_faults(const AuditContext& a, Finding& f, std::initializer_list<HeaderFault> faults) {
  for (const ShardFile& file : a.shards.files())
    for (const HeaderProblem& p : file.header.problems)
      if (file.state == ShardFile::State::Used && std::ranges::find(faults, p.fault) != faults.end())
        f.fail("{}: {}", file.path.filename().string(), p.text());
}

// Packing

void extents(const AuditContext& a, Finding& f) {
  fail_faults(a, f,
              {HeaderFault::UnknownDtype, HeaderFault::Shape, HeaderFault::Offsets, HeaderFault::Extent,
               HeaderFault::Overlap, HeaderFault::Gap});
}

/// Whether `blocks_found` blocks can cover `size` elements evenly, or but for a shorter last one.
bool covers(std::int64_t size, std::int64_t blocks_found, std::int64_t block) {
  return blocks_found > 0 && (size % blocks_found == 0 || blocks(size, block) == blocks_found);
}

void pairs(const AuditContext& a, Finding& f) {
  const std::array<int, 2> block = a.fp8_block.value_or(std::array{kRowBlock, kRowBlock});
  for (const auto& [name, scale] : a.tensors) {
    if (!name.ends_with(".scale")) continue;
    const std::string weight_name = std::string(name.substr(0, name.rfind('.'))) + ".weight";
    const TensorInfo* weight = a.shards.find(weight_name);
    if (weight == nullptr && a.shards.presence(weight_name) == Presence::Absent)
      f.fail("{} has no weight beside it", name);
    if (scale == nullptr || weight == nullptr) continue;
    const int packed = weight->dtype == DType::I8 ? 2 : 1;  // two FP4 codes a byte
    bool even = scale->dtype == DType::F8_E8M0 && scale->shape.size() == weight->shape.size();
    for (std::size_t i = 0; even && i < scale->shape.size(); ++i) {
      const bool last = i + 1 == scale->shape.size();
      even = covers(weight->shape[i] * (last ? packed : 1), scale->shape[i], block[last ? 1 : 0]);
    }
    if (!even) f.fail("{} does not divide {} into blocks", a.describe(*scale), a.describe(*weight));
  }
}

void fp8_blocks(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected) {
    if (t.dtype != DType::F8_E4M3 || t.family == Family::EngramTable) continue;
    const TensorInfo *weight = a.header(f, t), *scale = a.header(f, scale_of(t.name));
    if (weight == nullptr || scale == nullptr || weight->shape.size() != 2 || !a.fp8_block) continue;
    const auto& block = *a.fp8_block;
    const std::vector<std::int64_t> expected = {blocks(weight->shape[0], block[0]),
                                                blocks(weight->shape[1], block[1])};
    if (scale->shape != expected)
      f.fail("{}, expected {} for {} and blocks of {}x{}", a.describe(*scale), shape_text(expected),
             shape_text(weight->shape), block[0], block[1]);
  }
  if (a.fp8_block) f.note(fmt::format("{}x{}, {}", (*a.fp8_block)[0], (*a.fp8_block)[1], a.fp8_block_origin));
}

// Experts

void expert_packing(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.family == Family::Expert) a.expect_header(f, t, true);
}

void backbone_experts(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.family == Family::Expert && t.layer < a.config.n_layers) a.expect_present(f, t);
  a.expect_nothing_else(f, Owner::Experts);
  f.note(fmt::format("{} per layer", a.config.n_routed_experts));
}

void draft_experts(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.family == Family::Expert && t.layer >= a.config.n_layers) a.expect_present(f, t);
  a.expect_nothing_else(f, Owner::DraftExperts);
  f.note(fmt::format("{} per layer", a.config.dspark_n_routed_experts));
}

// DSpark

void draft_heads(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.family == Family::DraftHead) a.expect_header(f, t, false);
}

void draft_projection(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.family == Family::DraftProjection && !t.is_scale()) a.expect_header(f, t, false);
}

void draft_sets(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.layer >= a.config.n_layers && t.family != Family::Expert) a.expect_present(f, t);
  a.expect_nothing_else(f, Owner::Draft);
}

// Vision

void vision_blocks(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.family == Family::Vision) a.expect_present(f, t);
  a.expect_nothing_else(f, Owner::Vision);
  f.note(fmt::format("{} blocks", a.config.vision_n_layers));
}

void vision_shapes(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected)
    if (t.family == Family::Vision) a.expect_header(f, t, false);
}

// Files

void files(const AuditContext& a, Finding& f) {
  for (const ShardFile& file : a.shards.files())
    if (file.state == ShardFile::State::Unreadable) f.fail("{}", file.error);
  fail_faults(a, f, {HeaderFault::Malformed, HeaderFault::BeyondFile});
}

/// Names of the index that are at hand must be exactly those of the headers, file by file.
void index_assignment(const AuditContext& a, Finding& f) {
  if (!a.shards.index()) return f.fail("{}", a.shards.index_error());
  const CheckpointIndex& index = *a.shards.index();
  for (const ShardFile& file : a.shards.files()) {
    const std::string name = file.path.filename();
    if (file.state == ShardFile::State::Duplicate && std::ranges::binary_search(index.shards, name))
      f.fail("{} holds the tensors of {}", name, file.error);
    if (file.state != ShardFile::State::Used) continue;
    for (const TensorInfo& tensor : file.header.tensors) {
      const auto place = index.shard_of.find(tensor.name);
      if (place == index.shard_of.end())
        f.fail("{} holds {}, which the index does not name", name, tensor.name);
      else if (const auto& shard = index.shards[static_cast<std::size_t>(place->second)]; shard != file.shard)
        f.fail("{} holds {}, which the index places in {}", name, tensor.name, shard);
    }
  }
  for (const auto& [tensor, header] : a.tensors)
    if (header == nullptr && a.shards.presence(tensor) == Presence::Absent)
      f.fail("{} lacks {}", index.shards[static_cast<std::size_t>(index.shard_of.find(tensor)->second)],
             tensor);
}

constexpr std::array kChecks = {
    CheckSpec{"Packing", "every extent at hand is what type and shape take, without overlap or gap", extents,
              false},
    CheckSpec{"Packing", "every scale at hand divides its weight into blocks", pairs, false},
    CheckSpec{"Packing", "all dense FP8 weights have the same block", fp8_blocks},
    CheckSpec{"Experts", "w1, w2 and w3 are FP4 packed in I8, with E8M0 scales per 32", expert_packing},
    CheckSpec{"Experts", "every backbone layer has its routed experts", backbone_experts},
    CheckSpec{"Experts", "every draft layer has its routed experts", draft_experts},
    CheckSpec{"DSpark", "the Markov and confidence heads match the config", draft_heads},
    CheckSpec{"DSpark", "main_proj reads one hidden state per draft layer", draft_projection},
    CheckSpec{"DSpark", "every draft layer has attention and FFN, only the last the heads", draft_sets},
    CheckSpec{"Vision", "all blocks, the aligner and the image vectors are there", vision_blocks},
    CheckSpec{"Vision", "the shapes of encoder and aligner match the config", vision_shapes},
    CheckSpec{"Files", "every file has a readable header and its whole payload", files, false},
};

constexpr CheckSpec kIndexCheck{"Index", "every shard at hand holds exactly what the index assigns to it",
                                index_assignment, false};

}  // namespace

std::span<const CheckSpec> storage_checks() {
  return kChecks;
}
const CheckSpec& index_check() {
  return kIndexCheck;
}

}  // namespace dsv
