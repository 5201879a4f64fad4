#include "framework/cli/arguments.h"

#include "framework/cli/command_line.h"
#include "framework/core/data_dirs.h"

namespace flow::cli {
namespace {

constexpr OptionText kOptions[] = {
    {"set", "NAME=VALUE", true,
     "give a parameter a value. Unless it is a path, =@FILE reads it from a file and =- from standard input "
     "(without the newline at the end), and =@@TEXT means @TEXT"},
    {"swap", "PATTERN=TYPE", true,
     "give the stages with matching names another type, for example layers.*.attention=DenseAttention; "
     "* stands for anything within a part of a name, ** for anything"},
    {"check", nullptr, false, "check the graph and stop"},
    {"dry-run", nullptr, false, "print the memory and I/O that a run needs and stop"},
    {"dot", "FILE", false,
     "draw the graph and stop, as SVG for FILE.svg, otherwise for Graphviz; with --trace run it and show "
     "times"},
    {"tap", "PORT=FILE", true,
     "record all packets of an output, for example layers.3.attention.y=y.safetensors"},
    {"trace", "FILE", false, "write what ran when (Chrome trace format) and print a summary"},
    {"quiet", nullptr, false, "no remarks on standard error; errors are still shown"},
    {"json", "FILE", false, "write the results as JSON; with - the JSON is all that goes to standard output"},
    {"help", nullptr, false, "this text; with FILE the parameters of that pipeline"},
    {"list-stages", nullptr, false, "list all stages, services and values; with FILE also its plugins'"},
    {"describe", "TYPE", false, "describe a stage, service or value: ports, options, services used"},
    {"version", nullptr, false, "print the version"},
};

Status check_files(const Arguments& arguments) {
  const bool needs_none = arguments.help || arguments.list_stages || arguments.describe || arguments.version;
  if (arguments.graph.files.empty() && !needs_none) {
    return errorf("no pipeline is given; --help shows the usage");
  }
  if (arguments.json == "-" && arguments.dot == "-") return errorf("--json - and --dot - exclude each other");
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
