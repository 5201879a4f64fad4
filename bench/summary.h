// One table of what several benchmark programs measured.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/core/status.h"

namespace dsv::bench {

/// Runs the benchmark programs, "folder/name" below `root`, with these --benchmark_* arguments, and gives one
/// table: a line for each benchmark with its time, bytes/s, items/s and counters. Programs report progress on
/// standard error. A program that is not built, fails or reports nonsense is an error naming it.
flow::Result<std::string> summarize_programs(const std::filesystem::path& root,
                                             const std::vector<std::string>& programs,
                                             const std::vector<std::string>& arguments);

/// The rows of one program's JSON report.
flow::Result<std::vector<std::vector<std::string>>> summary_rows(const std::string& program,
                                                                 const std::string& report);

}  // namespace dsv::bench
