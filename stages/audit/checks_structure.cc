// The audit's checks of Engram, of the CSA2 roles, and of the tensor inventory.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "stages/audit/checks.h"
#include "stages/engram/tables.h"

namespace dsv {

namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::ranges::find(list, value) != list.end();
}

template <class Visit>
void for_each(const AuditContext& a, std::initializer_list<Family> families, Visit visit) {
  for (const ExpectedTensor& t : a.expected)
    if (std::ranges::find(families, t.family) != families.end()) visit(t);
}

// Engram

/// Rows that the buckets of each Engram layer need.
flow::Result<std::vector<std::int64_t>> derived_rows(const ModelConfig& c) {
  EngramParams params = engram_params(c);
  params.compressed_vocab = 1;  // row counts depend on neither
  params.pad_id = 0;
  FLOW_ASSIGN(const EngramLayout layout, EngramLayout::derive(std::move(params)));
  std::vector<std::int64_t> rows;
  for (const EngramLayerLayout& layer : layout.layers) rows.push_back(layer.rows);
  return rows;
}

void table_places(const AuditContext& a, Finding& f) {
  for (int l = 0; l < a.config.n_layers; ++l)
    for (const char* name : {"weight", "scale"})
      a.expect_only_if(a.config.is_engram_layer(l), f, fmt::format("layers.{}.engram.embed.{}", l, name),
                       "which is no Engram layer");
  a.expect_nothing_else(f, Owner::Engram);
}

void gate_projections(const AuditContext& a, Finding& f) {
  const auto derived = derived_rows(a.config);
  const bool layout_holds = derived.ok() && *derived == a.config.engram_num_embeddings;
  for_each(a, {Family::EngramGate}, [&](const ExpectedTensor& t) {
    a.expect_present(f, t);
    // A contested number of heads is reported once, with the row counts; the width follows from it.
    const bool judge_shape = !t.is_scale() && (layout_holds || !t.name.ends_with("wkv.weight"));
    if (judge_shape)
      a.expect_header(f, t, true);
    else
      a.header(f, t);
  });
}

void table_rows(const AuditContext& a, Finding& f) {
  if (!a.config.has_engram()) return;
  const auto rows = derived_rows(a.config);
  if (!rows.ok()) return f.fail("{}", rows.status().message());
  const std::string figures = fmt::format("declared={} derived={}", a.config.engram_num_embeddings, *rows);
  f.note(figures);
  f.expect(*rows == a.config.engram_num_embeddings, "{}", figures);
}

void table_types(const AuditContext& a, Finding& f) {
  for_each(a, {Family::EngramTable}, [&](const ExpectedTensor& t) {
    const TensorInfo* found = a.header(f, t);
    if (found == nullptr) return;
    // The scale's rows are the next check's: they have to be the weight's.
    const bool rows = t.is_scale() || (!found->shape.empty() && found->shape[0] == t.shape[0]);
    f.expect(found->dtype == t.dtype && rows && found->shape.size() == 2 && found->shape[1] == t.shape[1],
             "{}, expected {} {}", a.describe(*found), dtype_name(t.dtype), shape_text(t.shape));
  });
}

void table_blocks(const AuditContext& a, Finding& f) {
  for_each(a, {Family::EngramTable}, [&](const ExpectedTensor& t) {
    if (t.is_scale()) return;
    const std::string scale_name = t.name.substr(0, t.name.rfind('.')) + ".scale";
    const TensorInfo *weight = a.header(f, t), *scale = a.header(f, scale_name);
    if (weight == nullptr || scale == nullptr || weight->shape.size() != 2) return;
    const std::vector<std::int64_t> expected = {weight->shape[0],
                                                (weight->shape[1] + kRowBlock - 1) / kRowBlock};
    if (scale->shape != expected)
      f.fail("{}, expected {} for {} and blocks of 1x{}", a.describe(*scale), shape_text(expected),
             shape_text(weight->shape), kRowBlock);
  });
}

// CSA2 roles

void exactly_on(const AuditContext& a, Finding& f, std::string_view tensor, std::string_view reason,
                auto belongs) {
  for (int l = 0; l < a.config.n_layers; ++l)
    a.expect_only_if(belongs(l), f, fmt::format("layers.{}.attn.{}.weight", l, tensor), reason);
}

void compressor_places(const AuditContext& a, Finding& f) {
  exactly_on(a, f, "compressor.wkv", "which is no KV source",
             [&](int l) { return contains(a.config.kv_source_layers, l); });
}

void gate_places(const AuditContext& a, Finding& f) {
  exactly_on(a, f, "compressor.wgate", "which is no KV source with a ratio over 1", [&](int l) {
    return contains(a.config.kv_source_layers, l) &&
           static_cast<std::size_t>(l) < a.config.compress_ratios.size() &&
           a.config.compress_ratios[static_cast<std::size_t>(l)] > 1;
  });
}

