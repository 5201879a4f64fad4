// Texts that describe stages, services, values, pipelines and plans to people.
#pragma once

#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/registry.h"

namespace flow::cli {

/// Every registered stage, service and value with the first sentence of its documentation.
std::string list_types(const Registry& registry);

/// Documentation, ports, options, services and executor of a type. The error has the nearest name.
Result<std::string> describe_type(const Registry& registry, const std::string& name);

/// Documentation and parameters of a pipeline.
std::string describe_help(const PipelineHelp& help);

/// The plan of `--dry-run` as a table with totals.
std::string plan_table(const std::vector<PlanLine>& lines);

/// The sum of all lines.
PlanLine plan_total(const std::vector<PlanLine>& lines);

}  // namespace flow::cli
