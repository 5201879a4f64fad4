// StageReplay: one stage of a pipeline with its real inputs, run as often as one likes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "framework/core/plan.h"
#include "framework/core/status.h"

namespace flow {

/// Runs a pipeline once and keeps it open: its services, its stages, and the inputs that one stage got. Each
/// invocation can then be repeated, with the state that it changes put back first (Stage::saved).
///
///     FLOW_ASSIGN(const auto replay, StageReplay::record(plan, "layers.3.attention", 4));
///     FLOW_ASSIGN(const StageReplay::Timing timing, replay->run(0));
class StageReplay {
 public:
  /// One repetition.
  struct Timing {
    double seconds = 0;                    ///< in the body
    std::map<std::string, double> totals;  ///< what the stage counted through its telemetry
  };

  /// Keeps the first `most` invocations of the stage with this full name. Errors: no such stage (with the
  /// nearest name), the run's own, and a stage that never ran. The run says nothing.
  static Result<std::unique_ptr<StageReplay>> record(GraphPlan plan, const std::string& stage,
                                                     std::size_t most);
  ~StageReplay();
  StageReplay(const StageReplay&) = delete;
  StageReplay& operator=(const StageReplay&) = delete;

  /// Invocations that were kept, and the stamp of each.
  std::size_t size() const;
  Stamp stamp(std::size_t invocation) const;
  /// Repeats an invocation; what it emits is dropped. Not to be called from two threads at once.
  Result<Timing> run(std::size_t invocation);
  /// The stage as it was recorded.
  const NodePlan& node() const;

 private:
  class Impl;
  explicit StageReplay(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace flow
