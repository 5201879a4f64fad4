#include "framework/runtime/node.h"

#include <utility>

#include "framework/runtime/workers.h"

namespace flow {
namespace {

/// What follows from `plan` for the flow graph: a source runs one invocation at a time.
int concurrency(const NodePlan& plan) {
  return plan.inputs.empty() ? 1 : std::max(1, plan.stage->concurrency);
}

}  // namespace

/// Where the flow graph calls a node. The inbox's lock orders this thread after the one that sent the
/// token; until then nothing of the node is read.
struct Node::Entry {
  Node* node;
  Token operator()(Token token) const noexcept {
    node->step();
    return token;
  }
  void operator()(const Token&, tbb::flow::async_node<Token, Token>::gateway_type& gateway) const noexcept {
    gateway.reserve_wait();
    node->lane_->post();
  }
};

Node::Node(const GraphContext& shared, int index, Stage& stage)
    : shared_(shared),
      plan_(shared.plan.nodes[static_cast<std::size_t>(index)]),
      index_(index),
      stage_(stage),
      telemetry_(shared.control.telemetry(plan_.name)),
      inbox_(plan_, shared.control.recorder() != nullptr) {
  for (std::size_t i = 0; i < plan_.stage->outputs.size(); ++i) {
    ports_.push_back(std::make_unique<Port>(shared.graph));
  }
  make_body();
  if (plan_.inputs.empty()) {
    source_.emplace(*this, shared.control, shared.turnstile, shared.plan.runtime.max_in_flight);
  }
}

void Node::make_body() {
  if (plan_.executor == Executor::compute) {
    auto node = std::make_unique<tbb::flow::function_node<Token, Token>>(
        shared_.graph, static_cast<std::size_t>(concurrency(plan_)), Entry{this});
    body_ = node.get();
    body_node_ = std::move(node);
    return;
  }
  auto node =
      std::make_unique<tbb::flow::async_node<Token, Token>>(shared_.graph, tbb::flow::unlimited, Entry{this});
  lane_.emplace(
      shared_.io, concurrency(plan_), [this] { step(); },
      [&gateway = node->gateway()] { gateway.release_wait(); });
  body_ = node.get();
  body_node_ = std::move(node);
}

void Node::connect(std::vector<std::unique_ptr<Node>>& nodes) {
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
    edges_.push_back(
        std::make_unique<Edge>(shared_.graph, tbb::flow::unlimited,
                               [this, i](const Parcel& parcel, Edge::output_ports_type& tokens) noexcept {
                                 if (deliver(i, parcel)) std::get<0>(tokens).try_put(Token());
                               }));
    const EdgePlan& edge = plan_.inputs[i];
    Node& producer = *nodes[static_cast<std::size_t>(edge.producer)];
    tbb::flow::make_edge(*producer.ports_[static_cast<std::size_t>(edge.output)], *edges_.back());
    tbb::flow::make_edge(tbb::flow::output_port<0>(*edges_.back()), *body_);
  }
}

void Node::seed() {
  if (source_) source_->pump();
}

void Node::admit(std::unique_ptr<Invocation> invocation) {
  inbox_.push(std::move(invocation));
  body_->try_put(Token());
}

/// Takes a packet that came on `edge`. True when an invocation is ready that needs a token.
bool Node::deliver(std::size_t edge, const Parcel& parcel) noexcept {
  bool ready = false;
  const Status status = guarded([&]() -> Status {
    if (plan_.inputs[edge].feedback) {
      FLOW_ASSIGN(auto invocation, inbox_.hold(edge, parcel));
      shared_.turnstile.enter(*this, std::move(invocation));
      return {};
    }
    FLOW_ASSIGN(ready, inbox_.accept(edge, parcel));
    return {};
  });
  if (!status.ok()) shared_.control.fail(status.in(edge_name(edge)).in(subject(plan_)));
  return ready;
}

void Node::step() noexcept {
  const auto invocation = inbox_.pop();
  if (shared_.control.stopped()) return;
  const Status status = guarded([&] { return run(*invocation); });
  if (!status.ok()) shared_.control.fail(status.in(subject(plan_)));
}

