#include "framework/cli/arguments.h"

#include <boost/program_options.hpp>
#include <sstream>
#include <utility>

#include "framework/cli/files.h"
#include "framework/config/names.h"
#include "framework/core/data_dirs.h"

namespace flow::cli {
namespace {

namespace po = boost::program_options;
using Texts = std::vector<std::string>;

struct OptionText {
  const char* name;
  const char* value;  // null for a switch
  bool many;
  const char* doc;
};

constexpr OptionText kOptions[] = {
    {"set", "NAME=VALUE", true,
     "give a parameter a value. Unless it is a path, =@FILE reads it from a file and =- from standard input "
     "(without the newline at the end), and =@@TEXT means @TEXT"},
    {"swap", "PATTERN=TYPE", true,
     "give the stages with matching names another type, for example layers.*.attention=DenseAttention; "
     "* stands for anything within a part of a name, ** for anything"},
    {"check", nullptr, false, "check the graph and stop"},
    {"dry-run", nullptr, false, "print the memory and I/O that a run needs and stop"},
    {"dot", "FILE", false, "draw the graph for Graphviz and stop; with --trace run it and show times"},
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

po::options_description described_options() {
  po::options_description all("Options", 100, 60);
  for (const OptionText& o : kOptions) {
    if (!o.value) {
      all.add_options()(o.name, o.doc);
    } else if (o.many) {
      all.add_options()(o.name, po::value<Texts>()->value_name(o.value), o.doc);
    } else {
      all.add_options()(o.name, po::value<std::string>()->value_name(o.value), o.doc);
    }
  }
  return all;
}

Status unknown_option(const std::string& name) {
  Texts names;
  for (const OptionText& o : kOptions) names.push_back(std::string("--") + o.name);
  return Status::error(config::unknown_name("option", name, names));
}

Result<po::variables_map> read_options(int argc, const char* const* argv) {
  po::options_description all = described_options();
  all.add_options()("file", po::value<Texts>());
  po::positional_options_description files;
  files.add("file", -1);
  const int style = po::command_line_style::unix_style ^ po::command_line_style::allow_guessing;
  try {
    po::variables_map map;
    po::store(po::command_line_parser(argc, argv).options(all).positional(files).style(style).run(), map);
    return map;
  } catch (const po::unknown_option& e) {
    return unknown_option(e.get_option_name());
  } catch (const po::error& e) {
    return Status::error(e.what());
  }
}

Texts texts(const po::variables_map& map, const char* name) {
  return map.count(name) ? map[name].as<Texts>() : Texts();
}

std::optional<std::string> text(const po::variables_map& map, const char* name) {
  return map.count(name) ? std::optional(map[name].as<std::string>()) : std::nullopt;
}

// "--set name=value" and the like.
Result<std::vector<std::pair<std::string, std::string>>> pairs(const po::variables_map& map,
                                                               const char* option, std::string_view form) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& item : texts(map, option)) {
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      return errorf("--{} {}: expected {}", option, item, form);
    }
    result.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return result;
}

// What "@FILE", "-" and "@@TEXT" stand for. Standard input can be read once.
std::function<Result<std::string>(const std::string&)> value_reader() {
  return [used = false](const std::string& text) mutable -> Result<std::string> {
    if (text.starts_with("@@")) return text.substr(1);
    if (text.starts_with('@')) return read_value(text.substr(1));
    if (text != "-") return text;
    if (std::exchange(used, true)) return errorf("standard input is read by another --set");
    return read_value("-");
  };
}

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
  FLOW_ASSIGN(const po::variables_map map, read_options(argc, argv));
  Arguments arguments;
  arguments.graph.files = texts(map, "file");
  arguments.graph.data_dirs = data_dirs();
  FLOW_ASSIGN(arguments.graph.sets, pairs(map, "set", "NAME=VALUE"));
  FLOW_ASSIGN(arguments.graph.swaps, pairs(map, "swap", "PATTERN=TYPE"));
  FLOW_ASSIGN(const auto taps, pairs(map, "tap", "PORT=FILE"));
  for (const auto& [port, path] : taps) arguments.taps.push_back({port, path});
  arguments.check = map.count("check") > 0;
  arguments.dry_run = map.count("dry-run") > 0;
  arguments.quiet = map.count("quiet") > 0;
  arguments.help = map.count("help") > 0;
  arguments.list_stages = map.count("list-stages") > 0;
  arguments.version = map.count("version") > 0;
  arguments.describe = text(map, "describe");
  arguments.dot = text(map, "dot");
  arguments.trace = text(map, "trace");
  arguments.json = text(map, "json");
  FLOW_TRY(check_files(arguments));
  if (!arguments.help) arguments.graph.read_set = value_reader();
  return arguments;
}

std::string usage() {
  std::ostringstream text;
  text << "usage: dsv41-run FILE [OVERLAY...] [options]\n\n"
          "Runs the pipeline FILE, a YAML graph. A FILE that is not in the working directory is looked for "
          "among\nthe installed ones: `dsv41-run greedy` runs pipelines/greedy.yaml.\n\n"
       << described_options()
       << "\nExit codes: 0 done, 1 the run failed, 2 wrong usage or graph, 130 interrupted.\n";
  return text.str();
}

}  // namespace flow::cli