void index_key_places(const AuditContext& a, Finding& f) {
  exactly_on(a, f, "indexer.wk", "which is no KV source",
             [&](int l) { return contains(a.config.kv_source_layers, l); });
}

void index_query_places(const AuditContext& a, Finding& f) {
  exactly_on(a, f, "indexer.wq_b", "which is no index source",
             [&](int l) { return contains(a.config.index_source_layers, l); });
}

void roles_partition(const AuditContext& a, Finding& f) {
  std::array<int, 3> layers{};  // Full, Reindex, the rest
  for (int l = 0; l < a.config.n_layers; ++l) {
    bool unknown = false;
    const auto owns = [&](std::string_view tensor) {
      const std::string name = fmt::format("layers.{}.attn.{}.weight", l, tensor);
      const Presence presence = a.shards.presence(name);
      if (presence == Presence::Unknown) f.wait(a.shards.waiting_for(name)), unknown = true;
      return presence == Presence::AtHand || presence == Presence::Pending;
    };
    const bool compressor = owns("compressor.wkv"), keys = owns("indexer.wk"), queries = owns("indexer.wq_b");
    if (unknown) continue;
    f.expect(compressor == keys && (queries || !keys),
             "layer {} has {}a compressor, {}index keys and {}index queries, which is no role", l,
             compressor ? "" : "not ", keys ? "" : "no ", queries ? "" : "no ");
    ++layers[keys ? 0 : queries ? 1 : 2];
  }
  f.note(fmt::format("{} Full, {} Reindex, {} Reuse or window only", layers[0], layers[1], layers[2]));
}

// Inventory

void full_sets(const AuditContext& a, Finding& f) {
  for_each(a, {Family::Plain, Family::Compression}, [&](const ExpectedTensor& t) {
    if (t.layer < a.config.n_layers && !tells_role(t.name)) a.expect_present(f, t);
  });
  a.expect_nothing_else(f, Owner::Inventory);
}

void known_shapes(const AuditContext& a, Finding& f) {
  for_each(a, {Family::Plain, Family::Compression}, [&](const ExpectedTensor& t) {
    if (!t.is_scale()) a.expect_header(f, t, t.dtype == DType::F8_E4M3);
  });
}

/// Presence of a scale is known from the index, the stored type only from the headers at hand.
void unquantized(const AuditContext& a, Finding& f) {
  for (const ExpectedTensor& t : a.expected) {
    if (t.dtype != DType::BF16 && t.dtype != DType::F32) continue;
    if (t.header != nullptr && t.header->dtype != t.dtype)
      f.fail("{}, expected {}", a.describe(*t.header), dtype_name(t.dtype));
  }
  a.expect_nothing_else(f, Owner::Quantized);
}

void counts(const AuditContext& a, Finding& f) {
  const std::size_t tensors = a.tensors.size();
  std::uint64_t bytes = 0;
  for (const auto& [name, header] : a.tensors)
    if (header != nullptr) bytes += header->bytes();
  if (bytes == 0) f.wait(a.shards.missing_shards());
  const bool may_come = !a.shards.missing_shards().empty();
  f.expect(may_come || (tensors > 0 && bytes > 0), "{} tensors, {} bytes", tensors, bytes);
  for (const std::string& conflict : a.shards.conflicts()) f.fail("{} is in two files", conflict);
  for (const ShardFile& file : a.shards.files())
    for (const HeaderProblem& p : file.header.problems)
      if (p.fault == HeaderFault::Duplicate) f.fail("{}: {}", file.path.filename().string(), p.text());
}

constexpr std::array kChecks = {
    CheckSpec{"Engram", "the tables are on exactly the Engram layers", table_places},
    CheckSpec{"Engram", "every Engram layer has its gate and value projections", gate_projections},
    CheckSpec{"Engram", "the tables have exactly the rows that their buckets need", table_rows},
    CheckSpec{"Engram", "the tables are F8_E4M3 of the declared size, with E8M0 scales", table_types},
    CheckSpec{"Engram", "one scale of a table covers 32 elements of one row", table_blocks},
    CheckSpec{"CSA2", "compressors are on exactly the KV sources", compressor_places},
    CheckSpec{"CSA2", "compressor gates are on exactly the KV sources with a ratio over 1", gate_places},
    CheckSpec{"CSA2", "index keys are on exactly the KV sources", index_key_places},
    CheckSpec{"CSA2", "index queries are on exactly the index sources", index_query_places},
    CheckSpec{"CSA2", "every layer owns the tensors of one role", roles_partition},
    CheckSpec{"Inventory", "embedding, head and every layer have their full set, and nothing else",
              full_sets},
    CheckSpec{"Inventory", "the known shapes match the config", known_shapes},
    CheckSpec{"Inventory", "F32 and BF16 tensors have no scale, and those at hand their type", unquantized},
    CheckSpec{"Inventory", "there are tensors and bytes, and each tensor once", counts},
};

}  // namespace

std::span<const CheckSpec> structure_checks() {
  return kChecks;
}

}  // namespace dsv
