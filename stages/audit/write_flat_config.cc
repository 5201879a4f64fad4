#include <boost/json.hpp>

#include "framework/core/output_file.h"
#include "framework/core/registry.h"
#include "stages/audit/packets.h"

namespace dsv {

/// Writes a config in the flat layout, whichever layout it was read from.
///
/// Ports: config (ModelConfig), reports (CheckReports, optional) -> reports.
///
///     - {name: write, stage: WriteFlatConfig, in: {config: config.config}, options: {path: flat.json}}
class WriteFlatConfig final : public flow::Stage {
 public:
  static constexpr flow::In<ModelConfig> kConfig{"config", "config to write"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {
    std::filesystem::path path;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Writes a config in the flat layout of inference/config.json.");
    spec.input(kConfig).input(kBefore).output(kReports).executor(flow::Executor::io);
    spec.option("path", &Options::path, "file to write").required();
  }
  explicit WriteFlatConfig(Options options) : options_(std::move(options)) {}

  flow::Status process(flow::Context& context) override {
    const boost::json::object flat = context.in(kConfig).to_flat_json();
    FLOW_TRY(flow::write_file(options_.path.string(), boost::json::serialize(flat) + "\n"));
    CheckReport report{"flat_config", {}, flat, {}};
    report.text = fmt::format("wrote {} keys to {}\n", flat.size(), options_.path.string());
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  Options options_;
};
FLOW_REGISTER_STAGE(WriteFlatConfig);

}  // namespace dsv
