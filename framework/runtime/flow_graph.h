// FlowGraph: the nodes of a plan, wired on oneTBB.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/runtime/node.h"

namespace flow {

/// One graph for one run: after an error or a cancellation it is thrown away, not reset. Build, run and
/// destroy it inside the arena.
class FlowGraph {
 public:
  /// `stages` are the opened stages of `plan.nodes`, in their order.
  FlowGraph(const GraphPlan& plan, const std::vector<std::unique_ptr<Stage>>& stages, RunControl& control,
            tbb::task_arena& arena);
  ~FlowGraph();
  FlowGraph(const FlowGraph&) = delete;
  FlowGraph& operator=(const FlowGraph&) = delete;

  /// Runs until nothing is left to do, or until the run is stopped and all bodies have returned. A join
  /// that still waits for a packet then is an error of the run.
  void run();
  /// What the run hangs on, for the watchdog. Callable from any thread while run() is in progress.
  Status stall(double seconds) const;
  /// Grows while anything makes progress. Callable from any thread, as stall().
  std::uint64_t beats() const;
  /// Names of the stages whose bodies run now. Callable from any thread, as stall().
  std::string running() const;

 private:
  void check_joins();

  tbb::flow::graph graph_;
  Turnstile turnstile_;
  IoPool io_;
  GraphContext shared_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace flow
