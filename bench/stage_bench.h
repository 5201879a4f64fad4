// Any stage of any pipeline under Google Benchmark, with the inputs it gets in a real run.
#pragma once

#include <filesystem>
#include <string>

#include "framework/config/load.h"

namespace dsv::bench {

struct StageBench {
  flow::LoadRequest graph;
  std::string stage;             ///< full name, a pattern, or a name with parts left out
  std::size_t invocations = 2;   ///< of each stage, each a benchmark of its own
  std::filesystem::path folder;  ///< where the disk is measured, for stages that read
};

/// Runs the pipeline once for each stage, records its first invocations, and registers a benchmark for each:
/// "stage/sequence.step", with the counters bytes_per_second and items_per_second as far as the stage counts
/// them, and of_read_bandwidth or of_disk = these bytes over what the machine reads from memory or disk.
flow::Status register_stages(const StageBench& bench);

}  // namespace dsv::bench
