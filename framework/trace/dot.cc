#include "framework/trace/dot.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <memory>
#include <vector>

#include "framework/trace/summary.h"

namespace flow {
namespace {

/// Stages and composites of one composite.
struct Cluster {
  std::vector<std::size_t> nodes;
  std::map<std::string, std::unique_ptr<Cluster>> children;
};

/// A DOT string; `\n` in it is a line break, as in JSON.
std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(text));
}

Cluster clusters_of(const GraphPlan& plan) {
  Cluster root;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    Cluster* cluster = &root;
    std::string_view rest = plan.nodes[i].name;
    for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      auto& child = cluster->children[std::string(rest.substr(0, dot))];
      if (!child) child = std::make_unique<Cluster>();
      cluster = child.get();
      rest.remove_prefix(dot + 1);
    }
    cluster->nodes.push_back(i);
  }
  return root;
}

class Drawing {
 public:
  Drawing(const GraphPlan& plan, const Trace* trace) : plan_(plan) {
    if (!trace) return;
    for (StageSummary& row : summarize(*trace)) {
      longest_ = std::max(longest_, row.total);
      times_.emplace(row.name, std::move(row));
    }
  }

  std::string draw() {
    text_ =
        "digraph {\n  rankdir=TB;\n  node [shape=box, style=filled, fillcolor=white, fontname=sans];\n"
        "  edge [fontname=sans, fontsize=10];\n";
    draw_cluster(clusters_of(plan_), "");
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      for (const EdgePlan& edge : plan_.nodes[i].inputs) draw_edge(edge, i);
    }
    return std::move(text_ += "}\n");
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void draw_cluster(const Cluster& cluster, const std::string& path) {
    for (const std::size_t node : cluster.nodes) draw_node(node);
    for (const auto& [name, child] : cluster.children) {
      const std::string full = path.empty() ? name : path + "." + name;
      line("subgraph {} {{ label={}; color=gray;", json_text("cluster_" + full), json_text(full));
      draw_cluster(*child, full);
      line("}}");
    }
  }

  void draw_node(std::size_t index) {
    const NodePlan& node = plan_.nodes[index];
    std::string label = node.name + "\n" + node.stage->name;
    std::string style;
    if (const auto row = times_.find(node.name); row != times_.end()) {
      const StageSummary& time = row->second;
      label += fmt::format("\n{} x {:.3f} ms, {:.1f} %", time.calls, time.mean * 1e3, time.share * 100);
      // HSV: from white to red with the share of the slowest stage.
      style = fmt::format(", fillcolor=\"0.0 {:.3f} 1.0\"", longest_ > 0 ? time.total / longest_ : 0);
    }
    if (node.executor == Executor::io) style += ", style=\"filled,rounded\"";
    line("  n{} [label={}, tooltip={}{}];", index, json_text(label), json_text(node.where.str()), style);
  }

  void draw_edge(const EdgePlan& edge, std::size_t consumer) {
    const auto producer = static_cast<std::size_t>(edge.producer);
    const PortInfo& port = plan_.nodes[producer].stage->outputs[static_cast<std::size_t>(edge.output)];
    line("  n{} -> n{} [label={}{}];", producer, consumer, json_text(port.type->name),
         edge.feedback ? ", style=dashed, constraint=false" : "");
  }

  const GraphPlan& plan_;
  std::map<std::string, StageSummary> times_;
  double longest_ = 0;
  std::string text_;
};

}  // namespace

std::string to_dot(const GraphPlan& plan, const Trace* trace) {
  return Drawing(plan, trace).draw();
}

}  // namespace flow
