// GraphPlan: a graph after loading - checked, flattened, every name resolved. Made by framework/config,
// run by framework/runtime, drawn by framework/trace.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/registry.h"

namespace flow {

/// A place in a YAML file; lines and columns count from 1.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  std::string str() const { return fmt::format("{}:{}:{}", file, line, column); }
};

struct ServicePlan {
  std::string name;
  Location where;
  const ServiceInfo* type = nullptr;
  std::shared_ptr<void> options;  ///< the type's Options object, filled and checked
  std::vector<int> uses;          ///< for each TypeInfo::uses: index into GraphPlan::services
};

/// One edge, seen from its consumer.
struct EdgePlan {
  int input = 0;     ///< consumer's input port
  int producer = 0;  ///< index into GraphPlan::nodes
  int output = 0;    ///< producer's output port
  bool feedback = false;
  Location where;
};

struct NodePlan {
  std::string name;  ///< full name: "layers.7.attention"
  Location where;
  const StageInfo* stage = nullptr;
  std::shared_ptr<void> options;
  std::vector<int> uses;
  std::vector<EdgePlan> inputs;  ///< edges of one many-input are in YAML order
  Executor executor = Executor::compute;
};

/// `runtime:` section of a graph.
struct RuntimePlan {
  int threads = 0;        ///< compute threads; 0 = all the process may use
  int io_threads = 4;     ///< threads for stages on the I/O executor
  int max_in_flight = 4;  ///< source invocations in flight; bounds every edge
  double watchdog = 120;  ///< seconds without progress until the run is ended; 0 = never
};

struct GraphPlan {
  std::string file;
  RuntimePlan runtime;
  boost::json::object params;         ///< resolved parameters, for reports
  std::vector<ServicePlan> services;  ///< in opening order
  std::vector<NodePlan> nodes;        ///< producers before consumers, feedback edges aside

  int node(std::string_view name) const {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }
};

}  // namespace flow
