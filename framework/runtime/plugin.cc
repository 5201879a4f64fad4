#include "framework/runtime/plugin.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "framework/core/plugin_abi.h"
#include "framework/core/registry.h"

namespace flow {

template <>
const char CurrentPluginAbi::symbol[] = "the layout of this program";

namespace {

/// The loader's words, or what to do when it is the layout that differs.
Status load_error(const std::filesystem::path& path) {
  const char* words = dlerror();
  const std::string text = words ? words : "unknown reason";
  if (text.find("PluginAbi") == std::string::npos) {
    return errorf("cannot load plugin '{}': {}", path.string(), text);
  }
  return errorf("plugin '{}' was built for another version of the framework; build it anew", path.string());
}

}  // namespace

Status load_plugin(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return errorf("plugin '{}' does not exist", path.string());
  const std::size_t conflicts = Registry::instance().conflicts().size();
  // An absolute path: the loader searches its own directories for a bare name. Stage types must stay.
  void* library =
      dlopen(std::filesystem::absolute(path, error).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) return load_error(path);
  if (!dlsym(library, "flow_plugin_abi")) {
    return errorf("'{}' is not a plugin: it has no FLOW_PLUGIN()", path.string());
  }
  const auto& all = Registry::instance().conflicts();
  if (all.size() == conflicts) return {};
  const std::vector<std::string> names(all.begin() + static_cast<std::ptrdiff_t>(conflicts), all.end());
  return errorf("plugin '{}' registers names that exist already: {}", path.string(), fmt::join(names, ", "));
}

}  // namespace flow
