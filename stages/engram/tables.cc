#include "stages/engram/tables.h"

#include <algorithm>
#include <cstring>

namespace dsv {
using flow::Result;
using flow::Status;
namespace {

constexpr std::int64_t kGroup = 32;

}  // namespace

EngramParams engram_params(const ModelConfig& c) {
  EngramParams p;
  p.layer_ids.assign(c.engram_layer_ids.begin(), c.engram_layer_ids.end());
  p.max_ngram = c.engram_max_ngram_size;
  p.n_heads = c.engram_n_heads;
  p.bucket_floor = c.engram_vocab_size;
  p.compressed_vocab = c.engram_compressed_vocab_size;
  p.pad_id = c.engram_pad_id;
  p.declared_rows = c.engram_num_embeddings;
  return p;
}

void EngramTables::describe(flow::ServiceSpec<Options>& spec) {
  spec.doc(
      "Engram n-gram tables: the hash from token ids to rows, and the rows, read from the shards or held in "
      "memory.");
  spec.uses(kModel).uses(kVocabulary);
  spec.option("resident", &Options::resident,
              "hold the whole tables in memory instead of reading rows on demand");
}

Status EngramTables::bind(const flow::Opening& opening) {
  model_ = opening.service(kModel);
  const ModelConfig& c = model_->config();
  if (!c.has_engram()) return {};
  if (c.engram_head_dim % kGroup != 0)
    return flow::errorf("engram_head_dim {} is not a multiple of {}", c.engram_head_dim, kGroup);
  FLOW_ASSIGN(EngramLayout layout, EngramLayout::derive(engram_params(c)));
  FLOW_TRY(layout.verify());
  FLOW_ASSIGN(TokenMap map, build_token_map(opening.service(kVocabulary)->tokenizer()));
  FLOW_ASSIGN(hasher_, EngramHasher::make(std::make_shared<const EngramLayout>(std::move(layout)),
                                          std::make_shared<const TokenMap>(std::move(map))));
  for (std::size_t slot = 0; slot < c.engram_layer_ids.size(); ++slot) {
    const std::string name = fmt::format("layers.{}.engram.embed.", c.engram_layer_ids[slot]);
    const std::int64_t rows = c.engram_num_embeddings[slot];
    Table& table = tables_.emplace_back();
    FLOW_ASSIGN(table.codes,
                model_->checkpoint().require(name + "weight", DType::F8_E4M3, {rows, c.engram_head_dim}));
    FLOW_ASSIGN(table.scales, model_->checkpoint().require(name + "scale", DType::F8_E8M0,
                                                           {rows, c.engram_head_dim / kGroup}));
  }
  return {};
}

Status EngramTables::open(const flow::Opening& opening) {
  FLOW_TRY(bind(opening));
  if (!options_.resident) return {};
  for (Table& table : tables_) FLOW_TRY(load(table, opening));
  return {};
}

Result<std::vector<flow::PlanLine>> EngramTables::plan(const flow::Opening& opening) {
  FLOW_TRY(bind(opening));
  std::uint64_t resident = 0, step = 0;
  for (const Table& table : tables_) {
    resident += table.codes->bytes() + table.scales->bytes();
    const std::uint64_t row =
        (table.codes->bytes() + table.scales->bytes()) / static_cast<std::uint64_t>(table.codes->shape[0]);
    step += row * static_cast<std::uint64_t>(hasher_->layout().columns());
  }
  if (options_.resident) return std::vector<flow::PlanLine>{{"Engram tables", resident, resident, 0}};
  return std::vector<flow::PlanLine>{{"Engram rows", 0, 0, step}};
}

Status EngramTables::load(Table& table, const flow::Opening& opening) {
  constexpr std::uint64_t kChunk = 256u << 20;
  for (auto [tensor, memory] :
       {std::pair{table.codes, &table.resident_codes}, {table.scales, &table.resident_scales}}) {
    memory->resize(tensor->bytes());
    for (std::uint64_t at = 0; at < memory->size(); at += kChunk) {
      const std::uint64_t size = std::min<std::uint64_t>(kChunk, memory->size() - at);
      FLOW_TRY(model_->checkpoint().read(*tensor, at, std::span(*memory).subspan(at, size)));
      if (memory->size() > kChunk) {
        opening.console().note(
            fmt::format("load: {}: {} of {} MiB", tensor->name, (at + size) >> 20, memory->size() >> 20));
      }
    }
  }
  return {};
}

Status EngramTables::fetch(const Table& table, std::span<const std::int64_t> rows, std::byte* codes,
                           std::byte* scales) const {
  const std::int64_t width = model_->config().engram_head_dim, groups = width / kGroup;
  if (options_.resident) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(codes + static_cast<std::int64_t>(i) * width, table.resident_codes.data() + rows[i] * width,
                  static_cast<std::size_t>(width));
      std::memcpy(scales + static_cast<std::int64_t>(i) * groups,
                  table.resident_scales.data() + rows[i] * groups, static_cast<std::size_t>(groups));
    }
    return {};
  }
  FLOW_ASSIGN(const GatherCount a, model_->checkpoint().gather_rows(*table.codes, rows, codes, width));
  FLOW_ASSIGN(const GatherCount b, model_->checkpoint().gather_rows(*table.scales, rows, scales, groups));
  const std::lock_guard lock(mutex_);
  asked_ += rows.size();
  read_ += static_cast<std::uint64_t>(a.reads + b.reads);
  bytes_ += static_cast<std::uint64_t>(a.bytes + b.bytes);
  return {};
}

Result<Rows<bf16>> EngramTables::gather(int slot, std::span<const std::int64_t> rows) const {
  const std::int64_t width = model_->config().engram_head_dim, count = static_cast<std::int64_t>(rows.size());
  Rows<std::uint8_t> codes(count, width), scales(count, width / kGroup);
  FLOW_TRY(fetch(tables_[static_cast<std::size_t>(slot)], rows, reinterpret_cast<std::byte*>(codes.data()),
                 reinterpret_cast<std::byte*>(scales.data())));
  Rows<bf16> out(count, width);
  for (std::int64_t i = 0; i < count; ++i) {
    model_->kernels().dequantize_fp8(codes.row(i), scales.row(i), width, out.row(i));
  }
  return out;
}

void EngramTables::close(flow::RunReport& report) {
  if (tables_.empty()) return;
  report.set("engram",
             {{"rows", asked_}, {"reads", read_}, {"bytes_read", bytes_}, {"resident", options_.resident}});
}

FLOW_REGISTER_SERVICE(EngramTables);

}  // namespace dsv