Status Node::run(Invocation& invocation) {
  RunControl& control = shared_.control;
  Context context(*plan_.stage, std::move(invocation.inputs), invocation.stamp, control.console(),
                  control.report(), control.stop_flag(), telemetry_);
  StageSpan& span = invocation.trace;
  Recorder* recorder = control.recorder();
  if (recorder) {
    span.id = recorder->next_span();
    span.begin = Telemetry::now();
  }
  const Status status = call(context);
  if (recorder) {
    span.end = Telemetry::now();
    span.node = index_;
    span.stamp = invocation.stamp;
    recorder->record(plan_.executor, std::move(span));  // its id stays
  }
  FLOW_TRY(status);
  if (!control.stopped()) FLOW_TRY(send(invocation, context.emissions()));
  if (source_) source_->ended(context.finished());
  return {};
}

Status Node::call(Context& context) {
  const WorkerScope scope(shared_.arena, beats_);
  sequence_.store(context.stamp().sequence, std::memory_order_relaxed);
  step_.store(context.stamp().step, std::memory_order_relaxed);
  running_.fetch_add(1, std::memory_order_acq_rel);
  beats_.fetch_add(1, std::memory_order_relaxed);
  Status status = guarded([&] { return stage_.process(context); });
  beats_.fetch_add(1, std::memory_order_relaxed);
  running_.fetch_sub(1, std::memory_order_acq_rel);
  return status;
}

Status Node::send(const Invocation& invocation, StepVector<Context::Emission>& emissions) {
  TicketPtr turn;  // of the last new stamp
  Stamp turn_stamp;
  for (Context::Emission& emission : emissions) {
    if (emission.port < 0) return errorf("emits on an output that it has not declared");
    const auto port = static_cast<std::size_t>(emission.port);
    if (!emission.packet) return errorf("emits nothing on output '{}'", plan_.stage->outputs[port].name);
    const Stamp stamp = emission.packet.stamp();
    const bool same_turn = stamp == invocation.stamp;
    if (!same_turn && (!turn || stamp != turn_stamp)) {
      turn = make_recycled<const Ticket>(invocation.ticket->flights(), shared_.turnstile);
      turn_stamp = stamp;
    }
    ports_[port]->try_put(
        {std::move(emission.packet), same_turn ? invocation.ticket : turn, invocation.trace.id});
  }
  return {};
}

std::optional<std::string> Node::wait() const {
  const auto gap = inbox_.gap();
  if (!gap) return std::nullopt;
  const EdgePlan& missing = plan_.inputs[gap->edge];
  std::string text = fmt::format("waits for input '{}' from stage '{}', which sent nothing for stamp {}.{}",
                                 plan_.stage->inputs[static_cast<std::size_t>(missing.input)].name,
                                 shared_.plan.nodes[static_cast<std::size_t>(missing.producer)].name,
                                 gap->stamp.sequence, gap->stamp.step);
  for (std::size_t edge = 0; edge < plan_.inputs.size(); ++edge) {
    if (const int fill = inbox_.fill(edge)) text += fmt::format("; {} holds {}", edge_name(edge), fill);
  }
  return text;
}

std::optional<Stamp> Node::running() const {
  if (running_.load(std::memory_order_acquire) == 0) return std::nullopt;
  return Stamp{sequence_.load(std::memory_order_relaxed), step_.load(std::memory_order_relaxed)};
}

std::string Node::edge_name(std::size_t edge) const {
  const EdgePlan& e = plan_.inputs[edge];
  const NodePlan& producer = shared_.plan.nodes[static_cast<std::size_t>(e.producer)];
  return fmt::format("edge {}.{} -> {}.{}", producer.name,
                     producer.stage->outputs[static_cast<std::size_t>(e.output)].name, plan_.name,
                     plan_.stage->inputs[static_cast<std::size_t>(e.input)].name);
}

}  // namespace flow
