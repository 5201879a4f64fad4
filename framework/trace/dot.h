// Drawings of a graph, for Graphviz.
#pragma once

#include <string>

#include "framework/core/plan.h"
#include "framework/trace/recorder.h"

namespace flow {

/// The graph in DOT: a box for each stage, composites as clusters, edges labelled with their packet type,
/// feedback edges dashed, I/O stages rounded. With a trace, boxes are coloured by their share of the run's
/// time and show it.
std::string to_dot(const GraphPlan& plan, const Trace* trace = nullptr);

}  // namespace flow
