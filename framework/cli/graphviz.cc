#include "framework/cli/graphviz.h"

#include "framework/cli/subprocess.h"

namespace flow::cli {

Result<std::string> to_svg(const std::string& dot) {
  FLOW_ASSIGN(Finished drawn, run_program({"dot", "-Tsvg"}, dot));
  if (drawn.code == 127) return errorf("SVG drawings need Graphviz, whose program 'dot' is not installed");
  if (drawn.code != 0) return errorf("'dot' failed with code {}", drawn.code);
  return std::move(drawn.output);
}

}  // namespace flow::cli
