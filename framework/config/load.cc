#include "framework/config/load.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "framework/config/connect.h"
#include "framework/config/params.h"
#include "framework/core/exception.h"
#include "framework/runtime/plugin.h"

namespace flow {
namespace {

using namespace config;  // NOLINT: this file is its door

OptionSet runtime_options() {
  OptionSet set;
  set.make = [] { return std::make_shared<RuntimePlan>(); };
  add_option(set, "threads", &RuntimePlan::threads, "compute threads; 0 = all the process may use")
      .range(0, 4096);
  add_option(set, "io_threads", &RuntimePlan::io_threads, "threads of the I/O executor").range(1, 4096);
  add_option(set, "max_in_flight", &RuntimePlan::max_in_flight, "source invocations in flight")
      .range(1, 1 << 20);
  add_option(set, "watchdog", &RuntimePlan::watchdog,
             "seconds without progress until the run ends; 0 = never")
      .range(0);
  return set;
}

// A plugin lies beside the file that names it, or in a folder of LD_LIBRARY_PATH.
std::filesystem::path plugin_path(const YamlNode& plugin) {
  std::vector<std::filesystem::path> folders = {std::filesystem::path(plugin.where.file).parent_path()};
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::istringstream entries(path ? path : "");
  for (std::string folder; std::getline(entries, folder, ':');) folders.emplace_back(folder);
  for (const auto& folder : folders) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / plugin.text, ignored)) return folder / plugin.text;
  }
  return plugin.text;
}

// One load, section by section. Each step reports its errors and leaves the next ones something to work on.
class Loader {
 public:
  explicit Loader(const LoadRequest& request)
      : request_(request),
        files_(request.data_dirs, errors_),
        source_(read_pipeline(request, files_, errors_)) {
    if (!source_) return;
    for (const std::string& name : Registry::instance().conflicts()) {
      errors_.add({}, "", fmt::format("'{}' is registered twice", name));
    }
    if (!load_plugins()) return;
    decls_ = read_param_decls(source_->root.find("params"), errors_);
    set_params(decls_, params_from_text(decls_, request, errors_), params_, errors_);
    ready_ = true;
  }

  LoadOutcome graph() {
    if (!ready_) return {std::nullopt, errors_.lines()};
    GraphPlan plan;
    plan.file = source_->root.where.file;
    require_params();
    load_values(section("values"), params_, values_, errors_);
    read_runtime(plan);
    ServiceTable services(section("services"), params_, errors_);
    FlatGraph graph;
    Flattener(files_, source_->patches, services, values_, errors_).run(source_->root, params_, graph);
    if (errors_.empty()) source_->patches.report_unused(errors_);
    connect(graph, errors_);
    plan.nodes = in_order(std::move(graph.nodes), errors_);
    if (!errors_.empty()) return {std::nullopt, errors_.lines()};
    plan.services = services.take();
    for (const ParamDecl& decl : decls_) plan.params[decl.info.name] = **params_.find(decl.info.name);
    return {std::move(plan), {}};
  }

  Result<PipelineHelp> help() {
    if (!errors_.empty()) return errorf("{}", fmt::join(errors_.lines(), "\n"));
    PipelineHelp help{source_->root.where.file, doc_text(source_->root), {}};
    for (const ParamDecl& decl : decls_) {
      help.params.push_back(decl.info);
      if (const Value& value = *params_.find(decl.info.name)) help.params.back().default_value = *value;
    }
    return help;
  }

 private:
  const YamlNode* section(std::string_view name) const { return source_->root.find(name); }

  // False when a type may be missing for want of its plugin.
  bool load_plugins() {
    const YamlNode* plugins = section("plugins");
    if (!plugins) return true;
    if (!plugins->is_list()) {
      errors_.add(plugins->where, "plugins", fmt::format("expected a list, found {}", plugins->shown()));
    }
    bool loaded = true;
    for (const YamlNode& plugin : plugins->items) {
      const Status status = load_plugin(plugin_path(plugin));
      if (!status.ok()) errors_.add(plugin.where, "", status);
      loaded = loaded && status.ok();
    }
    return loaded;
  }

  void require_params() {
    for (const ParamDecl& decl : decls_) {
      const std::string& name = decl.info.name;
      const bool given = std::any_of(request_.sets.begin(), request_.sets.end(),
                                     [&](const auto& set) { return set.first == name; });
      if (given || !decl.info.required || decl.broken) continue;
      errors_.add(decl.where, fmt::format("param '{}'", name),
                  fmt::format("has no default; give it a value with --set {}=...", name));
    }
  }

  void read_runtime(GraphPlan& plan) {
    const YamlNode* runtime = section("runtime");
    if (!runtime) return;
    if (!runtime->is_map()) {
      errors_.add(runtime->where, "runtime", fmt::format("expected a map, found {}", runtime->shown()));
    }
    const auto options = read_options(runtime_options(), *runtime, {}, params_, "runtime", errors_);
    plan.runtime = *std::static_pointer_cast<RuntimePlan>(options);
  }

  const LoadRequest& request_;
  Errors errors_;
  Files files_;
  std::optional<PipelineSource> source_;
  std::vector<ParamDecl> decls_;
  Scope values_;
  Scope params_{&values_};
  bool ready_ = false;  // for what comes after the params
};

}  // namespace

LoadOutcome load_graph(const LoadRequest& request) {
  try {
    return Loader(request).graph();
  } catch (...) {
    return {std::nullopt, {exception_status().in("while loading the graph").message()}};
  }
}

Result<PipelineHelp> describe_pipeline(const LoadRequest& request) {
  try {
    return Loader(request).help();
  } catch (...) {
    return exception_status().in("while loading the graph");
  }
}

}  // namespace flow
