// Other programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace flow::cli {

/// What another program left behind.
struct Finished {
  int code = 0;  ///< exit code; 127: there is no such program; 128 plus the signal that ended it
  std::string output;
};

/// Runs a program, looked for in PATH, to its end, and collects its standard output. Standard error is shared.
Result<Finished> run_program(const std::vector<std::string>& command, std::string_view input);

}  // namespace flow::cli
