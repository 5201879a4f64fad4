// The command line tool: loads a graph, then checks, describes, draws, plans or runs it.
#pragma once

namespace flow {

/// What main() does. Returns the exit code: 0 done, 1 the run failed, 2 wrong usage or graph, 130
/// interrupted. Results go to standard output; errors ("error: ...") and remarks to standard error.
int run_command_line(int argc, char** argv);

}  // namespace flow
