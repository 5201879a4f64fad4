#include "framework/runtime/flow_graph.h"

#include <algorithm>

namespace flow {
namespace {

/// Threads of the I/O pool; none when no stage needs them.
int io_threads(const GraphPlan& plan) {
  const bool needed = std::any_of(plan.nodes.begin(), plan.nodes.end(),
                                  [](const NodePlan& n) { return n.executor == Executor::io; });
  return needed ? std::max(1, plan.runtime.io_threads) : 0;
}

}  // namespace

FlowGraph::FlowGraph(const GraphPlan& plan, const std::vector<std::unique_ptr<Stage>>& stages,
                     RunControl& control, tbb::task_arena& arena)
    : turnstile_(plan.runtime.max_in_flight), io_(io_threads(plan)), shared_{plan,   control, arena,
                                                                             graph_, io_,     turnstile_} {
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    nodes_.push_back(std::make_unique<Node>(shared_, static_cast<int>(i), *stages[i]));
  }
  for (const auto& node : nodes_) node->connect(nodes_);
}

/// Drops what a stopped run has left: tickets that die call sources, so all nodes must still be there.
FlowGraph::~FlowGraph() {
  turnstile_.clear();
  for (const auto& node : nodes_) node->clear();
}

void FlowGraph::run() {
  for (const auto& node : nodes_) node->seed();
  do {
    graph_.wait_for_all();
    // Orders all bodies before what follows also in the eyes of ThreadSanitizer, which does not see inside
    // wait_for_all.
    graph_.reserve_wait();
    graph_.release_wait();
  } while (!shared_.control.stopped() && turnstile_.admit_one());
  check_joins();
}

void FlowGraph::check_joins() {
  for (const auto& node : nodes_) {
    const auto wait = node->wait();
    if (wait) return shared_.control.fail(Status::error(*wait).in(subject(node->plan())));
  }
}

Status FlowGraph::stall(double seconds) const {
  const NodePlan* first = nullptr;
  std::string running, waiting;
  for (const auto& node : nodes_) {
    const NodePlan& plan = node->plan();
    if (const auto stamp = node->running()) {
      if (!first) first = &plan;
      running += fmt::format("{}'{}' with stamp {}.{}", running.empty() ? "" : ", ", plan.name,
                             stamp->sequence, stamp->step);
    }
    if (const auto wait = node->wait()) waiting += fmt::format("; stage '{}' {}", plan.name, *wait);
  }
  if (!first) return errorf("no progress for {} s, and no body is running{}", seconds, waiting);
  return errorf("no progress for {} s; in its body: {}{}", seconds, running, waiting).in(subject(*first));
}

std::uint64_t FlowGraph::beats() const {
  std::uint64_t sum = 0;
  for (const auto& node : nodes_) sum += node->beats();
  return sum;
}

std::string FlowGraph::running() const {
  std::string names;
  for (const auto& node : nodes_) {
    if (node->running()) names += (names.empty() ? "" : ", ") + node->plan().name;
  }
  return names;
}

}  // namespace flow
