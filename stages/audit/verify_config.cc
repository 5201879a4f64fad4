#include <boost/json.hpp>

#include "framework/core/registry.h"
#include "stages/audit/packets.h"

namespace dsv {

/// Says which config was read, its shape, and every way in which it is incomplete or contradicts itself.
///
/// Ports: config (ModelConfig), reports (CheckReports, optional) -> reports.
///
///     - {name: verify, stage: VerifyConfig, in: {config: config.config}}
class VerifyConfig final : public flow::Stage {
 public:
  static constexpr flow::In<ModelConfig> kConfig{"config", "config to verify"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Checks that a config is complete and does not contradict itself.");
    spec.input(kConfig).input(kBefore).output(kReports);
  }
  explicit VerifyConfig(Options) {}

  flow::Status process(flow::Context& context) override {
    const ModelConfig& config = context.in(kConfig);
    std::vector<std::string> problems;
    for (const std::string& key : config.missing())
      problems.push_back(fmt::format("key '{}' is missing", key));
    for (const ConfigProblem& problem : config.verify()) problems.push_back(problem.text());
    CheckReport report{"config", {}, describe(config, problems), {}};
    report.text =
        fmt::format("{} ({})\n  {}\n", config.path.string(), layout_name(config), config.shape_line());
    for (const std::string& key : config.unknown_keys)
      report.text += fmt::format("  note: unknown key '{}'\n", key);
    for (const std::string& problem : problems) report.text += fmt::format("  [fail] {}\n", problem);
    if (problems.empty())
      report.text += "  [ok] the config is self-consistent\n";
    else
      report.failure =
          fmt::format("the config has {} problem{}", problems.size(), problems.size() > 1 ? "s" : "");
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  static const char* layout_name(const ModelConfig& config) {
    return config.layout == ConfigLayout::Nested ? "nested" : "flat";
  }
  static boost::json::value describe(const ModelConfig& config, const std::vector<std::string>& problems) {
    return {{"path", config.path.string()},
            {"layout", layout_name(config)},
            {"shape", config.shape_line()},
            {"config", config.to_json()},
            {"unknown_keys", boost::json::value_from(config.unknown_keys)},
            {"problems", boost::json::value_from(problems)}};
  }
};
FLOW_REGISTER_STAGE(VerifyConfig);

}  // namespace dsv
