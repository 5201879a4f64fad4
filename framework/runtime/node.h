// Node: one stage in a running flow graph.
#pragma once

#include <oneapi/tbb/flow_graph.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "framework/runtime/control.h"
#include "framework/runtime/inbox.h"
#include "framework/runtime/io_pool.h"
#include "framework/runtime/source.h"
#include "framework/runtime/turnstile.h"

namespace flow {

/// What the nodes of one flow graph share.
struct GraphContext {
  const GraphPlan& plan;
  RunControl& control;
  tbb::task_arena& arena;
  tbb::flow::graph& graph;
  IoPool& io;
  Turnstile& turnstile;
};

/// The parts of a node in the flow graph:
///
///     output port          edge (lightweight, runs in the sender)       body
///     broadcast_node  -->  multifunction_node: joins in the inbox  -->  function_node or async_node
///
/// Packets are kept in the inbox. What travels from an edge to the body is a token: one invocation is
/// ready. The body takes the oldest.
class Node final : public Entrance {
 public:
  using Token = tbb::flow::continue_msg;
  using Port = tbb::flow::broadcast_node<Parcel>;
  using Edge = tbb::flow::multifunction_node<Parcel, std::tuple<Token>, tbb::flow::lightweight>;

  Node(const GraphContext& shared, int index, Stage& stage);

  /// Connects the inputs; all nodes exist.
  void connect(std::vector<std::unique_ptr<Node>>& nodes);
  /// Starts the first invocation when this is a source.
  void seed();
  void admit(std::unique_ptr<Invocation> invocation) override;
  /// Drops what the inbox holds. Nothing runs any more.
  void clear() { inbox_.clear(); }

  /// "stage 'x' (T) waits for input 'b' from stage 'y', which sent nothing for stamp 3.1"; nothing when
  /// no join waits.
  std::optional<std::string> wait() const;
  /// The stamp of the body that runs now, or of one of them.
  std::optional<Stamp> running() const;
  /// Grows while the node makes progress.
  std::uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }
  const NodePlan& plan() const { return plan_; }

 private:
  struct Entry;

  void make_body();
  bool deliver(std::size_t edge, const Parcel& parcel) noexcept;
  void step() noexcept;
  Status run(Invocation& invocation);
  Status call(Context& context);
  Status send(const Invocation& invocation, StepVector<Context::Emission>& emissions);
  std::string edge_name(std::size_t edge) const;

  const GraphContext& shared_;
  const NodePlan& plan_;
  const int index_;
  Stage& stage_;
  const Telemetry telemetry_;
  Inbox inbox_;
  std::optional<Source> source_;
  std::optional<IoLane> lane_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Edge>> edges_;
  std::unique_ptr<tbb::flow::graph_node> body_node_;
  tbb::flow::receiver<Token>* body_ = nullptr;  // body_node_'s input
  std::atomic<int> running_{0};
  std::atomic<std::uint64_t> beats_{0};               // bodies started and ended, and calls of parallel_for
  std::atomic<std::uint64_t> sequence_{0}, step_{0};  // of the invocation that started last
};

}  // namespace flow
