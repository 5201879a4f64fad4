// The Engram tables as a service: hash front end and row access.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stages/engram/hash.h"
#include "stages/model/io/storage.h"
#include "stages/model/model.h"
#include "stages/model/rows.h"
#include "stages/text/vocabulary.h"

namespace dsv {

/// What the Engram layout of a config is derived from.
EngramParams engram_params(const ModelConfig& config);

/// Rows of the Engram tables, gathered from the shards or from memory.
///
/// A row is engram_head_dim E4M3 codes with one E8M0 scale for 32 columns. Rows asked for twice are read
/// once, all of a pass together, in file order. Source: reference `Engram`; MODEL "Engram".
class EngramTables final : public flow::Service {
 public:
  struct Options {
    bool resident = false;
  };
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit EngramTables(Options options) : options_(options) {}

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;
  void close(flow::RunReport& report) override;

  /// Null hasher: the model has no Engram layers.
  const EngramHasher* hasher() const { return hasher_ ? &*hasher_ : nullptr; }

  /// Dequantized rows of the table of Engram slot `slot`, out [rows.size(), engram_head_dim] bf16.
  flow::Result<Rows<bf16>> gather(int slot, std::span<const std::int64_t> rows) const;

 private:
  struct Table {
    const TensorInfo* codes = nullptr;
    const TensorInfo* scales = nullptr;
    std::vector<std::byte> resident_codes, resident_scales;
  };
  flow::Status bind(const flow::Opening& opening);
  flow::Status load(Table& table, const flow::Opening& opening);
  struct Packed {
    Rows<std::uint8_t> codes, scales;
  };
  Packed copy(const Table& table, std::span<const std::int64_t> rows) const;
  flow::Result<Packed> read(const Table& table, std::span<const std::int64_t> rows) const;

  Options options_;
  std::shared_ptr<Model> model_;
  std::optional<EngramHasher> hasher_;
  std::vector<Table> tables_;
  std::unique_ptr<Reader> reader_;
  mutable std::mutex mutex_;
  mutable std::uint64_t asked_ = 0, distinct_ = 0, bytes_ = 0;
};

inline constexpr flow::Uses<EngramTables> kEngram{"engram", "Engram hash and tables"};

}  // namespace dsv
