// Finding and reading graph files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/yaml.h"

namespace flow::config {

/// Files larger than this are refused.
inline constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

/// The documents of one load; each file is read once.
class Files {
 public:
  Files(std::vector<std::filesystem::path> data_dirs, Errors& errors)
      : data_dirs_(std::move(data_dirs)), errors_(errors) {}

  /// A pipeline as the user names it: a path, or the name of a file of a data folder or of its pipelines/,
  /// with or without ".yaml".
  Result<std::string> find_pipeline(const std::string& name) const;
  /// The `base` of a pipeline: beside the file that names it, or as the user would name it.
  Result<std::string> find_base(const std::string& name, const std::string& named_in) const;
  /// The file of a composite: beside the file that names it, or in graphs/ of a data folder.
  Result<std::string> find_composite(const std::string& name, const std::string& named_in) const;

  /// The document, a map; nullptr after an error in the file, which is reported. The error says why the
  /// file cannot be read.
  Result<const YamlNode*> load(const std::string& path);

 private:
  std::vector<std::filesystem::path> data_dirs_;
  Errors& errors_;
  std::map<std::string, std::optional<YamlNode>> documents_;
};

}  // namespace flow::config
