#include "framework/core/registry.h"
#include "stages/audit/audit.h"
#include "stages/audit/packets.h"

namespace dsv {

/// Lists tensors: name, dtype, shape, bytes and shard, separated by tabs.
///
/// Ports: shards (ShardSet), reports (CheckReports, optional) -> reports.
///
///     - {name: list, stage: ListTensors, in: {shards: shards.shards}, options: {pattern: "layers.0.attn.*"}}
class ListTensors final : public flow::Stage {
 public:
  static constexpr flow::In<ShardSet> kShards{"shards", "headers at hand"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {
    std::string pattern = "*";
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Lists the tensors at hand whose names match a pattern.");
    spec.input(kShards).input(kBefore).output(kReports);
    spec.option("pattern", &Options::pattern, "shell pattern: * stands for any text, ? for one character");
  }
  explicit ListTensors(Options options) : options_(std::move(options)) {}

  flow::Status process(flow::Context& context) override {
    std::string text = list_tensors(context.in(kShards), options_.pattern);
    CheckReport report{"tensors", text, boost::json::value(text), {}};
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  Options options_;
};
FLOW_REGISTER_STAGE(ListTensors);

}  // namespace dsv
