#include <boost/json.hpp>

#include "framework/core/registry.h"
#include "stages/audit/packets.h"
#include "stages/audit/run_plan.h"

namespace dsv {

/// Says what running the checkpoint takes on this machine; never fails the run. See run_plan.h.
///
/// Ports: config (ModelConfig), shards (ShardSet), reports (CheckReports, optional) -> reports.
///
///     - {name: plan, stage: PlanRun, in: {config: config.config, shards: shards.shards}}
class PlanRun final : public flow::Stage {
 public:
  static constexpr flow::In<ModelConfig> kConfig{"config", "the model"};
  static constexpr flow::In<ShardSet> kShards{"shards", "what is at hand of it"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {
    int expert_cache = 16;
    bool resident_engram = false;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Says what memory, disk and reading a checkpoint takes on this machine.");
    spec.input(kConfig).input(kShards).input(kBefore).output(kReports);
    spec.option("expert_cache", &Options::expert_cache, "routed experts kept in memory for each layer")
        .range(1);
    spec.option("resident_engram", &Options::resident_engram, "hold the Engram tables in memory");
  }
  explicit PlanRun(Options options) : options_(options) {}

  flow::Status process(flow::Context& context) override {
    const ModelConfig& config = context.in(kConfig);
    const ShardSet& shards = context.in(kShards);
    const auto& here = shards.files().empty() ? config.path : shards.files().front().path;
    const Machine machine = this_machine(here.parent_path());
    const auto plan = plan_run(config, shards, {options_.expert_cache, options_.resident_engram});
    CheckReport report{"plan", {}, nullptr, {}};
    if (plan.ok()) {
      report.text = to_text(*plan, machine);
      report.data = to_json(*plan, machine);
    } else {
      report.text = fmt::format("\n[SKIP] {}\n", plan.status().message());
    }
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  Options options_;
};
FLOW_REGISTER_STAGE(PlanRun);

}  // namespace dsv
