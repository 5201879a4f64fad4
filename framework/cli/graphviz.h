// Drawing with Graphviz, where it is installed.
#pragma once

#include <string>

#include "framework/core/status.h"

namespace flow::cli {

/// The drawing of a DOT text as SVG, made by the program `dot`. Errors: it is not installed, or fails.
Result<std::string> to_svg(const std::string& dot);

}  // namespace flow::cli
