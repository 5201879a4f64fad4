#include "framework/config/connect.h"

#include <algorithm>

#include "framework/config/order.h"
#include "framework/config/resolve.h"

namespace flow::config {
namespace {

// Connects the inputs of one node.
class NodeConnector {
 public:
  NodeConnector(const Instance& instance, NodePlan& node, Resolver& resolver, Errors& errors)
      : instance_(instance), node_(node), resolver_(resolver), errors_(errors) {}

  void run() {
    for (const Binding& binding : instance_.inputs) connect(binding);
    for (int i = 0; i < static_cast<int>(node_.stage->inputs.size()); ++i) check_connected(i);
    check_start();
  }

 private:
  void fail(const Location& where, std::string_view message) {
    errors_.add(where, instance_.subject, message);
  }

  void connect(const Binding& binding) {
    const int input = node_.stage->input(binding.port);
    if (input < 0) return;
    std::size_t edges = 0;
    bool unknown = false;
    for (const Ref& ref : binding.refs) {
      const auto sources = resolver_.resolve(*instance_.parent, ref, instance_.subject);
      unknown = unknown || !sources;
      if (!sources) continue;
      edges += sources->size();
      for (const Source& source : *sources) unknown = !add_edge(input, source, ref.where) || unknown;
    }
    const PortInfo& port = node_.stage->inputs[static_cast<std::size_t>(input)];
    if (edges > 1 && port.arity != Arity::many) {
      fail(binding.where, fmt::format("input '{}' takes one edge, found {}", port.name, edges));
    }
    if (unknown) unknown_.push_back(input);
  }

  // False when the source does not fit, which is reported.
  bool add_edge(int input, const Source& source, const Location& where) {
    const PortInfo& port = node_.stage->inputs[static_cast<std::size_t>(input)];
    const PacketType& given = *resolver_.port(source).type;
    if (port.type->id != given.id) {
      fail(where, fmt::format("input '{}' takes {}, but {} gives {}", port.name, port.type->name,
                              resolver_.name(source), given.name));
      return false;
    }
    if (source.feedback && node_.stage->policy == InputPolicy::all) {
      fail(where, fmt::format("input '{}' cannot be fed back: {} waits for all of its inputs", port.name,
                              node_.stage->name));
      return false;
    }
    node_.inputs.push_back({input, source.node, source.output, source.feedback, where});
    return true;
  }

  void check_connected(int input) {
    const PortInfo& port = node_.stage->inputs[static_cast<std::size_t>(input)];
    const auto is_this = [&](const EdgePlan& e) { return e.input == input; };
    const bool unknown = std::find(unknown_.begin(), unknown_.end(), input) != unknown_.end();
    if (port.arity == Arity::optional || unknown) return;
    if (instance_.unsure && !instance_.input(port.name)) return;
    if (std::any_of(node_.inputs.begin(), node_.inputs.end(), is_this)) return;
    const Binding* binding = instance_.input(port.name);
    const bool written = binding && !binding->refs.empty();
    fail(binding ? binding->where : instance_.where,
         fmt::format("input '{}' is not connected{}", port.name,
                     written ? fmt::format("; '{}' leads to nothing here", binding->refs[0].text) : ""));
  }

  void check_start() {
    const bool all_fed_back =
        std::all_of(node_.inputs.begin(), node_.inputs.end(), [](const EdgePlan& e) { return e.feedback; });
    if (node_.inputs.empty() || !all_fed_back || !unknown_.empty()) return;
    fail(instance_.where, "never starts: all of its inputs are feedback");
  }

  const Instance& instance_;
  NodePlan& node_;
  Resolver& resolver_;
  Errors& errors_;
  std::vector<int> unknown_;
};

void check_composite(const Instance& composite, Resolver& resolver) {
  for (const InputDecl& decl : composite.body->inputs) (void)resolver.input(composite, decl);
  for (const Binding& output : composite.body->outputs) {
    (void)resolver.resolve(*composite.body, output, "outputs");
  }
}

// The edge by which `node` needs `producer`.
const EdgePlan& edge_between(const NodePlan& node, int producer) {
  return *std::find_if(node.inputs.begin(), node.inputs.end(),
                       [&](const EdgePlan& e) { return e.producer == producer && !e.feedback; });
}

void report_cycle(const std::vector<int>& cycle, const std::vector<NodePlan>& nodes, Errors& errors) {
  std::vector<std::string> names;
  for (const int i : cycle) names.push_back(nodes[static_cast<std::size_t>(i)].name);
  const EdgePlan& closing = edge_between(nodes[static_cast<std::size_t>(cycle.front())], cycle.back());
  errors.add(closing.where, fmt::format("stage '{}'", names.front()),
             fmt::format("a cycle without a feedback edge: {}; mark one edge: {{from: REF, feedback: true}}",
                         cycle_text(names)));
}

}  // namespace

void connect(FlatGraph& graph, Errors& errors) {
  Resolver resolver(graph, errors);
  for (const Instance* composite : graph.composites) check_composite(*composite, resolver);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    NodeConnector(*graph.of_node[i], graph.nodes[i], resolver, errors).run();
  }
}

std::vector<NodePlan> in_order(std::vector<NodePlan> nodes, Errors& errors) {
  std::vector<std::vector<int>> needs(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const EdgePlan& e : nodes[i].inputs) {
      if (!e.feedback) needs[i].push_back(e.producer);
    }
  }
  const Ordering ordering = order_by_needs(needs);
  for (const std::vector<int>& cycle : ordering.cycles) report_cycle(cycle, nodes, errors);
  std::vector<int> position(nodes.size());
  std::vector<NodePlan> sorted;
  for (const int i : ordering.order) {
    position[static_cast<std::size_t>(i)] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(nodes[static_cast<std::size_t>(i)]));
  }
  for (NodePlan& node : sorted) {
    for (EdgePlan& e : node.inputs) e.producer = position[static_cast<std::size_t>(e.producer)];
  }
  return sorted;
}

}  // namespace flow::config
