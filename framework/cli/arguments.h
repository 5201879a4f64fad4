// The arguments of the command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/runtime/runner.h"

namespace flow::cli {

struct Arguments {
  LoadRequest graph;  ///< files, --set, --swap; data folders
  std::vector<TapRequest> taps;
  bool check = false, dry_run = false, quiet = false;
  bool help = false, list_stages = false, version = false;
  std::optional<std::string> describe;          ///< name of a stage, service or value type
  std::optional<std::string> dot, trace, json;  ///< file names; "-" is standard output

  /// Whether standard output belongs to one of these files.
  bool takes_stdout() const { return dot == "-" || trace == "-" || json == "-"; }
};

/// Errors: unknown options (with the nearest one), malformed values, nothing to do.
Result<Arguments> parse_arguments(int argc, const char* const* argv);

/// The text of --help.
std::string usage();

}  // namespace flow::cli
