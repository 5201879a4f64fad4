#include <boost/json.hpp>

#include "framework/core/registry.h"
#include "stages/audit/packets.h"
#include "stages/model/packets.h"

namespace dsv {

/// Ends a chain of checkers in front of a text: lets the prompt through when no report has a failure, and
/// ends the run with all failures otherwise. Reports go to standard error and to the run's report.
///
/// Ports: reports (CheckReports), prompt -> prompt.
///
///     - {name: require, stage: RequirePass, in: {reports: audit.reports, prompt: tokenize.ids}}
class RequirePass final : public flow::Stage {
 public:
  static constexpr flow::In<CheckReports> kReports{"reports", "reports of all checkers"};
  static constexpr flow::In<Prompt> kPrompt{"prompt", "what waits for them"};
  static constexpr flow::Out<Prompt> kPassed{"prompt", "the same, when nothing is wrong"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Lets a prompt through when the reports of a chain of checkers are free of faults.");
    spec.input(kReports).input(kPrompt).output(kPassed);
  }
  explicit RequirePass(Options) {}

  flow::Status process(flow::Context& context) override {
    const CheckReports& reports = context.in(kReports);
    for (const CheckReport& report : reports.reports) {
      context.console().note(report.text.substr(0, report.text.find_last_not_of('\n') + 1));
      context.report().set(report.section, report.data);
    }
    if (const std::string failures = reports.failures(); !failures.empty()) {
      return flow::Status::error(failures);
    }
    context.emit(kPassed, context.share(kPrompt));
    return {};
  }
};
FLOW_REGISTER_STAGE(RequirePass);

}  // namespace dsv
