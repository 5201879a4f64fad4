#include "framework/core/registry.h"
#include "stages/audit/packets.h"

namespace dsv {

/// Ends a chain of checkers: writes every report to standard output and to the run's report, and fails the
/// run when one of them asks for it.
///
/// Ports: reports (CheckReports).
///
///     - {name: print, stage: PrintReports, in: {reports: audit.reports}}
class PrintReports final : public flow::Stage {
 public:
  static constexpr flow::In<CheckReports> kReports{"reports", "reports of all checkers"};
  struct Options {};

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Prints the reports of a chain of checkers and fails when one found a fault.");
    spec.input(kReports);
  }
  explicit PrintReports(Options) {}

  flow::Status process(flow::Context& context) override {
    for (const CheckReport& report : context.in(kReports).reports) {
      context.console().out(report.text);
      context.report().set(report.section, report.data);
    }
    const std::string failures = context.in(kReports).failures();
    return failures.empty() ? flow::Status() : flow::Status::error(failures);
  }
};
FLOW_REGISTER_STAGE(PrintReports);

}  // namespace dsv
