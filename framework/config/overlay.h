// Overlays and --swap: changes to a pipeline that select stages by name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/config/files.h"
#include "framework/config/load.h"
#include "framework/config/yaml.h"

namespace flow::config {

/// Changes to the entries of stages, applied while the graph is flattened.
class Patches {
 public:
  /// Changes every stage, composite and repeated entry whose full name matches `pattern`.
  void add(const std::string& pattern, const YamlNode& fields, const Location& where);
  /// Replaces the type of every stage (not composite) whose full name matches `pattern`.
  void add_swap(const std::string& pattern, const std::string& type);

  /// The entry of the stage `name` after all patches that select it; nullopt when none does. `in`,
  /// `options`, `params` and `services` are merged key by key, other keys are replaced; a null removes.
  std::optional<YamlNode> apply(const std::string& name, const YamlNode& entry);
  /// Reports the patches that selected nothing.
  void report_unused(Errors& errors) const;

 private:
  struct Patch {
    std::string pattern;
    YamlNode fields;
    Location where;
    bool swap = false;
    bool used = false;
  };
  std::vector<Patch> patches_;
  std::set<std::string> names_;  // all that were asked for, and with '*' for instance numbers
};

/// A pipeline with its overlays merged.
struct PipelineSource {
  YamlNode root;
  Patches patches;
};

/// Reads the files of `request`; nullopt after errors that leave nothing to work on.
std::optional<PipelineSource> read_pipeline(const LoadRequest& request, Files& files, Errors& errors);

}  // namespace flow::config
