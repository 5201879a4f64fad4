#include "stages/audit/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>

#include "framework/core/units.h"
#include "stages/audit/inventory.h"
#include "stages/model/kv_cache.h"
#include "stages/model/model.h"

namespace dsv {

namespace json = boost::json;
using flow::bytes_text;

namespace {

/// Adds one tensor of the inventory to the plan.
void add(RunPlan& plan, const ModelConfig& config, const ExpectedTensor& tensor) {
  const std::uint64_t bytes = tensor_bytes(tensor.dtype, tensor.shape).value_or(0);
  plan.checkpoint += bytes;
  if (is_dense(tensor.name)) plan.dense += bytes;
  if (tensor.family == Family::Expert && tensor.layer < config.n_layers) plan.expert += bytes;
  if (tensor.family != Family::EngramTable) return;
  plan.engram_table += bytes;
  const std::int64_t columns = std::int64_t{config.engram_max_ngram_size - 1} * config.engram_n_heads;
  plan.engram_read +=
      bytes / static_cast<std::uint64_t>(tensor.shape[0]) * static_cast<std::uint64_t>(columns);
}

std::string verdict(const RunPlan& plan, const Machine& machine) {
  if (machine.memory == 0) return "memory of this machine unknown";
  const std::int64_t largest = plan.largest_cache(machine.memory);
  const std::string available = bytes_text(machine.memory) + " available";
  const std::string hint =
      largest > 0 ? fmt::format("expert_cache up to {} fits", largest) : std::string("no expert_cache fits");
  return fmt::format("{}: {}; {}", available, plan.memory() <= machine.memory ? "fits" : "does not fit",
                     hint);
}

}  // namespace

Machine this_machine(const std::filesystem::path& folder) {
  Machine machine;
  std::ifstream lines("/proc/meminfo");
  std::string key, unit;
  for (std::uint64_t kib = 0; lines >> key >> kib; std::getline(lines, unit))
    if (key == "MemAvailable:") machine.memory = kib * 1024;
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (!error) machine.disk = space.available;
  return machine;
}

std::int64_t RunPlan::largest_cache(std::uint64_t memory) const {
  const std::uint64_t each = static_cast<std::uint64_t>(layers) * expert;
  if (memory <= fixed_memory() || each == 0) return 0;
  return static_cast<std::int64_t>(
      std::min((memory - fixed_memory()) / each, static_cast<std::uint64_t>(experts)));
}

flow::Result<RunPlan> plan_run(const ModelConfig& config, const ShardSet& shards,
                               const RunPlanOptions& options) {
  FLOW_TRY(check_config(config).in("no plan for this config"));
  FLOW_ASSIGN(const std::vector<ExpectedTensor> tensors,
              expected_tensors(config, config.weight_block_size.value_or(std::array{kRowBlock, kRowBlock})));
  RunPlan plan;
  for (const ExpectedTensor& tensor : tensors) {
    add(plan, config, tensor);
    if (const TensorInfo* found = shards.find(tensor.name)) plan.at_hand += found->bytes();
  }
  plan.layers = config.n_layers;
  plan.experts = config.n_routed_experts;
  plan.cached = std::min(options.expert_cache, plan.experts);
  plan.expert /= static_cast<std::uint64_t>(std::max<std::int64_t>(1, plan.layers * plan.experts));
  plan.resident_engram = options.resident_engram;
  if (plan.resident_engram) plan.engram_read = 0;
  plan.context = config.context_length();
  plan.context_cache = kv_cache_bytes(config, plan.context);
  plan.expert_read = static_cast<std::uint64_t>(plan.layers * config.n_activated_experts) * plan.expert;
  const double missed = 1 - static_cast<double>(plan.cached) / std::max<double>(1, config.n_routed_experts);
  plan.expert_read_spread = static_cast<std::uint64_t>(static_cast<double>(plan.expert_read) * missed);
  return plan;
}

std::string to_text(const RunPlan& p, const Machine& machine) {
  std::string text = "\nplan for this machine\n";
  const auto line = [&](std::string_view what, std::uint64_t bytes, const std::string& remark) {
    text += fmt::format("  {:<18} {:>11}  {}\n", what, bytes_text(bytes), remark);
  };
  line("dense weights", p.dense, "resident");
  line("expert cache", p.expert_memory(),
       fmt::format("{} of {} experts of {} in each of {} layers", p.cached, p.experts, bytes_text(p.expert),
                   p.layers));
  line("Engram tables", p.resident_engram ? p.engram_table : 0,
       p.resident_engram
           ? "resident"
           : fmt::format("rows are read; resident_engram holds {}", bytes_text(p.engram_table)));
  line("attention cache", p.context_cache, fmt::format("of one sequence of {} tokens", p.context));
  line("memory", p.memory(), verdict(p, machine));
  line("read for a token", p.expert_read + p.engram_read,
       fmt::format("at most; {} when experts are chosen equally often; {} are Engram rows",
                   bytes_text(p.expert_read_spread + p.engram_read), bytes_text(p.engram_read)));
  line("checkpoint", p.checkpoint,
       fmt::format("{} at hand, {} to come; {} free on disk", bytes_text(p.at_hand),
                   bytes_text(p.checkpoint - std::min(p.checkpoint, p.at_hand)), bytes_text(machine.disk)));
  return text;
}

json::object to_json(const RunPlan& p, const Machine& machine) {
  return {{"dense", p.dense},
          {"expert", p.expert},
          {"experts_cached", p.cached},
          {"expert_cache", p.expert_memory()},
          {"engram_tables", p.engram_table},
          {"resident_engram", p.resident_engram},
          {"context", p.context},
          {"context_cache", p.context_cache},
          {"memory", p.memory()},
          {"memory_available", machine.memory},
          {"fits", machine.memory > 0 && p.memory() <= machine.memory},
          {"largest_expert_cache", p.largest_cache(machine.memory)},
          {"expert_read", p.expert_read},
          {"expert_read_spread", p.expert_read_spread},
          {"engram_read", p.engram_read},
          {"checkpoint", p.checkpoint},
          {"at_hand", p.at_hand},
          {"disk_free", machine.disk}};
}

}  // namespace dsv
