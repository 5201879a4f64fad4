#include <boost/json.hpp>

#include "framework/core/registry.h"
#include "stages/audit/audit.h"
#include "stages/audit/packets.h"

namespace dsv {

/// The header audit: does a checkpoint hold exactly what its config calls for? See audit.h.
///
/// Ports: config (ModelConfig), shards (ShardSet), reports (CheckReports, optional) -> reports.
///
///     - {name: audit, stage: AuditHeaders, in: {config: config.config, shards: shards.shards}}
class AuditHeaders final : public flow::Stage {
 public:
  static constexpr flow::In<ModelConfig> kConfig{"config", "what the checkpoint should be"};
  static constexpr flow::In<ShardSet> kShards{"shards", "what is at hand of it"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {
    bool require_complete = false;
    std::vector<std::int64_t> expect_fp8_block;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Checks a checkpoint's headers and index against its config.");
    spec.input(kConfig).input(kShards).input(kBefore).output(kReports);
    spec.option("require_complete", &Options::require_complete,
                "a check that cannot be decided yet is a failure");
    spec.option(
        "expect_fp8_block", &Options::expect_fp8_block,
        "rows and columns that share a scale; empty = as the config states, or as the first scale shows");
  }
  explicit AuditHeaders(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening&) override {
    const auto& block = options_.expect_fp8_block;
    if (block.empty()) return {};
    for (const std::int64_t size : block)
      if (block.size() != 2 || size < 1 || size > (1 << 20))
        return flow::errorf("expect_fp8_block has to be two numbers from 1 to {}", 1 << 20);
    audit_.fp8_block = {static_cast<int>(block[0]), static_cast<int>(block[1])};
    return {};
  }

  flow::Status process(flow::Context& context) override {
    FLOW_ASSIGN(const AuditReport found, audit(context.in(kConfig), context.in(kShards), audit_));
    CheckReport report{
        "audit", to_text(found, options_.require_complete), to_json(found, options_.require_complete), {}};
    if (!found.passed(options_.require_complete))
      report.failure =
          fmt::format("the audit has {} failed and {} undecided of {} checks", found.count(Verdict::Fail),
                      found.count(Verdict::Undecided), found.checks.size());
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  Options options_;
  AuditOptions audit_;
};
FLOW_REGISTER_STAGE(AuditHeaders);

}  // namespace dsv
