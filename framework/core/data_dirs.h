// Where graphs, pipelines and other data of the program are found.
#pragma once

#include <filesystem>
#include <vector>

namespace flow {

/// Folders that hold `graphs/` and `pipelines/`, in the order of search: $DSV41_HOME when set, then
/// ../share/dsv41-run beside the running program, then the source tree the program was built from.
/// Only folders that exist are listed.
std::vector<std::filesystem::path> data_dirs();

}  // namespace flow
