// Run: the state of one run, shared by the caller of Runner::run and the thread that runs the graph.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "framework/runtime/assembly.h"
#include "framework/runtime/control.h"
#include "framework/runtime/flow_graph.h"
#include "framework/runtime/runner.h"
#include "framework/runtime/tap.h"

namespace flow {

/// The graph runs on a thread of its own, so that the caller can leave when a body hangs: then the thread
/// is detached, and its reference keeps everything alive that the body may touch.
class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(GraphPlan plan, RunOptions options);
  Result<std::vector<PlanLine>> dry_run();
  Status run();
  RunControl& control() { return control_; }
  bool left_behind() const { return left_behind_; }

 private:
  Status start();
  void execute();
  Status execute_in_arena(tbb::task_arena& arena);
  std::string place() const;
  void run_graph(const Assembly& assembly, tbb::task_arena& arena);
  bool watch();
  void say(std::unique_lock<std::mutex>& lock, const std::string& running);
  bool let_go(std::unique_lock<std::mutex>& lock, double seconds);

  GraphPlan plan_;
  const std::vector<TapRequest> requests_;
  const std::vector<Probe> probes_;
  RunControl control_;
  Taps taps_;
  int threads_ = 0;
  std::atomic<bool> started_{false}, left_behind_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  FlowGraph* graph_ = nullptr;  // while it runs
  bool ended_ = false;
  Status stall_;  // what a run that was left behind hangs on
};

}  // namespace flow
