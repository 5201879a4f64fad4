// Assembly: the services and stages of a run, from construction to destruction.
#pragma once

#include <memory>
#include <vector>

#include "framework/runtime/control.h"

namespace flow {

/// Owns the objects of a plan. Errors carry the place in the graph file and the object's name.
class Assembly {
 public:
  Assembly(const GraphPlan& plan, RunControl& control) : plan_(plan), control_(control) {}
  /// Stages go before the services they use, services in the reverse order of their plan.
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  /// Constructs services and stages; opens nothing.
  Status make();
  /// What each says it needs.
  Result<std::vector<PlanLine>> needs();
  /// Opens services, then stages, in plan order. Ends at the first error, and when the run is stopped.
  Status open();
  /// Closes in reverse order whatever was opened; the first error is returned after all are closed.
  Status close();

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }

 private:
  template <class Plan>
  Opening opening(const Plan& plan, const TypeInfo& type) const;

  const GraphPlan& plan_;
  RunControl& control_;
  std::vector<std::shared_ptr<Service>> services_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::size_t open_services_ = 0, open_stages_ = 0;
};

}  // namespace flow
