#include "framework/config/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "framework/config/utf8.h"
#include "framework/core/names.h"

namespace flow::config {
namespace fs = std::filesystem;
namespace {

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_directory(path, ignored);
}

// What `name`, a path relative to one of these folders, could have meant: the YAML files next to it.
std::vector<std::string> yaml_files(const std::vector<fs::path>& folders, const std::string& name) {
  const fs::path parent = fs::path(name).parent_path();
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator it(folder / parent, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".yaml") names.push_back((parent / it->path().filename()).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> read_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return errorf("'{}' is a folder, expected a YAML file", path);
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return errorf("cannot read '{}': {}", path, std::strerror(errno));
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return errorf("cannot read '{}': {}", path, std::strerror(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kMaxFileBytes) {
    return errorf("'{}' is larger than {} bytes, the limit for a graph file", path, kMaxFileBytes);
  }
  return text;
}

// YAML is UTF-8 text. Reports the first character that is not.
bool check_text(std::string_view text, const std::string& file, Errors& errors) {
  Location where{file, 1, 1};
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool control = byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t';
    if (length == 0 || control) {
      errors.add(where, "",
                 fmt::format("{} 0x{:02x}", control ? "control character" : "not UTF-8: byte", byte));
      return false;
    }
    ++where.column;
    if (byte == '\n') where = {file, where.line + 1, 1};
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

Result<std::string> Files::find_pipeline(const std::string& name) const {
  std::error_code ignored;
  if (is_file(name)) return name;
  std::vector<fs::path> searched = {"."};
  for (const fs::path& dir : data_dirs_) {
    for (const fs::path& candidate :
         {dir / name, dir / "pipelines" / name, dir / "pipelines" / (name + ".yaml")}) {
      if (is_file(candidate)) return candidate.string();
    }
    searched.insert(searched.end(), {dir, dir / "pipelines"});
  }
  if (fs::is_directory(name, ignored)) return errorf("'{}' is a folder, expected a YAML file", name);
  return Status::error(unknown_name("file", name, yaml_files(searched, name)));
}

Result<std::string> Files::find_base(const std::string& name, const std::string& named_in) const {
  const fs::path beside = (fs::path(named_in).parent_path() / name).lexically_normal();
  return is_file(beside) ? beside.string() : find_pipeline(name);
}

Result<std::string> Files::find_composite(const std::string& name, const std::string& named_in) const {
  std::vector<fs::path> searched = {fs::path(named_in).parent_path()};
  for (const fs::path& dir : data_dirs_) searched.push_back(dir / "graphs");
  for (const fs::path& folder : searched) {
    const fs::path candidate = (folder / name).lexically_normal();
    if (is_file(candidate)) return candidate.string();
  }
  if (searched[0].empty()) searched[0] = ".";
  std::error_code ignored;
  if (fs::is_directory(searched[0] / name, ignored))
    return errorf("'{}' is a folder, expected a YAML file", name);
  return Status::error(unknown_name("file", name, yaml_files(searched, name)));
}

Result<const YamlNode*> Files::load(const std::string& path) {
  if (const auto known = documents_.find(path); known != documents_.end()) {
    return known->second ? &*known->second : nullptr;
  }
  std::optional<YamlNode>& document = documents_[path];
  FLOW_ASSIGN(const std::string text, read_file(path));
  errors_.order(path);
  if (!check_text(text, path, errors_)) return nullptr;
  document = parse_yaml(text, path, errors_);
  if (document && !document->is_map()) {
    const std::string found = document->is_null() ? "an empty file" : document->shown();
    errors_.add(document->where, "", fmt::format("expected a map with stages, found {}", found));
    document.reset();
  }
  return document ? &*document : nullptr;
}

}  // namespace flow::config
