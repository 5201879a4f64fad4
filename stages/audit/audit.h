// The header audit: does a checkpoint hold exactly what its config calls for? No weight is read.
#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "stages/audit/inventory.h"
#include "stages/audit/shard_set.h"
#include "stages/model/config.h"

namespace dsv {

enum class Verdict : std::uint8_t {
  Pass,
  Fail,
  Undecided,  ///< the evidence is in a shard that is not at hand; never counted as a pass
};

std::string_view verdict_name(Verdict verdict);

struct AuditCheck {
  std::string group;
  std::string title;
  Verdict verdict = Verdict::Pass;
  std::string detail;                  ///< failing evidence, or a figure worth knowing
  std::vector<std::string> waits_for;  ///< shards that an undecided check needs, sorted
};

/// One row of the category table.
struct CategoryRow {
  Category category = Category::Other;
  std::int64_t tensors = 0;  ///< by the index where there is one, else by the headers
  std::uint64_t bytes = 0;   ///< of those whose header is at hand
};

/// How much of one layer can be seen.
struct LayerCoverage {
  std::string layer;          ///< "layers.3"
  std::int64_t expected = 0;  ///< tensors that the config calls for
  std::int64_t at_hand = 0;   ///< of these, described by a header at hand
  std::vector<std::string> waits_for;
};

struct AuditOptions {
  /// {rows, columns} that share a scale; empty: what the config states, else what the first scale shows.
  std::optional<std::array<int, 2>> fp8_block;
};

struct AuditReport {
  std::string config;  ///< path and layout
  std::string shape;   ///< ModelConfig::shape_line
  std::vector<AuditCheck> checks;
  std::vector<CategoryRow> categories;  ///< only those that have tensors
  std::vector<LayerCoverage> coverage;  ///< only layers that are not entirely at hand
  std::vector<std::string> notes;       ///< files that were skipped and why, missing shards
  std::int64_t shards = 0;              ///< files used
  std::int64_t tensors = 0;             ///< all names of index and headers
  std::int64_t readable = 0;            ///< of these, described by a header at hand
  std::uint64_t bytes = 0;              ///< payload of the readable ones

  std::int64_t count(Verdict verdict) const;
  /// No check failed, and with `require_complete` none is undecided either.
  bool passed(bool require_complete) const;
};

/// Runs every check. Errors only where no report is possible (a config that calls for absurd sizes).
flow::Result<AuditReport> audit(const ModelConfig& config, const ShardSet& shards,
                                const AuditOptions& options = {});

/// The report as text for people: checks by group, coverage, categories, totals, verdict.
std::string to_text(const AuditReport& report, bool require_complete);

/// The report as JSON.
boost::json::object to_json(const AuditReport& report, bool require_complete);

/// One line per tensor at hand whose name matches the shell pattern: name, dtype, shape, bytes, shard,
/// separated by tabs.
std::string list_tensors(const ShardSet& shards, const std::string& pattern);

}  // namespace dsv
