#include "framework/runtime/runner.h"

#include <utility>

#include "framework/runtime/run.h"

namespace flow {

Runner::Runner(GraphPlan plan, RunOptions options)
    : run_(std::make_shared<Run>(std::move(plan), std::move(options))) {}

Runner::~Runner() = default;

Result<std::vector<PlanLine>> Runner::dry_run() {
  return guarded([&] { return run_->dry_run(); });
}

Status Runner::run() {
  return run_->run();
}

void Runner::cancel() {
  run_->control().cancel();
}

bool Runner::cancelled() const {
  return run_->control().by_user();
}

bool Runner::left_behind() const {
  return run_->left_behind();
}

}  // namespace flow
