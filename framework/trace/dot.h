// Drawings of a graph, for Graphviz.
#pragma once

#include <string>

#include "framework/core/plan.h"
#include "framework/trace/recorder.h"

namespace flow {

/// The graph in DOT: one box for each stage, composites as clusters, edges labelled with their packet type,
/// feedback edges dashed. With a recorder, boxes are coloured by their share of the time and show it.
std::string to_dot(const GraphPlan& plan, const Recorder* recorder = nullptr);

}  // namespace flow
