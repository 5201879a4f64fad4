#include <boost/json.hpp>

#include "framework/core/registry.h"
#include "stages/audit/engram_report.h"
#include "stages/audit/packets.h"

namespace dsv {

/// Derives the Engram tables of a config and compares them with what it declares; see engram_report.h.
///
/// Ports: config (ModelConfig), reports (CheckReports, optional) -> reports.
///
///     - {name: verify, stage: VerifyEngram, in: {config: config.config}, options: {tokenizer:
///     tokenizer.json}}
class VerifyEngram final : public flow::Stage {
 public:
  static constexpr flow::In<ModelConfig> kConfig{"config", "config to verify"};
  static constexpr flow::OptionalIn<CheckReports> kBefore{"reports", "reports so far"};
  static constexpr flow::Out<CheckReports> kReports{"reports", "with this one"};
  struct Options {
    std::filesystem::path tokenizer;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Derives the Engram tables of a config and compares them with what it declares.");
    spec.input(kConfig).input(kBefore).output(kReports);
    spec.option("tokenizer", &Options::tokenizer,
                "tokenizer.json or its folder; empty = the one beside the config, if any");
  }
  explicit VerifyEngram(Options options) : options_(std::move(options)) {}

  flow::Status process(flow::Context& context) override {
    const ModelConfig& config = context.in(kConfig);
    std::shared_ptr<const Tokenizer> tokenizer;
    if (const auto file = tokenizer_file(config); !file.empty()) {
      FLOW_ASSIGN(tokenizer, Tokenizer::load(file));
    }
    const EngramReport found = verify_engram(config, tokenizer.get());
    CheckReport report{"engram", to_text(found), to_json(found), {}};
    if (!found.problems.empty())
      report.failure = fmt::format("the Engram layout has {} problem{}", found.problems.size(),
                                   found.problems.size() > 1 ? "s" : "");
    context.emit(kReports, CheckReports::join(context.in(kBefore), std::move(report)));
    return {};
  }

 private:
  /// The given one, or the one beside the config (one folder up for inference/config.json); empty: none.
  std::filesystem::path tokenizer_file(const ModelConfig& config) const {
    std::error_code error;
    const std::filesystem::path given = options_.tokenizer;
    if (!given.empty()) return std::filesystem::is_directory(given, error) ? given / "tokenizer.json" : given;
    const auto folder = config.path.parent_path();
    for (const auto& place : {folder, folder.parent_path()})
      if (std::filesystem::exists(place / "tokenizer.json", error)) return place / "tokenizer.json";
    return {};
  }

  Options options_;
};
FLOW_REGISTER_STAGE(VerifyEngram);

}  // namespace dsv
