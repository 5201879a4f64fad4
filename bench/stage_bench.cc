#include "bench/stage_bench.h"

#include <benchmark/benchmark.h>
#include <fmt/ranges.h>

#include <memory>
#include <sstream>

#include "bench/disk.h"
#include "bench/kernels/machine.h"
#include "framework/core/names.h"
#include "framework/testing/stage_replay.h"

namespace dsv::bench {
namespace {

using flow::Result;
using flow::StageReplay;
using flow::Status;

/// A limit of the machine, measured once, and only when a benchmark asks.
struct Limit {
  const char* counter;
  double bytes_per_second;
};

Result<Limit> limit_of(const flow::NodePlan& node, const std::filesystem::path& folder) {
  if (node.executor == flow::Executor::io) {
    static const auto disk = disk_bandwidth(folder);
    if (!disk.ok()) return disk.status();
    return Limit{"of_disk", *disk};
  }
  static const double memory = read_bandwidth(true);
  return Limit{"of_read_bandwidth", memory};
}

double total(const std::map<std::string, double>& totals, const char* name) {
  const auto found = totals.find(name);
  return found == totals.end() ? 0 : found->second;
}

void replay(benchmark::State& state, StageReplay& stage, std::size_t invocation,
            const std::filesystem::path& folder) {
  double seconds = 0, bytes = 0, items = 0;
  for (auto _ : state) {
    const auto timing = stage.run(invocation);
    if (!timing.ok()) return state.SkipWithError(timing.status().message().c_str());
    state.SetIterationTime(timing->seconds);
    seconds += timing->seconds;
    bytes += total(timing->totals, "bytes");
    items += total(timing->totals, "items");
  }
  if (items > 0) state.SetItemsProcessed(static_cast<std::int64_t>(items));
  if (bytes <= 0 || seconds <= 0) return;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  const auto limit = limit_of(stage.node(), folder);
  if (!limit.ok()) return state.SkipWithError(limit.status().message().c_str());
  state.counters[limit->counter] = bytes / seconds / limit->bytes_per_second;
}

Result<flow::GraphPlan> load(const flow::LoadRequest& request) {
  flow::LoadOutcome outcome = flow::load_graph(request);
  if (outcome.plan) return *std::move(outcome.plan);
  return Status::error(fmt::format("{}", fmt::join(outcome.errors, "\n")));
}

/// The parts of a dotted name.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::istringstream stream(name);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  return parts;
}

/// Whether `shorter` is `name` with parts left out: layers.3.experts for backbone.layers.3.moe.experts.0.
bool abbreviates(const std::string& shorter, const std::string& name) {
  const std::vector<std::string> wanted = parts_of(shorter);
  auto next = wanted.begin();
  for (const std::string& part : parts_of(name)) {
    if (next != wanted.end() && flow::matches(*next, part)) ++next;
  }
  return next == wanted.end();
}

/// Full names of the stages that are meant: those that the pattern selects, else those that it abbreviates.
Result<std::vector<std::string>> chosen(const flow::GraphPlan& plan, const std::string& pattern) {
  std::vector<std::string> selected, abbreviated;
  for (const flow::NodePlan& node : plan.nodes) {
    if (flow::matches(pattern, node.name)) selected.push_back(node.name);
    if (abbreviates(pattern, node.name)) abbreviated.push_back(node.name);
  }
  if (!selected.empty()) return selected;
  if (!abbreviated.empty()) return abbreviated;
  return Status::error(flow::unknown_name("stage", pattern, flow::names_of(plan.nodes)));
}

}  // namespace

Status register_stages(const StageBench& bench) {
  FLOW_ASSIGN(const flow::GraphPlan plan, load(bench.graph));
  FLOW_ASSIGN(const auto names, chosen(plan, bench.stage));
  for (const std::string& name : names) {
    FLOW_ASSIGN(auto recorded, StageReplay::record(plan, name, bench.invocations));
    const std::shared_ptr<StageReplay> stage = std::move(recorded);
    for (std::size_t i = 0; i < stage->size(); ++i) {
      const flow::Stamp stamp = stage->stamp(i);
      const std::string title = fmt::format("{}/{}.{}", name, stamp.sequence, stamp.step);
      benchmark::RegisterBenchmark(
          title.c_str(),
          [stage, i, folder = bench.folder](benchmark::State& state) { replay(state, *stage, i, folder); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return {};
}

}  // namespace dsv::bench
