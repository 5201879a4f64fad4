// The edges of the flattened graph, checked, and its nodes in topological order.
#pragma once

#include "framework/config/flatten.h"

namespace flow::config {

/// Fills the inputs of every node; checks names, types and arities, also those of composites.
void connect(FlatGraph& graph, Errors& errors);

/// The nodes with producers before consumers, feedback edges aside. Cycles of other edges are reported.
std::vector<NodePlan> in_order(std::vector<NodePlan> nodes, Errors& errors);

}  // namespace flow::config
