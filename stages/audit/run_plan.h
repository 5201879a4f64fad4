// What running a checkpoint takes on a machine: memory, disk, and bytes read per token. From the config and
// the headers alone.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <string>

#include "framework/core/status.h"
#include "stages/audit/shard_set.h"
#include "stages/model/config.h"

namespace dsv {

struct RunPlanOptions {
  std::int64_t expert_cache = 16;  ///< routed experts kept in memory for each layer
  bool resident_engram = false;    ///< hold the Engram tables in memory
};

/// What a machine can give.
struct Machine {
  std::uint64_t memory = 0;  ///< bytes that can be allocated without swapping
  std::uint64_t disk = 0;    ///< bytes free where the checkpoint lies
};

/// This machine, with the disk that holds `folder`. What cannot be found out is 0.
Machine this_machine(const std::filesystem::path& folder);

struct RunPlan {
  // Memory
  std::uint64_t dense = 0;         ///< weights that stay in memory
  std::int64_t layers = 0;         ///< each with an expert cache
  std::int64_t experts = 0;        ///< of one layer
  std::int64_t cached = 0;         ///< of these, how many its cache holds
  std::uint64_t expert = 0;        ///< bytes of one expert
  std::uint64_t engram_table = 0;  ///< bytes of all Engram tables
  bool resident_engram = false;
  std::int64_t context = 0;         ///< tokens of the longest sequence
  std::uint64_t context_cache = 0;  ///< bytes that attention keeps of it
  // Reading for one token
  std::uint64_t expert_read = 0;         ///< at most
  std::uint64_t expert_read_spread = 0;  ///< on average, when tokens choose all experts equally often
  std::uint64_t engram_read = 0;
  // Disk
  std::uint64_t checkpoint = 0;  ///< payload of the whole checkpoint
  std::uint64_t at_hand = 0;     ///< of this, what headers at hand describe

  std::uint64_t expert_memory() const {
    return static_cast<std::uint64_t>(layers) * static_cast<std::uint64_t>(cached) * expert;
  }
  /// Memory without the expert caches.
  std::uint64_t fixed_memory() const { return dense + context_cache + (resident_engram ? engram_table : 0); }
  std::uint64_t memory() const { return fixed_memory() + expert_memory(); }
  /// Most experts for each layer that fit into `memory` bytes; 0 when not even one does.
  std::int64_t largest_cache(std::uint64_t memory) const;
};

/// Computes the plan. Error: the config is incomplete or contradicts itself.
flow::Result<RunPlan> plan_run(const ModelConfig& config, const ShardSet& shards,
                               const RunPlanOptions& options = {});

/// The plan for people, set against the machine.
std::string to_text(const RunPlan& plan, const Machine& machine);

/// The same as JSON.
boost::json::object to_json(const RunPlan& plan, const Machine& machine);

}  // namespace dsv
