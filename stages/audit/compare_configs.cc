#include <boost/json.hpp>

#include "framework/core/registry.h"
#include "stages/audit/packets.h"

namespace dsv {

/// Lists each field on which two configs differ, or on which one of them is silent. Differences are
/// information, not a failure: the two released layouts have twelve.
///
/// Ports: config, other (ModelConfig), reports (CheckReports, optional) -> reports.
///
///     - {name: compare, stage: CompareConfigs, in: {config: config.config, other: flat.config}}
class CompareConfigs final : public flow::Stage {
 public:
  static constexpr flow::In<ModelConfig> kConfig{"config", "left-hand config"};
  static constexpr flow::In<ModelConfig> kOther{"other", "right-hand config"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Lists the fields on which two configs differ or one is silent.");
    spec.input(kConfig).input(kOther).input(kBefore).output(kReports);
  }
  explicit CompareConfigs(Options) {}

  flow::Status process(flow::Context& context) override {
    const ModelConfig &config = context.in(kConfig), &other = context.in(kOther);
    const std::vector<ConfigDifference> differences = config_differences(config, other);
    boost::json::array list;
    std::string lines;
    for (const ConfigDifference& d : differences) {
      lines += fmt::format("  {}: {} | {}\n", d.key, d.left, d.right);
      list.push_back({{"key", d.key}, {"left", d.left}, {"right", d.right}});
    }
    CheckReport report{"config_differences", {}, std::move(list), {}};
    report.text = fmt::format("{} fields differ from {}\n{}", differences.size(), other.path.string(), lines);
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }
};
FLOW_REGISTER_STAGE(CompareConfigs);

}  // namespace dsv
