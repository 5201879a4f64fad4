#include "tests/framework/test_graph.h"

#include <chrono>

namespace flow_test {
namespace {

std::pair<std::string, std::string> split(const std::string& reference) {
  const auto dot = reference.rfind('.');
  return {reference.substr(0, dot), reference.substr(dot + 1)};
}

}  // namespace

TestGraph& TestGraph::add(const std::string& name, Spec spec, std::vector<Link> links) {
  flow::StageInfo& info = infos_.emplace_back();
  info.name = "Test";
  info.policy = spec.policy;
  info.executor = spec.executor;
  info.concurrency = spec.concurrency;
  const flow::PacketType* type = &flow::packet_type<Number>();
  for (const Link& link : links) {
    if (info.input(link.input) < 0) info.inputs.push_back({link.input, "", type, flow::Arity::many});
  }
  for (const std::string& input : spec.optional_inputs) {
    info.inputs.push_back({input, "", type, flow::Arity::optional});
  }
  for (const std::string& output : spec.outputs) info.outputs.push_back({output, "", type, flow::Arity::one});
  info.make = [spec = std::move(spec)](const void*) { return std::make_unique<LambdaStage>(spec); };
  entries_.push_back({name, std::move(links)});
  return *this;
}

TestGraph& TestGraph::add_counter(const std::string& name, int count, Executor executor) {
  const auto body = [count](Context& context) -> Status {
    const auto n = static_cast<std::int64_t>(context.stamp().sequence);
    send(context, n);
    if (n + 1 >= count) context.finish();
    return {};
  };
  return add(name, {.process = body, .executor = executor});
}

TestGraph& TestGraph::add_service(const std::string& name, flow::ServiceInfo info) {
  service_infos_.push_back(std::move(info));
  service_names_.push_back(name);
  return *this;
}

flow::GraphPlan TestGraph::plan() const {
  flow::GraphPlan plan;
  plan.file = "test.yaml";
  plan.runtime = runtime;
  for (std::size_t i = 0; i < service_names_.size(); ++i) {
    plan.services.push_back(
        {service_names_[i], {"test.yaml", static_cast<int>(i) + 101, 3}, &service_infos_[i], nullptr, {}});
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    flow::NodePlan& node = plan.nodes.emplace_back();
    node.name = entries_[i].name;
    node.where = {"test.yaml", static_cast<int>(i) + 1, 5};
    node.stage = &infos_[i];
    node.executor = infos_[i].executor;
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (const Link& link : entries_[i].links) {
      const auto [producer, output] = split(link.from);
      const int from = plan.node(producer);
      plan.nodes[i].inputs.push_back({infos_[i].input(link.input), from,
                                      infos_[static_cast<std::size_t>(from)].output(output), link.feedback,
                                      plan.nodes[i].where});
    }
  }
  return plan;
}

Status run(const TestGraph& graph) {
  flow::Runner runner(graph.plan(), {});
  return runner.run();
}

Spec sink(Log<std::int64_t>& log) {
  return {.process = [&log](Context& context) -> Status {
            log.add(value(context));
            return {};
          },
          .outputs = {}};
}

void Latch::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

bool Latch::wait() const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; });
}

}  // namespace flow_test
