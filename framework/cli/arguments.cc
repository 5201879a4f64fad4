#include "framework/cli/arguments.h"

#include <filesystem>
#include <map>

#include "framework/cli/command_line.h"
#include "framework/core/data_dirs.h"
#include "framework/core/output_file.h"

namespace flow::cli {
namespace {

constexpr OptionText kOptions[] = {
    {"set", "NAME=VALUE", true,
     "give a parameter a value. Unless it is a path, =@FILE reads it from a file and =- from standard input "
     "(without the newline at the end), and =@@TEXT means @TEXT"},
    {"swap", "PATTERN=TYPE", true,
     "give the stages with matching names another type, for example backbone.layers.*.attention=MyAttention "
     "of a plugin; * stands for anything within a part of a name, ** for anything"},
    {"check", nullptr, false, "check the graph and stop"},
    {"dry-run", nullptr, false, "print the memory and I/O that a run needs and stop"},
    {"dot", "FILE", false,
     "draw the graph and stop, as SVG for FILE.svg, otherwise for Graphviz; with --trace run it and show "
     "times"},
    {"tap", "PORT=FILE", true,
     "record all packets of an output, for example backbone.layers.3.attention.y=y.safetensors"},
    {"trace", "FILE", false,
     "write what ran when (Chrome trace format) and print a summary; - is standard output, as for --json and "
     "--dot"},
    {"quiet", nullptr, false, "no remarks on standard error; errors are still shown"},
    {"json", "FILE", false, "write the results as JSON; with - the JSON is all that goes to standard output"},
    {"help,h", nullptr, false, "this text; with FILE the parameters of that pipeline"},
    {"list-stages", nullptr, false, "list all stages, services and values; with FILE also its plugins'"},
    {"describe", "TYPE", false, "describe a stage, service or value: ports, options, services used"},
    {"version", nullptr, false, "print the version"},
};

/// Pairs of options of which one would be ignored.
constexpr const char* kExclusive[][2] = {{"check", "dry-run"}, {"check", "json"},    {"check", "trace"},
                                         {"dry-run", "dot"},   {"dry-run", "trace"}, {"dry-run", "tap"}};

Status check_together(const CommandLine& line) {
  for (const auto& [one, other] : kExclusive) {
    if (line.has(one) && line.has(other)) return errorf("--{} and --{} exclude each other", one, other);
  }
  for (const char* result : {"json", "tap"}) {
    if (line.has("dot") && !line.has("trace") && line.has(result)) {
      return errorf("--dot without --trace runs nothing that --{} could record", result);
    }
  }
  return {};
}

Status check_files(const Arguments& arguments) {
  if (arguments.version && !arguments.graph.files.empty()) return errorf("--version takes no FILE");
  const bool needs_none = arguments.help || arguments.list_stages || arguments.describe || arguments.version;
  if (arguments.graph.files.empty() && !needs_none) {
    return errorf("no pipeline is given; --help shows the usage");
  }
  return {};
}

/// The files that a run writes, each with its option.
std::vector<std::pair<std::string, std::string>> outputs(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> all;
  if (arguments.json) all.emplace_back("--json", *arguments.json);
  if (arguments.trace) all.emplace_back("--trace", *arguments.trace);
  if (arguments.dot) all.emplace_back("--dot", *arguments.dot);
  for (const TapRequest& tap : arguments.taps) all.emplace_back("--tap " + tap.port, tap.path);
  return all;
}

/// Each output has a name, and a file of its own. A device or a pipe takes any number.
Status check_outputs(const Arguments& arguments) {
  std::map<std::filesystem::path, std::string> writers;
  for (const auto& [option, path] : outputs(arguments)) {
    if (path.empty()) return errorf("{}: the name of the file is empty", option);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) continue;
    const auto target = path == "-" ? std::filesystem::path(path) : output_target(path);
    const auto [first, fresh] = writers.try_emplace(target, option);
    if (fresh) continue;
    const std::string what = path == "-" ? "to standard output" : fmt::format("the file '{}'", path);
    return errorf("{} and {} both write {}", first->second, option, what);
  }
  return {};
}

}  // namespace

Result<Arguments> parse_arguments(int argc, const char* const* argv) {
  FLOW_ASSIGN(const CommandLine line, CommandLine::parse(kOptions, argc, argv));
  Arguments arguments;
  arguments.graph.files = line.files();
  arguments.graph.data_dirs = data_dirs();
  FLOW_ASSIGN(arguments.graph.sets, line.pairs("set", "NAME=VALUE"));
  FLOW_ASSIGN(arguments.graph.swaps, line.pairs("swap", "PATTERN=TYPE"));
  FLOW_ASSIGN(const auto taps, line.pairs("tap", "PORT=FILE"));
  for (const auto& [port, path] : taps) arguments.taps.push_back({port, path});
  arguments.check = line.has("check");
  arguments.dry_run = line.has("dry-run");
  arguments.quiet = line.has("quiet");
  arguments.help = line.has("help");
  arguments.list_stages = line.has("list-stages");
  arguments.version = line.has("version");
  arguments.describe = line.text("describe");
  arguments.dot = line.text("dot");
  arguments.trace = line.text("trace");
  arguments.json = line.text("json");
  FLOW_TRY(check_files(arguments));
  FLOW_TRY(check_together(line));
  FLOW_TRY(check_outputs(arguments));
  if (!arguments.help) arguments.graph.read_set = value_reader();
  return arguments;
}

std::string usage() {
  return "usage: dsv41-run FILE [OVERLAY...] [options]\n\n"
         "Runs the pipeline FILE, a YAML graph. A FILE that is not in the working directory is looked for "
         "among\nthe installed ones: `dsv41-run greedy` runs pipelines/greedy.yaml.\n\n" +
         option_list(kOptions) +
         "\nExit codes: 0 done, 1 the run failed, 2 wrong usage or graph, 130 interrupted.\n";
}

}  // namespace flow::cli
