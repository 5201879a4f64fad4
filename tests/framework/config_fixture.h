// A temporary folder as working directory, so that places in messages are short.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "framework/config/load.h"

namespace flow_test {

class GraphTest : public testing::Test {
 protected:
  GraphTest() : home_(std::filesystem::current_path()) {
    folder_ = std::filesystem::temp_directory_path() /
              ("flow_graph_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
  }
  ~GraphTest() override {
    std::filesystem::current_path(home_);
    std::filesystem::remove_all(folder_);
  }

  void write(const std::string& name, const std::string& text) {
    const auto parent = std::filesystem::path(name).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent);
    std::ofstream(name, std::ios::binary) << text;
  }

  /// Loads x.yaml with this text.
  flow::LoadOutcome load(const std::string& text, flow::LoadRequest request = {}) {
    write("x.yaml", text);
    request.files.insert(request.files.begin(), "x.yaml");
    return flow::load_graph(request);
  }

  /// The plan of a graph that must load.
  flow::GraphPlan plan(const std::string& text, flow::LoadRequest request = {}) {
    flow::LoadOutcome outcome = load(text, std::move(request));
    for (const std::string& error : outcome.errors) ADD_FAILURE() << error;
    return outcome.plan ? *std::move(outcome.plan) : flow::GraphPlan();
  }

 private:
  std::filesystem::path home_, folder_;
};

/// The edges of a plan as "consumer.input <- producer.output", feedback edges with "<~".
inline std::vector<std::string> edges(const flow::GraphPlan& plan) {
  std::vector<std::string> lines;
  for (const flow::NodePlan& node : plan.nodes) {
    for (const flow::EdgePlan& e : node.inputs) {
      const flow::NodePlan& from = plan.nodes[static_cast<std::size_t>(e.producer)];
      lines.push_back(fmt::format(
          "{}.{} {} {}.{}", node.name, node.stage->inputs[static_cast<std::size_t>(e.input)].name,
          e.feedback ? "<~" : "<-", from.name, from.stage->outputs[static_cast<std::size_t>(e.output)].name));
    }
  }
  return lines;
}

inline std::vector<std::string> node_names(const flow::GraphPlan& plan) {
  std::vector<std::string> names;
  for (const flow::NodePlan& node : plan.nodes) names.push_back(node.name);
  return names;
}

/// The options of a node, which must be of this type.
template <class Options>
const Options& options(const flow::GraphPlan& plan, std::string_view node) {
  return *static_cast<const Options*>(plan.nodes.at(static_cast<std::size_t>(plan.node(node))).options.get());
}

}  // namespace flow_test
