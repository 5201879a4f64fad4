// From YAML files to a checked GraphPlan.
//
// A graph file is read, its overlays are merged, parameters and values are evaluated, composites and
// repeats are flattened, and every edge, option and service is checked before anything is opened. All
// errors of the file, its overlays and its composites are reported together.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/plan.h"

namespace flow {

/// What to load.
struct LoadRequest {
  std::vector<std::string> files = {};                          ///< the pipeline, then its overlays in order
  std::vector<std::pair<std::string, std::string>> sets = {};   ///< --set: parameter, text of its value
  std::vector<std::pair<std::string, std::string>> swaps = {};  ///< --swap: pattern of names, stage type
  std::vector<std::filesystem::path> data_dirs = {};            ///< folders with graphs/ and pipelines/
  /// Which option gave a parameter its value, for messages, where that is not --set.
  std::map<std::string, std::string> set_options = {};
  /// The text that a text of `sets` stands for, such as the content of a file. Not asked for parameters
  /// that are paths. Null: the text itself.
  std::function<Result<std::string>(const std::string& text)> read_set = nullptr;
};

/// The plan, or why there is none.
struct LoadOutcome {
  std::optional<GraphPlan> plan;    ///< present exactly when there are no errors
  std::vector<std::string> errors;  ///< one line each, sorted by place: "file:line:column: subject: message"
};

/// What `--help FILE` shows.
struct PipelineHelp {
  std::string file;
  std::string doc;
  std::vector<OptionInfo> params;  ///< in the order of the file; default_value is null when required
};

/// Loads and checks a graph. Loads its plugins into the process. Never throws.
LoadOutcome load_graph(const LoadRequest& request);

/// Documentation and parameters of a pipeline (with overlays and --set applied to the defaults); loads its
/// plugins. The message of the error has one line for each error.
Result<PipelineHelp> describe_pipeline(const LoadRequest& request);

}  // namespace flow
