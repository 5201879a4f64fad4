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
  spec.uses(kModel).uses(kVocabulary).uses(kIo);
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
  reader_ = std::make_unique<Reader>(opening.service(kIo));
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
    for (std::uint64_t at = 0; at < memory->size() && !opening.cancelled(); at += kChunk) {
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

EngramTables::Packed EngramTables::copy(const Table& table, std::span<const std::int64_t> rows) const {
  const std::int64_t width = model_->config().engram_head_dim, groups = width / kGroup;
  const auto count = static_cast<std::int64_t>(rows.size());
  Packed packed{Rows<std::uint8_t>(count, width), Rows<std::uint8_t>(count, groups)};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    std::memcpy(packed.codes.row(i), table.resident_codes.data() + row * width,
                static_cast<std::size_t>(width));
    std::memcpy(packed.scales.row(i), table.resident_scales.data() + row * groups,
                static_cast<std::size_t>(groups));
  }
  return packed;
}

Result<EngramTables::Packed> EngramTables::read(const Table& table,
                                                std::span<const std::int64_t> rows) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t width = model_->config().engram_head_dim;
  Packed packed{Rows<std::uint8_t>(count, width), Rows<std::uint8_t>(count, width / kGroup)};
  Reads reads;
  reads.reserve(2 * rows.size());
  for (auto [tensor, out] : {std::pair{table.codes, &packed.codes}, {table.scales, &packed.scales}}) {
    const auto size = static_cast<std::uint64_t>(out->cols());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::uint64_t>(rows[static_cast<std::size_t>(i)]);
      reads.push_back({&model_->checkpoint().file_of(*tensor), tensor->begin + row * size,
                       std::as_writable_bytes(std::span(out->row(i), size))});
    }
  }
  FLOW_TRY(reader_->read(std::move(reads)).in(table.codes->name));
  const std::lock_guard lock(mutex_);
  distinct_ += rows.size();
  bytes_ += packed.codes.bytes().size() + packed.scales.bytes().size();
  return packed;
}

Result<Rows<bf16>> EngramTables::gather(int slot, std::span<const std::int64_t> rows) const {
  const Table& table = tables_[static_cast<std::size_t>(slot)];
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= table.codes->shape[0])
      return flow::errorf("{}: has no row {} (it has {})", table.codes->name, row, table.codes->shape[0]);
  }
  flow::StepVector<std::int64_t> distinct(rows.begin(), rows.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  FLOW_ASSIGN(const Packed packed,
              options_.resident ? Result<Packed>(copy(table, distinct)) : read(table, distinct));
  const std::int64_t width = packed.codes.cols();
  Rows<bf16> out(static_cast<std::int64_t>(rows.size()), width);
  for (std::int64_t i = 0; i < out.rows(); ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    const auto at = std::lower_bound(distinct.begin(), distinct.end(), row) - distinct.begin();
    model_->kernels().dequantize_fp8(packed.codes.row(at), packed.scales.row(at), width, out.row(i));
  }
  const std::lock_guard lock(mutex_);
  asked_ += rows.size();
  return out;
}

void EngramTables::close(flow::RunReport& report) {
  if (tables_.empty()) return;
  report.set(
      "engram",
      {{"rows", asked_}, {"rows_read", distinct_}, {"bytes_read", bytes_}, {"resident", options_.resident}});
}

FLOW_REGISTER_SERVICE(EngramTables);

}  // namespace dsv
