// The tool that compares two pipelines.
#pragma once

namespace flow {

/// What main() of dsv41-compare does: runs two pipelines with the same parameters in turn, and prints the
/// time of each stage side by side and how far the results are apart. Returns the exit code: 0 done (also
/// when the results differ), 1 a run failed, 2 wrong usage or graph, 130 interrupted.
int run_compare_command_line(int argc, char** argv);

}  // namespace flow
